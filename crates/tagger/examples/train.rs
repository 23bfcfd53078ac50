//! Trains the model file. This crate's README describes the training data.
//!
//! ```text
//! cargo run --release -p isomer-tagger --example train -- OUT --pos FILE… --entities FILE… [--dev FILE…]
//! ```
//! Files are `.tagged` (training/label.py) or `.conllu`; the latter have no entities. The averaged
//! structured perceptron of Collins (2002): tag a sentence with the current weights, add the
//! features of the true tags, subtract those of the predicted tags, and at the end take the mean of
//! the weights over all steps. Equal input gives an equal file.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

mod support;

use std::{collections::HashMap, fs, ops::Range, path::Path, process::ExitCode};

use isomer_tagger::{
    EntityLabel, Pos, Tagger, features,
    model::{self, Chain, Weight},
    viterbi::{self, FORBIDDEN, Transitions},
};
use support::Sentence;

/// Passes over the data.
const EPOCHS: usize = 8;
/// Features seen fewer times are left out.
const MIN_COUNT: u8 = 3;
/// Weights kept: the largest.
const POS_WEIGHTS: usize = 190_000;
const ENTITY_WEIGHTS: usize = 210_000;

/// Sentences of one chain, ready to train on.
struct Examples {
    tags: Vec<String>,
    /// Hashes of the rows.
    hashes: Vec<u32>,
    /// Rows of all tokens, one after the other; a token's are between two ends.
    rows: Vec<u32>,
    ends: Vec<u32>,
    gold: Vec<u8>,
    sentences: Vec<Range<usize>>,
}

/// Counts features in a first pass, keeps the frequent ones and numbers them.
fn examples(
    tags: Vec<String>,
    sentences: &[Sentence],
    gold: impl Fn(&Sentence) -> &[String],
    mut each: impl FnMut(&Sentence, &mut dyn FnMut(&[u32])),
) -> Examples {
    let mut counts = vec![0_u8; 1 << features::BITS];
    for sentence in sentences {
        each(sentence, &mut |features| {
            for feature in features {
                let count = &mut counts[*feature as usize];
                *count = count.saturating_add(1);
            }
        });
    }
    let mut numbers = HashMap::new();
    let mut examples = Examples {
        tags,
        hashes: Vec::new(),
        rows: Vec::new(),
        ends: vec![0],
        gold: Vec::new(),
        sentences: Vec::new(),
    };
    for sentence in sentences {
        let start = examples.gold.len();
        each(sentence, &mut |features| {
            for feature in features
                .iter()
                .filter(|feature| counts[**feature as usize] >= MIN_COUNT)
            {
                let row = *numbers.entry(*feature).or_insert_with(|| {
                    examples.hashes.push(*feature);
                    examples.hashes.len() as u32 - 1
                });
                examples.rows.push(row);
            }
            examples.ends.push(examples.rows.len() as u32);
        });
        for tag in gold(sentence) {
            let number = examples.tags.iter().position(|known| known == tag);
            examples.gold.push(number.unwrap_or(examples.tags.len() - 1) as u8);
        }
        examples.sentences.push(start..examples.gold.len());
    }
    println!(
        "{} sentences, {} tokens, {} features",
        examples.sentences.len(),
        examples.gold.len(),
        examples.hashes.len()
    );
    examples
}

/// A weight, and the sum for its mean over the steps: each change times the step it was made in.
#[derive(Clone, Copy, Default)]
struct Mean {
    value: i32,
    weighted: i64,
}

impl Mean {
    fn add(&mut self, change: i32, step: i64) {
        self.value += change;
        self.weighted += i64::from(change) * step;
    }

    fn mean(self, steps: i64) -> f64 {
        f64::from(self.value) - self.weighted as f64 / steps as f64
    }
}

fn train(examples: &Examples, permitted: impl Fn(Option<usize>, usize) -> bool, kept: usize) -> Result<Chain, String> {
    let tags = examples.tags.len();
    let mut rows: Vec<Vec<(u8, Mean)>> = vec![Vec::new(); examples.hashes.len()];
    let mut first = vec![Mean::default(); tags];
    let mut next = vec![Mean::default(); tags * tags];
    let features_of = |at: usize| &examples.rows[examples.ends[at] as usize..examples.ends[at + 1] as usize];
    let (mut step, mut state) = (1_i64, 0x2545_f491_4f6c_dd1d_u64);
    let mut order: Vec<usize> = (0..examples.sentences.len()).collect();
    for epoch in 0..EPOCHS {
        for at in (1..order.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            order.swap(at, (state % (at as u64 + 1)) as usize);
        }
        let mut wrong = 0;
        for sentence in &order {
            let tokens = examples.sentences[*sentence].clone();
            if tokens.is_empty() {
                continue;
            }
            let firsts = (0..tags)
                .map(|tag| {
                    if permitted(None, tag) {
                        first[tag].value
                    } else {
                        FORBIDDEN
                    }
                })
                .collect();
            let nexts = (0..tags * tags)
                .map(|at| {
                    if permitted(Some(at % tags), at / tags) {
                        next[at].value
                    } else {
                        FORBIDDEN
                    }
                })
                .collect();
            let transitions = Transitions::new(tags, nexts, firsts).ok_or("no tags")?;
            let found = viterbi::best(&transitions, tokens.len(), |at, scores| {
                for row in features_of(tokens.start + at) {
                    for (tag, weight) in &rows[*row as usize] {
                        scores[usize::from(*tag)] += weight.value;
                    }
                }
            });
            let gold = &examples.gold[tokens.clone()];
            let mut last = (0, 0);
            for (at, (&found, &gold)) in found.iter().zip(gold).enumerate() {
                let gold = usize::from(gold);
                if found != gold {
                    wrong += 1;
                    for row in features_of(tokens.start + at) {
                        let row = &mut rows[*row as usize];
                        for (tag, change) in [(gold, 1), (found, -1)] {
                            match row.iter_mut().find(|(known, _)| usize::from(*known) == tag) {
                                Some((_, weight)) => weight.add(change, step),
                                None => {
                                    let mut weight = Mean::default();
                                    weight.add(change, step);
                                    row.push((tag as u8, weight));
                                }
                            }
                        }
                    }
                }
                if at == 0 {
                    first[gold].add(1, step);
                    first[found].add(-1, step);
                } else {
                    next[gold * tags + last.0].add(1, step);
                    next[found * tags + last.1].add(-1, step);
                }
                last = (gold, found);
            }
            step += 1;
        }
        println!(
            "pass {}: {:.2} % of the tokens right",
            epoch + 1,
            100.0 - 100.0 * f64::from(wrong) / examples.gold.len() as f64
        );
    }

    // The largest weights are kept, at a scale at which all but one in a thousand fit into a byte.
    let mut sizes: Vec<f64> = rows
        .iter()
        .flatten()
        .map(|(_, weight)| weight.mean(step).abs())
        .collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let least = sizes.get(kept).copied().unwrap_or(0.0);
    let scale = 127.0
        / sizes
            .get(sizes.len().min(kept) / 1000)
            .copied()
            .unwrap_or(1.0)
            .max(1e-9);
    let byte = |mean: f64| (mean * scale).round().clamp(-127.0, 127.0) as i8;
    let word = |mean: f64| (mean * scale).round().clamp(-32_000.0, 32_000.0) as i32;
    let mut features: Vec<(u32, Vec<Weight>)> = rows
        .iter()
        .zip(&examples.hashes)
        .filter_map(|(row, hash)| {
            let weights: Vec<Weight> = row
                .iter()
                .map(|(tag, weight)| (*tag, weight.mean(step)))
                .filter(|(_, mean)| mean.abs() > least && byte(*mean) != 0)
                .map(|(tag, mean)| Weight { tag, value: byte(mean) })
                .collect();
            (!weights.is_empty()).then_some((*hash, weights))
        })
        .collect();
    features.sort_unstable_by_key(|(hash, _)| *hash);
    println!(
        "{} weights of {} features kept, of {}; least {least:.3}, scale {scale:.2}",
        features.iter().map(|(_, weights)| weights.len()).sum::<usize>(),
        features.len(),
        sizes.len()
    );
    let firsts = (0..tags)
        .map(|tag| {
            if permitted(None, tag) {
                word(first[tag].mean(step))
            } else {
                FORBIDDEN
            }
        })
        .collect();
    let nexts = (0..tags * tags)
        .map(|at| {
            if permitted(Some(at % tags), at / tags) {
                word(next[at].mean(step))
            } else {
                FORBIDDEN
            }
        })
        .collect();
    let transitions = Transitions::new(tags, nexts, firsts).ok_or("no tags")?;
    Chain::new(examples.tags.clone(), transitions, &features).map_err(|e| e.to_string())
}

fn read(files: &[String]) -> Result<Vec<Sentence>, String> {
    let mut all = Vec::new();
    for file in files {
        let read = support::read(Path::new(file))?;
        println!("{file}: {} sentences", read.len());
        all.extend(read);
    }
    Ok(all)
}

fn run() -> Result<(), String> {
    let mut lists: HashMap<String, Vec<String>> = HashMap::new();
    let mut list = "--out".to_owned();
    for argument in std::env::args().skip(1) {
        if argument.starts_with("--") {
            list = argument;
        } else {
            lists.entry(list.clone()).or_default().push(argument);
        }
    }
    let files = |name: &str| {
        lists
            .get(name)
            .cloned()
            .ok_or(format!("{name} FILE… is missing; see the head of this file"))
    };
    let out = files("--out")?.remove(0);

    let pos_tags: Vec<String> = Pos::ALL.iter().map(|pos| pos.name().to_owned()).collect();
    let sentences = read(&files("--pos")?)?;
    let data = examples(
        pos_tags,
        &sentences,
        |sentence| &sentence.pos,
        |sentence, take| {
            let words = features::words(&sentence.text, &sentence.spans);
            let mut buffer = Vec::new();
            for at in 0..words.len() {
                features::of_pos(&words, at, &mut buffer);
                take(&buffer);
            }
        },
    );
    let pos = train(&data, |_, _| true, POS_WEIGHTS)?;
    drop(data);

    let entity_tags: Vec<String> = std::iter::once("O".to_owned())
        .chain(
            EntityLabel::ALL
                .iter()
                .flat_map(|label| [format!("B-{label}"), format!("I-{label}")]),
        )
        .collect();
    let names = entity_tags.clone();
    // An inside tag follows only a begin or an inside tag of its own type.
    let permitted = move |previous: Option<usize>, tag: usize| match names[tag].strip_prefix("I-") {
        None => true,
        Some(label) => previous.is_some_and(|previous| names[previous].get(2..) == Some(label)),
    };
    let empty = Chain::new(
        vec!["O".to_owned()],
        Transitions::new(1, vec![0], vec![0]).ok_or("no tags")?,
        &[],
    )
    .map_err(|e| e.to_string())?;
    let tagger = Tagger::read(&model::write(&pos, &empty)).map_err(|e| e.to_string())?;
    let sentences = read(&files("--entities")?)?;
    let data = examples(
        entity_tags,
        &sentences,
        |sentence| &sentence.bio,
        |sentence, take| {
            let words = features::words(&sentence.text, &sentence.spans);
            let tagged = tagger.tag_tokens(&sentence.text, sentence.spans.clone());
            let pos: Vec<Pos> = tagged.tokens.iter().map(|token| token.pos).collect();
            let runs = features::capital_runs(&words);
            let mut buffer = Vec::new();
            for at in 0..words.len() {
                features::of_entity(&words, &pos, &runs, at, &mut buffer);
                take(&buffer);
            }
        },
    );
    let entities = train(&data, permitted, ENTITY_WEIGHTS)?;
    let file = model::write(&pos, &entities);
    fs::write(&out, &file).map_err(|e| format!("cannot write {out}: {e}"))?;
    println!("{out}: {} bytes", file.len());
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
