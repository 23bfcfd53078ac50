//! Weights in the order in which the micro-kernel reads them.

use rayon::prelude::*;

use crate::{AlignedFloats, driver::PanelSource, micro::Kernel};

/// Maximum depth of a block. A panel of this depth fills most of a first-level cache of 32 KiB. But
/// products of this depth, which many encoders have, then access their output only once; measured,
/// that is 5 to 8 % faster than [`crate::KBLOCK`].
const DEPTH: usize = 384;

/// A weight matrix in panels for one kernel. Takes `ceil(n / width) · width · k` floats, the last
/// panel padded with zeros.
#[derive(Clone)]
pub struct PackedMatrix {
    panels: AlignedFloats,
    n: usize,
    k: usize,
    kernel: &'static Kernel,
}

impl std::fmt::Debug for PackedMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedMatrix({} x {}, {})", self.n, self.k, self.kernel.name())
    }
}

impl PackedMatrix {
    /// Packs a row-major `n × k` matrix (`[out, in]`, the layout of linear layers in checkpoints)
    /// for the fastest kernel.
    ///
    /// # Panics
    /// If `weights` is not `n · k` long.
    pub fn pack(weights: &[f32], n: usize, k: usize) -> Self {
        Self::pack_for(Kernel::best(), weights, n, k)
    }

    /// [`PackedMatrix::pack`] for a chosen kernel.
    ///
    /// # Panics
    /// If `weights` is not `n · k` long.
    pub fn pack_for(kernel: &'static Kernel, weights: &[f32], n: usize, k: usize) -> Self {
        assert_eq!(weights.len(), n * k, "weights are not n x k");
        let width = kernel.width();
        let mut panels = AlignedFloats::zeros(n.div_ceil(width) * width * k);
        if k > 0 {
            panels
                .par_chunks_exact_mut(width * k)
                .zip(weights.par_chunks(width * k))
                .for_each(|(panel, rows)| fill_panel(panel, rows, k, width));
        }
        Self { panels, n, k, kernel }
    }

    /// Number of outputs (columns of the product).
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of inputs (depth of the product).
    pub fn k(&self) -> usize {
        self.k
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.panels.len() * size_of::<f32>()
    }
}

/// Number of columns that are transposed at once: their destination lines stay in the first-level
/// cache.
const COLUMNS: usize = 64;

/// Transposes up to `width` weight rows of length `k` into one panel.
fn fill_panel(panel: &mut [f32], rows: &[f32], k: usize, width: usize) {
    for (first, lines) in (0..k).step_by(COLUMNS).zip(panel.chunks_mut(COLUMNS * width)) {
        for (j, row) in rows.chunks_exact(k).enumerate() {
            for (line, &weight) in lines.chunks_exact_mut(width).zip(&row[first..]) {
                line[j] = weight;
            }
        }
    }
}

impl PanelSource for PackedMatrix {
    fn n(&self) -> usize {
        self.n
    }

    fn k(&self) -> usize {
        self.k
    }

    fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    fn panel<'a>(&'a self, panel: usize, first: usize, depth: usize, _scratch: &'a mut Vec<f32>) -> &'a [f32] {
        self.stored(panel, first, depth)
    }

    fn block(&self) -> usize {
        // Blocks of equal depth, a whole number of panel lines each.
        self.k
            .div_ceil(self.k.div_ceil(DEPTH).max(1))
            .next_multiple_of(16)
            .max(16)
    }

    fn stored(&self, panel: usize, first: usize, depth: usize) -> &[f32] {
        let width = self.kernel.width();
        let start = (panel * self.k + first) * width;
        &self.panels[start..start + depth * width]
    }
}
