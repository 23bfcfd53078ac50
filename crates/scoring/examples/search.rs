//! Times the exact search on raw f32 files; `tests/bench/eval_peers.py` runs it beside torch.
//!
//! `search QUERIES DOCUMENTS WIDTH K REPEATS HITS`: two files of little-endian f32 rows; writes the
//! document rows found (u32, K per query, best first) to HITS and prints the seconds of each
//! repeat, one per line.
#![allow(clippy::print_stdout)]

use std::{error::Error, fs, time::Instant};

use isomer_scoring::metric::{
    Similarity,
    search::{Ties, top_k},
    vector_matrix,
};
use ndarray::Array2;

fn read(path: &str, width: usize) -> Result<Array2<f32>, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let values: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|four| f32::from_le_bytes(*four))
        .collect();
    Ok(vector_matrix(values.len() / width, width, values)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [queries, documents, width, k, repeats, output] = args.as_slice() else {
        return Err("give QUERIES DOCUMENTS WIDTH K REPEATS HITS".into());
    };
    let (width, k, repeats): (usize, usize, usize) = (width.parse()?, k.parse()?, repeats.parse()?);
    let (queries, documents) = (read(queries, width)?, read(documents, width)?);
    let mut found = Vec::new();
    for _ in 0..repeats {
        let started = Instant::now();
        found = top_k(
            queries.view(),
            documents.view(),
            &[],
            Similarity::Cosine,
            k,
            Ties::CorpusOrder,
        );
        println!("{:.4}", started.elapsed().as_secs_f64());
    }
    let rows = found
        .iter()
        .flatten()
        .flat_map(|hit| (hit.document as u32).to_le_bytes());
    fs::write(output, rows.collect::<Vec<u8>>())?;
    Ok(())
}
