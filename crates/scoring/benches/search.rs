//! `cargo bench -p isomer-eval`: exact search of random documents, as in retrieval and reranking.
#![allow(clippy::unwrap_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use isomer_scoring::metric::{
    Similarity,
    search::{Ties, id_order, top_k},
    vector_matrix,
};
use ndarray::Array2;

/// Numbers between -1 and 1 from a linear congruential generator.
fn matrix(rows: usize, cols: usize, seed: u64) -> Array2<f32> {
    let mut state = seed;
    let values = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    });
    vector_matrix(rows, cols, values.take(rows * cols).collect()).unwrap()
}

fn search(c: &mut Criterion) {
    let (documents, width) = (50_000, 384);
    let corpus = matrix(documents, width, 1);
    let ids: Vec<String> = (0..documents).map(|i| format!("d{i}")).collect();
    let order = id_order(&ids);
    let mut group = c.benchmark_group("search, 50,000 x 384");
    group.sample_size(10);
    for (queries, k) in [(1, 10), (100, 10), (100, 1000)] {
        let asked = matrix(queries, width, 2);
        group.throughput(Throughput::Elements((queries * documents) as u64));
        for (name, similarity) in [("cosine", Similarity::Cosine), ("dot", Similarity::Dot)] {
            group.bench_function(format!("{queries} queries, best {k}, {name}"), |b| {
                b.iter(|| top_k(asked.view(), corpus.view(), &order, similarity, k, Ties::IdDescending));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, search);
criterion_main!(benches);
