//! Intel AMX: products of tiles, 32 rows × 32 columns in four of the eight tile registers.
//!
//! A tile holds 16 rows of 64 bytes: 32 numbers of bfloat16, or 64 codes of eight bits. The
//! intrinsics are unstable in Rust, so the instructions are written as assembly.

use std::{
    arch::{
        asm,
        x86_64::{__cpuid_count, _xgetbv},
    },
    sync::OnceLock,
};

use crate::rounded::ThreadState;

/// Number of rows that are multiplied at once.
pub(crate) const ROWS: usize = 32;
/// Bytes of a row of a tile.
const ROW: usize = 64;

/// A product of `rows` ≤ 32 rows with a panel of 32 columns. Lengths and strides are in bytes. In
/// the panel, four bytes of depth of one column lie side by side, and then the columns.
pub(crate) struct Block {
    pub(crate) x: *const u8,
    pub(crate) x_stride: usize,
    pub(crate) rows: usize,
    pub(crate) panel: *const u8,
    /// A multiple of 64.
    pub(crate) depth: usize,
    pub(crate) sums: *mut u8,
    pub(crate) sums_stride: usize,
}

/// The memory that `ldtilecfg` reads.
#[repr(C, align(64))]
struct Shape {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight tiles of 16 rows of 64 bytes.
static SHAPE: Shape = Shape {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// The kinds of products, with their bit in EDX of CPUID's leaf 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    Bf16 = 22,
    Int8 = 25,
}

/// Whether tiles are within the limit, the processor has the product, and the kernel lets this
/// process use tiles.
pub(crate) fn usable(product: Product) -> bool {
    /// CPUID's bit of the tile registers.
    const TILE: u32 = 24;
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    let has = |bit: u32| __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).edx & (1 << bit) != 0;
    crate::instructions::allows(crate::Instructions::Amx)
        && has(TILE)
        && has(product as u32)
        && *PERMITTED.get_or_init(permitted)
}

/// Asks the kernel for the state of the tile registers, for all threads of the process.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    /// The states of the configuration and of the data of tiles, as bits of XCR0.
    const STATES: u64 = 0b11 << 17;
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XFEATURE_XTILEDATA: u64 = 18;
    #[target_feature(enable = "xsave")]
    unsafe fn enabled() -> u64 {
        // SAFETY: the feature was detected; register 0 always exists.
        unsafe { _xgetbv(0) }
    }
    if !std::arch::is_x86_feature_detected!("xsave") {
        return false;
    }
    // SAFETY: the feature was just detected.
    if unsafe { enabled() } & STATES != STATES {
        return false;
    }
    let result: i64;
    // SAFETY: this system call takes two numbers and accesses no memory of the process.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// Shapes this thread's tile registers.
///
/// # Safety
/// [`usable`] returned true.
pub(crate) unsafe fn prepare() {
    // SAFETY: `SHAPE` is 64 bytes with a valid configuration.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPE, options(nostack, preserves_flags, readonly)) };
}

/// Releases this thread's tile registers, so that the system need not save them.
///
/// # Safety
/// [`usable`] returned true.
pub(crate) unsafe fn release() {
    // SAFETY: the caller's guarantee.
    unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
}

/// The state of a thread that multiplies tiles.
pub(crate) const STATE: ThreadState = ThreadState { prepare, release };

/// Defines a function that computes a [`Block`] with one instruction.
macro_rules! product {
    ($name:ident, $instruction:literal, $kind:literal) => {
        #[doc = concat!("Sums of a block of ", $kind, ".")]
        ///
        /// # Safety
        /// [`usable`] returned true for these products, and [`prepare`] ran on this thread. 16 rows
        /// of `x` and of `sums` are accessible, 32 if there are more than 16 rows.
        pub(crate) unsafe fn $name(block: &Block) {
            let steps = block.depth / ROW;
            if steps == 0 {
                for r in 0..block.rows {
                    // SAFETY: row r < rows has room for 32 sums of four bytes.
                    unsafe { block.sums.add(r * block.sums_stride).write_bytes(0, 2 * ROW) };
                }
                return;
            }
            let upper = block.rows > 16;
            let (below_x, below_sums) = if upper { (16 * block.x_stride, 16 * block.sums_stride) } else { (0, 0) };
            // SAFETY: the caller's contract. A step reads 64 bytes of each row of `x`, and 16 rows
            // of 128 bytes of the panel. With at most 16 rows, the second tile repeats the first.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "2:",
                    "tileloadd tmm6, [{panel} + {columns}*1]",
                    "tileloadd tmm7, [{panel} + {columns}*1 + 64]",
                    "tileloadd tmm4, [{x} + {x_stride}*1]",
                    "tileloadd tmm5, [{below} + {x_stride}*1]",
                    concat!($instruction, " tmm0, tmm4, tmm6"),
                    concat!($instruction, " tmm1, tmm4, tmm7"),
                    concat!($instruction, " tmm2, tmm5, tmm6"),
                    concat!($instruction, " tmm3, tmm5, tmm7"),
                    "add {panel}, 2048",
                    "add {x}, 64",
                    "add {below}, 64",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{lower} + {sums_stride}*1], tmm2",
                    "tilestored [{lower} + {sums_stride}*1 + 64], tmm3",
                    "tilestored [{sums} + {sums_stride}*1], tmm0",
                    "tilestored [{sums} + {sums_stride}*1 + 64], tmm1",
                    panel = inout(reg) block.panel => _,
                    columns = in(reg) 2 * ROW,
                    x = inout(reg) block.x => _,
                    below = inout(reg) block.x.add(below_x) => _,
                    x_stride = in(reg) block.x_stride,
                    steps = inout(reg) steps => _,
                    sums = in(reg) block.sums,
                    lower = in(reg) block.sums.add(below_sums),
                    sums_stride = in(reg) block.sums_stride,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack)
                );
            }
        }
    };
}

product!(bf16, "tdpbf16ps", "bfloat16");
product!(int8, "tdpbusd", "unsigned codes of inputs and signed codes of weights");
