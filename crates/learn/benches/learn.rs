//! `cargo bench -p isomer-learn`: mteb's procedures on vectors of the sizes of its data sets.
#![allow(clippy::unwrap_used)]

use criterion::{Criterion, criterion_group, criterion_main};
use isomer_learn::{
    protocol::{FastClustering, FewShot, legacy_set_score, whole_train},
    random::{NumpyGenerator, PythonRandom},
};
use ndarray::Array2;

/// Unit vectors around one centre a class.
fn data(rows: usize, cols: usize, classes: usize) -> (Array2<f32>, Vec<i64>) {
    let mut random = NumpyGenerator::new(7);
    let centres: Vec<f64> = (0..classes * cols).map(|_| random.random() - 0.5).collect();
    let mut x = Vec::with_capacity(rows * cols);
    for row in 0..rows {
        let centre = &centres[row % classes * cols..][..cols];
        let values: Vec<f64> = centre.iter().map(|c| c + 2.0 * (random.random() - 0.5)).collect();
        let length = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        x.extend(values.iter().map(|v| (v / length) as f32));
    }
    let x = Array2::from_shape_vec((rows, cols), x).unwrap();
    (x, (0..rows).map(|r| (r % classes) as i64).collect())
}

fn classification(c: &mut Criterion) {
    let (x, y) = data(10_003, 384, 77);
    let (t, ty) = data(3_080, 384, 77);
    let (train, test) = (x.view(), t.view());
    let mut group = c.benchmark_group("classification, 77 classes, 384 dimensions");
    group.sample_size(10);
    group.bench_function("10 x 8-shot", |b| {
        b.iter(|| FewShot::default().score(train, &y, test, &ty).unwrap());
    });
    group.bench_function("whole train, 10,003 rows", |b| {
        b.iter(|| whole_train(train, &y, test, &ty, FewShot::default().classifier).unwrap());
    });
    group.finish();
}

fn clustering(c: &mut Criterion) {
    let (x, y) = data(948, 384, 6);
    let vectors = x.view();
    let levels: Vec<Vec<i64>> = y.iter().map(|l| vec![*l]).collect();
    let fast = FastClustering {
        max_fraction: None,
        ..FastClustering::default()
    };
    let mut group = c.benchmark_group("clustering, 6 classes, 384 dimensions");
    group.sample_size(10);
    group.bench_function("10 x 16,384 of 948", |b| {
        b.iter(|| fast.score(&mut PythonRandom::new(42), vectors, &levels).unwrap());
    });
    group.bench_function("legacy, 948", |b| {
        b.iter(|| legacy_set_score(vectors, &y, 42).unwrap());
    });
    group.finish();
}

criterion_group!(benches, classification, clustering);
criterion_main!(benches);
