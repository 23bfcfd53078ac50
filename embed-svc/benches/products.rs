//! Our products, in floats and in integers, against Candle's, on the shapes of MiniLM and MPNet:
//! `cargo bench -p isomer-embed --bench products`. Integer products count the rounding of their
//! inputs.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;

use candle_core::{Device, Tensor};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use isomer_kernels::{
    Epilogue, PackedMatrix, gemm,
    int8::{Int8Matrix, Widths, gemm_int8},
};

fn products(criterion: &mut Criterion) {
    for (m, n, k) in [
        (12, 1152, 384),
        (512, 1152, 384),
        (512, 384, 384),
        (512, 1536, 384),
        (512, 384, 1536),
        (512, 2304, 768),
        (512, 768, 768),
        (512, 3072, 768),
        (512, 768, 3072),
    ] {
        let values = |count: usize| {
            (0..count)
                .map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0)
                .collect::<Vec<_>>()
        };
        let (x, weights, bias) = (values(m * k), values(n * k), values(n));
        let mut group = criterion.benchmark_group(format!("{m}x{n}x{k}"));
        group
            .throughput(Throughput::Elements((2 * m * n * k) as u64))
            .sample_size(20);
        let packed = PackedMatrix::pack(&weights, n, k);
        let mut out = vec![0.0; m * n];
        group.bench_function("isomer", |bencher| {
            bencher.iter(|| gemm(black_box(&x), m, &packed, Some(&bias), &mut out))
        });
        let epilogue = Epilogue {
            bias: Some(&bias),
            ..Epilogue::default()
        };
        for widths in Widths::ALL {
            let packed = Int8Matrix::quantise(&weights, n, k, widths);
            let name = format!("isomer int8, {}x{} bits", widths.inputs(), widths.weights());
            group.bench_function(name, |bencher| {
                bencher.iter(|| gemm_int8(black_box(&x), m, &packed, epilogue, &mut out));
            });
        }
        let device = Device::Cpu;
        let x = Tensor::from_slice(&x, (m, k), &device).unwrap();
        let weights = Tensor::from_slice(&weights, (n, k), &device).unwrap().t().unwrap();
        let bias = Tensor::from_slice(&bias, n, &device).unwrap();
        group.bench_function("candle", |bencher| {
            bencher.iter(|| black_box(&x).matmul(&weights).unwrap().broadcast_add(&bias).unwrap());
        });
        group.finish();
    }
}

criterion_group!(benches, products);
criterion_main!(benches);
