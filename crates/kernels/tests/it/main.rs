//! Products of floats, of bfloat16 and of integers on every kernel that this machine has.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bf16;
mod gemm;
mod instructions;
mod int8;
mod support;
