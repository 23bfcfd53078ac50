//! Runs mteb's procedures on vectors in files and says how long they took: one half of
//! `tests/bench/learn_peers.py`.
//!
//! `learn_peers few-shot|whole-train TRAIN.npy TRAIN.json TEST.npy TEST.json REPEATS
//! [SAMPLES_PER_LABEL]` `learn_peers fast|legacy VECTORS.npy LABELS.json REPEATS`
//!
//! Vectors are f32 matrices in numpy's format, labels JSON lists of strings. Prints one JSON
//! object.

use std::{collections::BTreeMap, error::Error, io::Write, time::Instant};

use isomer_learn::{
    protocol::{ClassificationReport, FastClustering, FewShot, legacy_set_score, whole_train},
    random::PythonRandom,
};
use ndarray::Array2;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn read(path: &str) -> Outcome<Array2<f32>> {
    let bytes = std::fs::read(path)?;
    let unsound = || format!("{path}: no little-endian f32 matrix in numpy's format, version 1");
    if bytes.get(..8) != Some(b"\x93NUMPY\x01\x00") || bytes.len() < 10 {
        return Err(unsound().into());
    }
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(bytes.get(10..end).ok_or_else(unsound)?)?;
    if !header.contains("'<f4'") || header.contains("'fortran_order': True") {
        return Err(unsound().into());
    }
    let shape = header
        .split_once("'shape': (")
        .and_then(|(_, s)| s.split_once(')'))
        .ok_or_else(unsound)?
        .0;
    let shape: Vec<usize> = shape.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    let &[rows, cols] = shape.as_slice() else {
        return Err(unsound().into());
    };
    let values = bytes[end..]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    Ok(Array2::from_shape_vec((rows, cols), values)?)
}

fn labels(path: &str) -> Outcome<Vec<String>> {
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

/// Prints the scores, and the seconds of each repeat.
fn timed(repeats: usize, mut run: impl FnMut() -> Outcome<BTreeMap<&'static str, f64>>) -> Outcome<()> {
    let mut seconds = Vec::new();
    let mut scores = BTreeMap::new();
    for _ in 0..repeats {
        let start = Instant::now();
        scores = run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    let printed = serde_json::json!({ "scores": scores, "seconds": seconds });
    writeln!(std::io::stdout(), "{printed}")?;
    Ok(())
}

fn with_iterations(report: &ClassificationReport) -> BTreeMap<&'static str, f64> {
    let iterations: usize = report.experiments.iter().map(|e| e.iterations).sum();
    let mut scores: BTreeMap<_, _> = report.mean.named().into_iter().collect();
    scores.insert("iterations", iterations as f64);
    scores
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [
            task @ ("few-shot" | "whole-train"),
            train,
            train_labels,
            test,
            test_labels,
            repeats,
            rest @ ..,
        ] => {
            let (train, test) = (read(train)?, read(test)?);
            let (y, ty) = (labels(train_labels)?, labels(test_labels)?);
            let mut few_shot = FewShot::default();
            if let Some(samples) = rest.first() {
                few_shot.samples_per_label = samples.parse()?;
            }
            timed(repeats.parse()?, || {
                let (x, t) = (train.view(), test.view());
                let report = match *task {
                    "few-shot" => few_shot.score(x, &y, t, &ty)?,
                    _ => whole_train(x, &y, t, &ty, few_shot.classifier)?,
                };
                Ok(with_iterations(&report))
            })
        }
        [task @ ("fast" | "legacy"), vectors, names, repeats] => {
            let (matrix, y) = (read(vectors)?, labels(names)?);
            let levels: Vec<Vec<String>> = y.iter().map(|l| vec![l.clone()]).collect();
            timed(repeats.parse()?, || {
                let x = matrix.view();
                if *task == "legacy" {
                    return Ok(BTreeMap::from([("v_measure", legacy_set_score(x, &y, 42)?)]));
                }
                let fast = FastClustering {
                    max_fraction: None,
                    ..FastClustering::default()
                };
                let report = fast.score(&mut PythonRandom::new(42), x, &levels)?;
                Ok(report.named().into_iter().collect())
            })
        }
        _ => Err("usage: see the comment at the top of examples/learn_peers.rs".into()),
    }
}
