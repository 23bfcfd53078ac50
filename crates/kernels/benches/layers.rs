//! Measures the fraction of the processor's peak that the products reach, and where the time of an
//! encoder goes, on one thread: `cargo bench -p isomer-kernels`, or of one encoder: `cargo bench -p
//! isomer-kernels -- MiniLM-L6`.
//!
//! Every figure is the shortest of many runs, in processor time of the thread if the system reports
//! it. On a machine with other work, the shortest run was disturbed least.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::{hint::black_box, time::Duration};

#[cfg(target_os = "linux")]
use processor_time::now;
#[cfg(not(target_os = "linux"))]
use wall_time::now;

use isomer_kernels::{
    Activation, AlignedFloats, Epilogue, Kernel, PackedMatrix,
    attention::{ScoreTerms, Scratch, Shape, Span, self_attention},
    bf16::{Bf16Kernel, Bf16Matrix, gemm_bf16_serial},
    gemm_serial,
    int8::{Int8Kernel, Int8Matrix, Widths, gemm_int8_serial},
    rows,
};

/// A model's size and how many layers it has.
#[derive(Clone, Copy)]
struct Encoder {
    name: &'static str,
    hidden: usize,
    inner: usize,
    heads: usize,
    layers: usize,
}

const ENCODERS: [Encoder; 2] = [
    Encoder {
        name: "MiniLM-L6",
        hidden: 384,
        inner: 1536,
        heads: 12,
        layers: 6,
    },
    Encoder {
        name: "MPNet base",
        hidden: 768,
        inner: 3072,
        heads: 12,
        layers: 12,
    },
];

/// Texts of a run: how many, and of how many tokens.
const TEXTS: [(usize, usize); 2] = [(32, 15), (2, 250)];

fn main() {
    let peak = peak();
    println!(
        "{}, {}, {}; f32 peak of one core {peak:.1} GFLOP/s\n",
        Kernel::best().name(),
        Bf16Kernel::best().name(),
        Int8Kernel::best().name()
    );
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    for encoder in ENCODERS
        .into_iter()
        .filter(|encoder| wanted.as_deref().is_none_or(|wanted| wanted == encoder.name))
    {
        for (texts, tokens) in TEXTS {
            stack(encoder, texts, tokens, peak);
        }
    }
}

/// How long it takes.
fn time(work: impl FnOnce()) -> Duration {
    let start = now();
    work();
    now() - start
}

/// The shortest of the runs that fit into a fifth of a second of this thread, at least ten of them.
fn shortest(mut work: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    let (started, mut runs) = (now(), 0);
    while runs < 10 || now() - started < Duration::from_millis(200) {
        best = best.min(time(&mut work));
        runs += 1;
    }
    best
}

#[cfg(target_os = "linux")]
mod processor_time {
    use std::time::Duration;

    /// `struct timespec` of 64-bit Linux.
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }

    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;

    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }

    /// Time that this thread has run.
    pub(super) fn now() -> Duration {
        let mut time = Timespec {
            seconds: 0,
            nanoseconds: 0,
        };
        // SAFETY: the C library, which std links, writes the struct that it is handed.
        let result = unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        assert_eq!(result, 0, "this system has no clock for threads");
        Duration::new(time.seconds.unsigned_abs(), time.nanoseconds.unsigned_abs() as u32)
    }
}

#[cfg(not(target_os = "linux"))]
mod wall_time {
    use std::{
        sync::LazyLock,
        time::{Duration, Instant},
    };

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    pub(super) fn now() -> Duration {
        START.elapsed()
    }
}

/// GFLOP/s of multiply-adds on registers alone if there is code for that here, else of the
/// micro-kernel on data in the first-level cache.
fn peak() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: just detected.
            return registers(16, |steps| unsafe { wide::avx512(steps) });
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: just detected.
            return registers(8, |steps| unsafe { wide::avx2(steps) });
        }
    }
    let (kernel, depth) = (Kernel::best(), 256);
    let (rows, width) = (kernel.rows(), kernel.width());
    let (x, panel, mut out) = (
        vec![1.0; rows * depth],
        vec![1.0; depth * width],
        vec![0.0; rows * width],
    );
    let time = shortest(|| {
        for _ in 0..1000 {
            kernel.run(black_box(&x), depth, rows, &panel, depth, &mut out, width, width, false);
        }
    });
    (2 * 1000 * rows * width * depth) as f64 / time.as_secs_f64() / 1e9
}

#[cfg(target_arch = "x86_64")]
fn registers(lanes: usize, run: impl Fn(usize) -> f32) -> f64 {
    const STEPS: usize = 200_000;
    let time = shortest(|| {
        black_box(run(black_box(STEPS)));
    });
    (2 * lanes * wide::CHAINS * STEPS) as f64 / time.as_secs_f64() / 1e9
}

/// Independent chains of multiply-adds, as many as a micro-kernel has.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        _mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_cvtss_f32, _mm512_fmadd_ps, _mm512_set1_ps,
    };
    use std::hint::black_box;

    pub(super) const CHAINS: usize = 12;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(steps: usize) -> f32 {
        let factor = _mm256_set1_ps(black_box(0.5));
        let mut sums = [_mm256_set1_ps(black_box(1.0)); CHAINS];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, factor);
            }
        }
        sums.iter().map(|sum| _mm256_cvtss_f32(*sum)).sum()
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(steps: usize) -> f32 {
        let factor = _mm512_set1_ps(black_box(0.5));
        let mut sums = [_mm512_set1_ps(black_box(1.0)); CHAINS];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, factor);
            }
        }
        sums.iter().map(|sum| _mm512_cvtss_f32(*sum)).sum()
    }
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + 11) % 101) as f32 / 500.0 - 0.1).collect()
}

/// The arithmetic of linear layers.
#[derive(Clone, Copy)]
enum Arithmetic {
    F32,
    Bf16,
    Int8,
}

/// One layer's weights in every arithmetic.
struct Layer {
    floats: PackedMatrix,
    halves: Bf16Matrix,
    integers: Int8Matrix,
    bias: Vec<f32>,
}

impl Layer {
    fn new(n: usize, k: usize) -> Self {
        let weights = values(n * k);
        Self {
            floats: PackedMatrix::pack(&weights, n, k),
            halves: Bf16Matrix::pack(&weights, n, k),
            integers: Int8Matrix::quantise(&weights, n, k, Widths::EIGHT_SEVEN),
            bias: values(n),
        }
    }

    fn run(&self, arithmetic: Arithmetic, x: &[f32], m: usize, epilogue: Epilogue<'_>, out: &mut [f32]) {
        match arithmetic {
            Arithmetic::F32 => gemm_serial(x, m, &self.floats, epilogue, out),
            Arithmetic::Bf16 => gemm_bf16_serial(x, m, &self.halves, epilogue, out),
            Arithmetic::Int8 => gemm_int8_serial(x, m, &self.integers, epilogue, out),
        }
    }
}

/// Rounds over all pieces of a layer. The figure of a piece is its shortest run.
const ROUNDS: usize = 40;

/// Runs everything that a batch of texts passes through in one layer, piece by piece, times the
/// number of layers.
fn stack(encoder: Encoder, texts: usize, tokens: usize, peak: f64) {
    let Encoder {
        name,
        hidden,
        inner,
        heads,
        layers,
    } = encoder;
    let m = texts * tokens;
    println!("{name}, {texts} texts of {tokens} tokens, {layers} layers");
    let (gamma, beta) = (vec![1.0; hidden], vec![0.0; hidden]);
    // name, outputs, inputs, activation, residual
    let products = [
        ("queries, keys, values", 3 * hidden, hidden, Activation::Identity, false),
        ("out of attention", hidden, hidden, Activation::Identity, true),
        ("up, GELU", inner, hidden, Activation::Gelu, false),
        ("down", hidden, inner, Activation::Identity, true),
    ]
    .map(|(name, n, k, activation, residual)| (name, n, k, activation, residual, Layer::new(n, k)));
    let shape = Shape {
        heads,
        key_heads: heads,
        head_dim: hidden / heads,
        scale: 0.17,
    };
    let (mut wide, mut out, mut other) = (
        AlignedFloats::zeros(m * inner),
        AlignedFloats::zeros(m * inner),
        AlignedFloats::zeros(m * inner),
    );
    for buffer in [&mut wide, &mut other] {
        buffer.copy_from_slice(&values(m * inner));
    }
    let mut scratch = Scratch::default();
    for (kind, arithmetic) in [
        ("f32 ", Arithmetic::F32),
        ("bf16", Arithmetic::Bf16),
        ("int8", Arithmetic::Int8),
    ] {
        // Times of each product alone, and with its epilogue; then of the attention, then of one
        // normalisation.
        let mut alone = [Duration::MAX; 4];
        let mut whole = [Duration::MAX; 4];
        let (mut attention, mut norm) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            for (at, (_, n, k, activation, residual, layer)) in products.iter().enumerate() {
                let (x, out) = (&wide[..m * k], &mut out[..m * n]);
                alone[at] = alone[at].min(time(|| {
                    layer.run(arithmetic, black_box(x), m, Epilogue::default(), out)
                }));
                let epilogue = Epilogue {
                    bias: Some(&layer.bias),
                    activation: *activation,
                    residual: residual.then_some(&other[..m * n]),
                    ..Epilogue::default()
                };
                whole[at] = whole[at].min(time(|| layer.run(arithmetic, black_box(x), m, epilogue, out)));
            }
            attention = attention.min(time(|| {
                let each = wide[..3 * m * hidden]
                    .chunks_exact(tokens * 3 * hidden)
                    .zip(out.chunks_exact_mut(tokens * hidden));
                for (text, out) in each {
                    let added = ScoreTerms::default();
                    self_attention(black_box(text), tokens, shape, Span::ALL, added, &mut scratch, out);
                }
            }));
            norm = norm.min(time(|| {
                rows::layer_norm(black_box(&mut out[..m * hidden]), &gamma, &beta, 1e-12);
            }));
        }
        let mut operations = 0.0;
        for (at, (name, n, k, ..)) in products.iter().enumerate() {
            let work = (2 * m * n * k) as f64;
            let rate = work / alone[at].as_secs_f64() / 1e9;
            operations += work;
            println!(
                "  {kind} {name:<22} {m} x {n} x {k}: {rate:6.1} GFLOP/s, {:3.0} % of the f32 peak; with its epilogue {:5.1} % longer",
                100.0 * rate / peak,
                100.0 * (whole[at].as_secs_f64() / alone[at].as_secs_f64() - 1.0),
            );
        }
        let bare: Duration = alone.iter().sum();
        let with: Duration = whole.iter().sum();
        let total = with + attention + 2 * norm;
        let share = |part: Duration| 100.0 * part.as_secs_f64() / total.as_secs_f64();
        println!(
            "  {kind} {:.3} ms a text; products {:.1} %, epilogues {:.1} %, attention {:.1} %, layer norm {:.1} %; products reach {:.0} %, all together {:.0} % of the f32 peak",
            1e3 * layers as f64 * total.as_secs_f64() / texts as f64,
            share(bare),
            share(with.saturating_sub(bare)),
            share(attention),
            share(2 * norm),
            100.0 * operations / bare.as_secs_f64() / 1e9 / peak,
            100.0 * operations / total.as_secs_f64() / 1e9 / peak,
        );
    }
    println!();
}
