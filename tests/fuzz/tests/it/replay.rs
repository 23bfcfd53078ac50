//! Runs every target on its committed corpus and on a bounded number of mutations of it, the same
//! in every run. No fuzzer is needed.

use std::{collections::BTreeSet, fs, path::Path};

use base64::prelude::{BASE64_STANDARD, Engine};
use isomer_fuzz::{TARGETS, mutate::Mutator, target};

/// Number of mutations per target.
const MUTATIONS: usize = 200;
/// Maximum bytes of all corpora together, because they are part of the repository.
const LARGEST: u64 = 1 << 20;

/// A target's inputs: lines with a name and with bytes in base64.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let file = Path::new(".").join(format!("corpus/{name}.txt"));
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| line.split_once(' ').unwrap().1);
    lines.map(|bytes| BASE64_STANDARD.decode(bytes).unwrap()).collect()
}

fn replay(name: &str) {
    let target = target(name).expect("a target of this name");
    let entries = corpus(name);
    assert!(!entries.is_empty(), "{name} has no corpus");
    for entry in &entries {
        (target.run)(entry);
    }
    (target.run)(&[]);
    let mut mutator = Mutator::new(7);
    for _ in 0..MUTATIONS {
        (target.run)(&mutator.next(&entries, target.longest));
    }
}

macro_rules! replays {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed() {
            let replayed = BTreeSet::from([$(stringify!($name)),*]);
            let all: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(replayed, all);
        }
    };
}

replays! {
    safetensors, gguf, tokenizer, model_folder, word_vectors, onnx, e5s1, parquet_words, npy, catalogue, rows, suite, card, grpc_messages,
    grpc_compression, connect_frames, connect_json, dialects, page, jwt, key_set, credentials, embeddings, failures, addresses,
    provider_file, configuration, prompt_file, texts, lists, ratings, guards, hub_names,
}

#[test]
fn the_corpora_stay_small_and_name_real_files() {
    let root = Path::new(".").join("../..");
    let size: u64 = TARGETS
        .iter()
        .flat_map(|target| corpus(target.name))
        .map(|entry| entry.len() as u64)
        .sum();
    assert!(size <= LARGEST, "{size} bytes");
    for target in TARGETS {
        assert!(!target.reads.is_empty());
        for file in target.reads.iter().filter_map(|file| file.split(':').next()) {
            assert!(
                root.join(file).is_file(),
                "{} reads {file}, which does not exist",
                target.name
            );
        }
    }
}
