//! Times the reading of a data set and reports its memory use.
//!
//! `load TASK PATH [LIMIT]`: prints the rows, the distinct parts of what was read, the seconds, and
//! (on Linux) the most memory that the process ever held.
#![allow(clippy::print_stdout)]

use std::{error::Error, path::PathBuf, time::Instant};

use isomer_datasets::{LoadOptions, Source, load};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, path, limit) = match args.as_slice() {
        [task, path] => (task, path, None),
        [task, path, limit] => (task, path, Some(limit.parse()?)),
        _ => return Err("give TASK PATH [LIMIT]".into()),
    };
    let options = LoadOptions {
        limit,
        ..LoadOptions::default()
    };
    let started = Instant::now();
    let dataset = load(task.parse()?, &Source::Path(PathBuf::from(path)), &options)?;
    let bytes: usize = dataset.texts().iter().map(|text| text.text.len()).sum();
    println!(
        "{} rows, {} texts of {:.1} MB in {:.1} s",
        dataset.items(),
        dataset.texts().len(),
        bytes as f64 / 1e6,
        started.elapsed().as_secs_f64()
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
        println!("{line}");
    }
    Ok(())
}
