//! The two products of a block of rows, `rows · weights` and `rowsᵀ · slopes`, in f64 or in f32.
//!
//! Weights are stored in panels of [`Element::PANEL`] columns (one cache line),
//! `[panel][dimension][column]`; scores and slopes as `[row][column of all panels]`. For each
//! output element the products are added in the order of the dimension (or of the row), so that
//! AVX2 and AVX-512 compute the same bits. The outer loops only determine which data stay in the
//! first-level cache.
//!
//! With AVX2 a tile is six rows by one panel: twelve sums, two vectors of weights and one number
//! leave one of the sixteen registers free. Without a free register, compilers put sums on the
//! stack. With AVX-512 it is twelve rows by two panels: 24 sums in 32 registers.

mod lanes;

use super::block::{BLOCK, Block, GROUP};
use lanes::Lanes;

/// Columns of a panel of f64.
pub(crate) const PANEL: usize = 8;
/// Number of rows that are processed for all panels before the next rows: 18 kB of the groups that
/// are processed at once. A multiple of every tile's rows.
const ROWS_AT_ONCE: usize = 24;

/// f64 or f32.
pub(crate) trait Element: Copy + Default + Sync + 'static {
    /// Columns of a panel: a cache line.
    const PANEL: usize = 64 / size_of::<Self>();
    /// Number of groups of dimensions over which scores are summed at a time: 6 kB of a panel.
    const GROUPS_AT_ONCE: usize = 128 / size_of::<Self>();
    /// Number of groups of dimensions whose sums are computed for all panels before the next
    /// groups: 18 kB of a block.
    const SUMS_AT_ONCE: usize = 32 / size_of::<Self>();

    /// Lanes without our own vector code.
    type Plain: Lanes<Number = Self>;
    /// Lanes for AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Lanes<Number = Self>;
    /// Lanes for AVX-512 F.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Lanes<Number = Self>;
}

impl Element for f64 {
    type Plain = [f64; 8];
    #[cfg(target_arch = "x86_64")]
    type Avx2 = lanes::F64x4Pair;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = lanes::F64x8;
}

impl Element for f32 {
    type Plain = [f32; 16];
    #[cfg(target_arch = "x86_64")]
    type Avx2 = lanes::F32x8Pair;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = lanes::F32x16;
}

/// Calls a function of `E`, the vectors of the widest available instructions, and whether they are
/// AVX-512's. The function is compiled for each of them. The caller checks all other requirements.
macro_rules! by_instructions {
    ($body:ident($($arg:ident: $type:ty),*)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx2,fma")]
            unsafe fn widest<E: Element>($($arg: $type),*) {
                // SAFETY: AVX-512 F is enabled; the caller guarantees the rest.
                unsafe { $body::<E, E::Avx512, true>($($arg),*) };
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn wide<E: Element>($($arg: $type),*) {
                // SAFETY: AVX2 and FMA are enabled; the caller guarantees the rest.
                unsafe { $body::<E, E::Avx2, false>($($arg),*) };
            }
            if isomer_kernels::has_avx512() {
                return widest($($arg),*);
            }
            if isomer_kernels::has_avx2_and_fma() {
                return wide($($arg),*);
            }
        }
        $body::<E, E::Plain, false>($($arg),*);
    }};
}

/// `scores = start + block · weights`, where each row of scores starts as the row `start`. Values
/// in the rows after the block's are undefined. Panels of weights are `panel_len` apart.
pub(crate) fn forward<E: Element>(
    block: Block<'_, E>,
    panels: &[E],
    panel_len: usize,
    start: impl Fn(usize) -> E,
    scores: &mut [E],
) {
    block.check();
    let count = panels.len() / panel_len;
    let width = count * E::PANEL;
    assert!(panel_len >= block.groups * GROUP * E::PANEL && scores.len() >= BLOCK * width);
    let mut rows = scores.chunks_exact_mut(width.max(1));
    if let Some(first) = rows.next() {
        for (column, to) in first.iter_mut().enumerate() {
            *to = start(column);
        }
        for row in rows.take(block.rows.next_multiple_of(ROWS_AT_ONCE).min(BLOCK) - 1) {
            row.copy_from_slice(first);
        }
    }
    // SAFETY: the sizes were checked.
    unsafe { by_instructions!(add_scores(block: Block<'_, E>, panels: &[E], panel_len: usize, scores: &mut [E])) };
}

/// `sums += blockᵀ · slopes` for every dimension. Sums are f64 in panels of [`PANEL`] columns, as
/// many panels as slopes have columns or one fewer, `panel_len` apart. A block's products are added
/// up in the precision of `E`.
pub(crate) fn backward<E: Element>(block: Block<'_, E>, slopes: &[E], sums: &mut [f64], panel_len: usize) {
    block.check();
    let width = (sums.len() / panel_len * PANEL).next_multiple_of(E::PANEL);
    assert!(panel_len >= block.groups * GROUP * PANEL && slopes.len() >= block.rows * width);
    // SAFETY: the sizes were checked.
    unsafe { by_instructions!(add_sums(block: Block<'_, E>, slopes: &[E], sums: &mut [f64], panel_len: usize)) };
}

/// Number of the remaining panels that are processed together. At the end it is three rather than
/// two and one, because a single panel loads one number for each sum.
#[inline(always)]
fn together(left: usize, wide: bool) -> usize {
    match left {
        _ if !wide => 1,
        1 | 3 => left,
        _ => 2,
    }
}

/// # Safety
/// The instructions of `L` exist and are enabled; the sizes are those that [`forward`] checks.
#[inline(always)]
unsafe fn add_scores<E: Element, L: Lanes<Number = E>, const WIDE: bool>(
    block: Block<'_, E>,
    panels: &[E],
    panel_len: usize,
    scores: &mut [E],
) {
    let count = panels.len() / panel_len;
    let width = count * E::PANEL;
    for first in (0..block.groups).step_by(E::GROUPS_AT_ONCE) {
        let groups = E::GROUPS_AT_ONCE.min(block.groups - first);
        for from in (0..block.rows).step_by(ROWS_AT_ONCE) {
            let rows = from..block.rows.min(from + ROWS_AT_ONCE);
            let mut panel = 0;
            while panel < count {
                let beside = together(count - panel, WIDE);
                // SAFETY: a tile's rows end within the block, because ROWS_AT_ONCE and BLOCK are
                // multiples of a tile's rows.
                unsafe {
                    let x = block.values.as_ptr().add(first * BLOCK * GROUP);
                    let w = panels.as_ptr().add(panel * panel_len + first * GROUP * E::PANEL);
                    let out = scores.as_mut_ptr().add(panel * E::PANEL);
                    let rows = rows.clone();
                    match beside {
                        3 => scores_of_rows::<E, L, 8, 3>(x, groups, rows, w, panel_len, out, width),
                        2 => scores_of_rows::<E, L, 12, 2>(x, groups, rows, w, panel_len, out, width),
                        _ if WIDE => scores_of_rows::<E, L, 12, 1>(x, groups, rows, w, panel_len, out, width),
                        _ => scores_of_rows::<E, L, 6, 1>(x, groups, rows, w, panel_len, out, width),
                    }
                }
                panel += beside;
            }
        }
    }
}

/// Tiles of `R` rows by `P` panels.
///
/// # Safety
/// As for [`add_scores`].
#[inline(always)]
unsafe fn scores_of_rows<E: Element, L: Lanes<Number = E>, const R: usize, const P: usize>(
    x: *const E,
    groups: usize,
    rows: std::ops::Range<usize>,
    weights: *const E,
    panel_len: usize,
    out: *mut E,
    width: usize,
) {
    for row in rows.step_by(R) {
        // SAFETY: every offset is within the checked sizes.
        unsafe {
            let out = out.add(row * width);
            let mut sums = [[L::zero(); P]; R];
            for (r, sums) in sums.iter_mut().enumerate() {
                for (p, sum) in sums.iter_mut().enumerate() {
                    *sum = L::load(out.add(r * width + p * E::PANEL));
                }
            }
            for group in 0..groups {
                let x = x.add((group * BLOCK + row) * GROUP);
                let weights = weights.add(group * GROUP * E::PANEL);
                for d in 0..GROUP {
                    step(&mut sums, x.add(d), |r| r * GROUP, weights.add(d * E::PANEL), panel_len);
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                for (p, sum) in sums.iter().enumerate() {
                    sum.store(out.add(r * width + p * E::PANEL));
                }
            }
        }
    }
}

/// One step of a tile: numbers at `x`, at offsets `at`, times `P` cache lines at `factors`.
///
/// # Safety
/// All must be readable.
#[inline(always)]
unsafe fn step<E: Element, L: Lanes<Number = E>, const R: usize, const P: usize>(
    sums: &mut [[L; P]; R],
    x: *const E,
    at: impl Fn(usize) -> usize,
    factors: *const E,
    apart: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut lines = [L::zero(); P];
        for (p, line) in lines.iter_mut().enumerate() {
            *line = L::load(factors.add(p * apart));
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            for (sum, line) in sums.iter_mut().zip(lines) {
                *sum = sum.add_product(x.add(at(r)), line);
            }
        }
    }
}

/// # Safety
/// The instructions of `L` exist and are enabled; the sizes are those that [`backward`] checks.
#[inline(always)]
unsafe fn add_sums<E: Element, L: Lanes<Number = E>, const WIDE: bool>(
    block: Block<'_, E>,
    slopes: &[E],
    sums: &mut [f64],
    panel_len: usize,
) {
    let narrow = sums.len() / panel_len;
    let count = (narrow * PANEL).div_ceil(E::PANEL);
    for first in (0..block.groups).step_by(E::SUMS_AT_ONCE) {
        let end = block.groups.min(first + E::SUMS_AT_ONCE);
        let mut panel = 0;
        while panel < count {
            let beside = together(count - panel, WIDE);
            let mut group = first;
            while group < end {
                let pair = WIDE && beside < 3 && group + 1 < end;
                // SAFETY: groups and panels are within the checked sizes.
                unsafe {
                    let x = block.values.as_ptr().add(group * BLOCK * GROUP);
                    let slopes = slopes.as_ptr().add(panel * E::PANEL);
                    let panels = Panels {
                        sums: sums.as_mut_ptr(),
                        count: narrow,
                        len: panel_len,
                    };
                    match (beside, pair) {
                        (3, _) => sums_of_groups::<E, L, 6, 3>(x, block.rows, slopes, count, panels, panel, group),
                        (2, true) => sums_of_groups::<E, L, 12, 2>(x, block.rows, slopes, count, panels, panel, group),
                        (2, false) => sums_of_groups::<E, L, 6, 2>(x, block.rows, slopes, count, panels, panel, group),
                        (_, true) => sums_of_groups::<E, L, 12, 1>(x, block.rows, slopes, count, panels, panel, group),
                        _ => sums_of_groups::<E, L, 6, 1>(x, block.rows, slopes, count, panels, panel, group),
                    }
                }
                group += if pair { 2 } else { 1 };
            }
            panel += beside;
        }
    }
}

/// Panels of f64 sums.
#[derive(Clone, Copy)]
struct Panels {
    sums: *mut f64,
    count: usize,
    len: usize,
}

/// A tile of `R` dimensions starting at `group` by `P` panels starting at `panel`, over `rows`
/// rows.
///
/// # Safety
/// As for [`add_sums`].
#[inline(always)]
unsafe fn sums_of_groups<E: Element, L: Lanes<Number = E>, const R: usize, const P: usize>(
    x: *const E,
    rows: usize,
    slopes: *const E,
    slope_panels: usize,
    panels: Panels,
    panel: usize,
    group: usize,
) {
    let width = slope_panels * E::PANEL;
    // SAFETY: every offset is within the checked sizes.
    unsafe {
        let mut sums = [[L::zero(); P]; R];
        for row in 0..rows {
            let (x, slopes) = (x.add(row * GROUP), slopes.add(row * width));
            step(
                &mut sums,
                x,
                |d| d / GROUP * BLOCK * GROUP + d % GROUP,
                slopes,
                E::PANEL,
            );
        }
        // A panel of f32 is two of f64; the second may be missing.
        let ratio = E::PANEL / PANEL;
        for (d, sums) in sums.iter().enumerate() {
            for (p, sum) in sums.iter().enumerate() {
                let at = |panel: usize| panels.sums.add(panel * panels.len + (group * GROUP + d) * PANEL);
                let first = (panel + p) * ratio;
                let second = if first + 1 < panels.count {
                    at(first + 1)
                } else {
                    std::ptr::null_mut()
                };
                sum.add_to(at(first), second);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: u64) -> Vec<f64> {
        let mut random = crate::random::NumpyGenerator::new(seed);
        (0..n).map(|_| random.random() - 0.5).collect()
    }

    fn narrow(numbers: &[f64]) -> Vec<f32> {
        numbers.iter().map(|v| *v as f32).collect()
    }

    /// Compares both products in the precision of `E`, for `count` panels of f64 and every shape of
    /// tile.
    fn check<E: Element + Into<f64>>(count: usize, from: fn(&[f64]) -> Vec<E>, tolerance: f64) {
        let (groups, rows) = (2 * E::GROUPS_AT_ONCE - 3, BLOCK - 5);
        let values = from(&numbers(groups * GROUP * BLOCK, 1));
        let block = Block {
            values: &values,
            rows,
            groups,
        };
        let width = (count * PANEL).next_multiple_of(E::PANEL);
        let len = (groups * GROUP + 1) * E::PANEL;
        let panels = from(&numbers(width / E::PANEL * len, 2));
        let starts = from(&numbers(width, 5));
        let mut scores = vec![E::default(); BLOCK * width];
        forward(block, &panels, len, |column| starts[column], &mut scores);
        let slopes = from(&numbers(BLOCK * width, 3));
        let sum_len = (groups * GROUP + 1) * PANEL;
        let before = numbers(count * sum_len, 4);
        let mut sums = before.clone();
        backward(block, &slopes, &mut sums, sum_len);
        let at = |row: usize, d: usize| -> f64 { values[(d / GROUP * BLOCK + row) * GROUP + d % GROUP].into() };
        for column in 0..width {
            for row in 0..rows {
                let weight =
                    |d: usize| -> f64 { panels[column / E::PANEL * len + d * E::PANEL + column % E::PANEL].into() };
                let products: f64 = (0..groups * GROUP).map(|d| at(row, d) * weight(d)).sum();
                let got: f64 = scores[row * width + column].into();
                assert!(
                    (got - starts[column].into() - products).abs() < tolerance,
                    "{got} {products}"
                );
            }
            if column / PANEL >= count {
                continue;
            }
            for d in 0..groups * GROUP {
                let place = column / PANEL * sum_len + d * PANEL + column % PANEL;
                let products: f64 = (0..rows)
                    .map(|row| at(row, d) * slopes[row * width + column].into())
                    .sum();
                assert!((sums[place] - before[place] - products).abs() < tolerance);
            }
            let intercept = column / PANEL * sum_len + groups * GROUP * PANEL + column % PANEL;
            assert_eq!(sums[intercept], before[intercept]);
        }
    }

    #[test]
    fn both_products_are_those_of_the_definition() {
        for count in 1..8 {
            check::<f64>(count, <[f64]>::to_vec, 1e-13);
            check::<f32>(count, narrow, 2e-5);
        }
    }

    /// On a machine without AVX-512 the widest instructions are AVX2's.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn instructions_of_all_widths_compute_the_same() {
        assert!(isomer_kernels::has_avx2_and_fma(), "tests need a processor with AVX2");
        let (groups, count) = (21, 5);
        let len = groups * GROUP * PANEL;
        let (values, panels) = (numbers(groups * GROUP * BLOCK, 1), numbers(count * len, 2));
        let (slopes, start) = (numbers(BLOCK * count * PANEL, 3), numbers(BLOCK * count * PANEL, 4));
        let block = Block {
            values: &values,
            rows: BLOCK - 7,
            groups,
        };
        let [mut plain, mut wide, mut widest] = [(); 3].map(|()| (start.clone(), numbers(count * len, 5)));
        // SAFETY: the processor has AVX2, FMA and, if it is used, AVX-512 F; the loops'
        // requirements on sizes are met.
        unsafe {
            add_scores::<f64, [f64; 8], false>(block, &panels, len, &mut plain.0);
            add_sums::<f64, [f64; 8], false>(block, &slopes, &mut plain.1, len);
            add_scores::<f64, lanes::F64x4Pair, false>(block, &panels, len, &mut wide.0);
            add_sums::<f64, lanes::F64x4Pair, false>(block, &slopes, &mut wide.1, len);
            if isomer_kernels::has_avx512() {
                add_scores::<f64, lanes::F64x8, true>(block, &panels, len, &mut widest.0);
                add_sums::<f64, lanes::F64x8, true>(block, &slopes, &mut widest.1, len);
            } else {
                widest.clone_from(&wide);
            }
        }
        let real = block.rows * count * PANEL;
        assert_eq!(wide.0[..real], widest.0[..real]);
        assert_eq!(wide.1, widest.1);
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-13);
        assert!(near(&plain.0[..real], &wide.0[..real]) && near(&plain.1, &wide.1));
    }
}
