//! Floats aligned to a cache line, so that no vector load inside a row of them spans two lines.

use std::ops::{Deref, DerefMut};

/// Floats per cache line, on every supported processor except those with longer lines.
const FLOATS: usize = 16;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; FLOATS]);

/// A vector of floats whose first element starts a cache line.
#[derive(Debug, Clone, Default)]
pub struct AlignedFloats {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedFloats {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self {
            lines: vec![Line([0.0; FLOATS]); len.div_ceil(FLOATS)],
            len,
        }
    }

    /// Grows to at least `len` elements; new ones are zero.
    pub fn grow(&mut self, len: usize) {
        if self.len < len {
            self.lines.resize(len.div_ceil(FLOATS), Line([0.0; FLOATS]));
            self.len = len;
        }
    }
}

impl Deref for AlignedFloats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `Line` is 16 floats without padding, and there are enough lines for `len` floats.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedFloats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above; borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}
