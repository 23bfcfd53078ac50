//! Reusable buffers, pooled per thread.

use std::{cell::RefCell, ops::Deref};

use isomer_kernels::AlignedFloats;

/// Memory from this thread's pool. Fresh pages for every layer would cost as much time as some of
/// the arithmetic.
#[derive(Debug)]
pub(super) struct Buffer {
    memory: AlignedFloats,
    len: usize,
}

thread_local! {
    static FREE: RefCell<Vec<AlignedFloats>> = const { RefCell::new(Vec::new()) };
}

/// Number of buffers that a thread keeps; a forward pass holds five at once.
const KEPT: usize = 6;

impl Buffer {
    /// A buffer of `len` values that the caller will overwrite.
    pub(super) fn take(len: usize) -> Self {
        let mut memory = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        memory.grow(len);
        Self { memory, len }
    }

    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        FREE.with_borrow_mut(|free| {
            if free.len() < KEPT {
                free.push(memory);
            }
        });
    }
}
