//! Times the approximate search on raw f32 files; `tests/bench/search_peers.py` runs it beside
//! hnswlib and Faiss.
//!
//! `hnsw QUERIES DOCUMENTS WIDTH K EF_CONSTRUCTION EF_SEARCH REPEATS HITS`: two files of
//! little-endian f32 rows, compared by cosine on all cores. EF_SEARCH is a number, or several with
//! commas between. Prints `build` and, for each of them and each repeat, `search-EF_SEARCH` with
//! the seconds that passed and those of all cores (on Linux); writes the document rows found (u32,
//! K a query) to HITS with `.EF_SEARCH` behind its name.
#![allow(clippy::print_stdout)]

use std::{error::Error, fs, time::Instant};

use isomer_scoring::metric::{HnswOptions, Similarity, hnsw::Graph, vector_matrix};
use ndarray::Array2;
use rayon::prelude::*;

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

/// Seconds that all threads of this process worked, to a hundredth; 0 where /proc does not say.
fn worked() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name: the state is field 3, user and system time are 14 and 15.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn timed<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let (started, before) = (Instant::now(), worked());
    let result = work();
    println!("{name} {:.4} {:.2}", started.elapsed().as_secs_f64(), worked() - before);
    result
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [queries, documents, width, k, construction, search, repeats, output] = args.as_slice() else {
        return Err("give QUERIES DOCUMENTS WIDTH K EF_CONSTRUCTION EF_SEARCH REPEATS HITS".into());
    };
    let (width, k, repeats): (usize, usize, usize) = (width.parse()?, k.parse()?, repeats.parse()?);
    let (queries, documents) = (read(queries, width)?, read(documents, width)?);
    let values = queries.as_slice().ok_or("queries are not contiguous")?;
    let searches: Vec<usize> = search.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let options = HnswOptions {
        ef_construction: construction.parse()?,
        ..HnswOptions::default()
    };
    let graph = timed("build", || Graph::build(documents.view(), Similarity::Cosine, options));
    for ef in searches {
        let mut found = Vec::new();
        for _ in 0..repeats {
            found = timed(&format!("search-{ef}"), || {
                let rows = values.par_chunks_exact(width);
                rows.map(|query| graph.search(query, ef.max(k))).collect::<Vec<_>>()
            });
        }
        let rows = found.iter().flat_map(|found| found.iter().take(k));
        let bytes: Vec<u8> = rows.flat_map(|row| (*row as u32).to_le_bytes()).collect();
        fs::write(format!("{output}.{ef}"), bytes)?;
    }
    Ok(())
}
