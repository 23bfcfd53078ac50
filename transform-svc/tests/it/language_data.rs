//! The detector on real sentences: how often it is right, wrong, or reports that a text is too
//! short. Also the word Jaccard of published distractors, compared with the paper's.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
};

use flate2::read::GzDecoder;
use isomer_transform::{
    language::{Language, LanguageCheck, check},
    measures::measure,
};
use serde_json::Value;

use crate::published;

/// Rows of a data set in `tests/data`.
pub(crate) fn published(file: &str) -> Vec<Value> {
    let file = published::published(&format!("{file}.gz"));
    rows(GzDecoder::new(File::open(file).unwrap()))
}

/// Rows of a data set whose licence forbids a copy in this repository.
fn shared(file: &str) -> Vec<Value> {
    rows(File::open(published::shared(file)).unwrap())
}

fn rows(file: impl Read) -> Vec<Value> {
    let lines = BufReader::new(file).lines();
    lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

/// A file, the field with its texts, their language, and the maximum shares of wrong and of too
/// short ones: the measured values plus one and two points, rounded up. PAWS-X and RTE-3 contain
/// many names, which explains their wrong ones.
type Texts = (&'static str, &'static str, &'static str, f64, f64);

const PUBLISHED: &[Texts] = &[
    ("Banking77Classification/test.jsonl", "text", "en", 0.01, 0.04),
    ("STS17/test.es-es.jsonl", "sentence1", "es", 0.03, 0.14),
    (
        "PawsXPairClassification/validation.es.jsonl",
        "sentence1",
        "es",
        0.07,
        0.18,
    ),
    (
        "PawsXPairClassification/validation.fr.jsonl",
        "sentence1",
        "fr",
        0.07,
        0.07,
    ),
    ("PawsXPairClassification/test.de.jsonl", "sentence1", "de", 0.06, 0.05),
    ("STS17/test.en-tr.jsonl", "sentence2", "tr", 0.01, 0.16),
    ("STS17/test.ar-ar.jsonl", "sentence1", "ar", 0.01, 0.22),
    ("PawsXPairClassification/test.zh.jsonl", "sentence1", "zh", 0.01, 0.11),
];

const SHARED: &[Texts] = &[
    ("STSBenchmark/test.jsonl", "sentence1", "en", 0.01, 0.08),
    ("SICK-R/test.jsonl", "sentence1", "en", 0.01, 0.03),
    ("MasakhaNEWSClusteringS2S/test.eng.jsonl", "text", "en", 0.01, 0.03),
    ("MasakhaNEWSClusteringS2S/test.fra.jsonl", "text", "fr", 0.05, 0.06),
    (
        "AmazonCounterfactualClassification/test.de.jsonl",
        "text",
        "de",
        0.02,
        0.03,
    ),
    ("RTE3/test.it.jsonl", "sentence2", "it", 0.10, 0.14),
    ("SemRel24STS/test.arb.jsonl", "sentence1", "ar", 0.01, 0.09),
    ("SemRel24STS/test.hin.jsonl", "sentence1", "hi", 0.02, 0.02),
    ("SemRel24STS/test.hau.jsonl", "sentence1", "ha", 0.01, 0.03),
    ("MasakhaNEWSClusteringS2S/test.hau.jsonl", "text", "ha", 0.03, 0.06),
    ("MasakhaNEWSClusteringS2S/test.swa.jsonl", "text", "sw", 0.02, 0.03),
    (
        "AmazonCounterfactualClassification/test.ja.jsonl",
        "text",
        "ja",
        0.01,
        0.04,
    ),
];

/// A text that is not in the expected language is rarely classified as right: each language's texts
/// are tested against every other.
fn other_languages_are_found(data: &[Texts], rows: fn(&str) -> Vec<Value>, least_found: f64) {
    let (mut texts, mut right, mut wrong) = (0, 0, 0);
    for (file, field, code, ..) in data {
        for row in rows(file).iter().take(60) {
            for other in ["en", "es", "fr", "de", "it", "tr", "ha", "sw"] {
                if other == *code {
                    continue;
                }
                texts += 1;
                match check(row[field].as_str().unwrap(), Language::parse(other).unwrap()) {
                    LanguageCheck::Right => right += 1,
                    LanguageCheck::Wrong => wrong += 1,
                    LanguageCheck::TooShort | LanguageCheck::Unspecified => {}
                }
            }
        }
    }
    println!("{texts} pairs of a text and another language: {wrong} found, {right} taken for right");
    assert!(f64::from(right) < 0.01 * f64::from(texts), "{right} of {texts}");
    assert!(f64::from(wrong) > least_found * f64::from(texts), "{wrong} of {texts}");
}

/// Measured: 0.5 % classified as right, 87.0 % found. The others are too short.
#[test]
fn a_text_in_another_language_is_found() {
    other_languages_are_found(PUBLISHED, published, 0.86);
}

/// Measured: 0.7 % classified as right, 94.2 % found.
#[test]
#[ignore = "tests/more data: licences forbid a copy of the data sets"]
fn a_text_in_another_language_is_found_in_shared_data() {
    other_languages_are_found(SHARED, shared, 0.93);
}

fn is_seldom_wrong(data: &[Texts], rows: fn(&str) -> Vec<Value>) {
    let mut missed = Vec::new();
    for (file, field, code, most_wrong, most_short) in data {
        let expected = Language::parse(code).unwrap();
        let rows = rows(file);
        let texts: Vec<&str> = rows.iter().take(1000).map(|row| row[field].as_str().unwrap()).collect();
        let share = |wanted: LanguageCheck| {
            texts.iter().filter(|text| check(text, expected) == wanted).count() as f64 / texts.len() as f64
        };
        let (wrong, short) = (share(LanguageCheck::Wrong), share(LanguageCheck::TooShort));
        println!(
            "{code} {file}: {} texts, {:.1} % right, {:.1} % wrong, {:.1} % too short to tell",
            texts.len(),
            100.0 * (1.0 - wrong - short),
            100.0 * wrong,
            100.0 * short
        );
        if wrong > *most_wrong || short > *most_short {
            missed.push(format!("{file}: {wrong:.3} wrong, {short:.3} too short"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn the_detector_is_seldom_wrong_on_real_sentences() {
    is_seldom_wrong(PUBLISHED, published);
}

#[test]
#[ignore = "tests/more data: licences forbid a copy of the data sets"]
fn the_detector_is_seldom_wrong_on_shared_data() {
    is_seldom_wrong(SHARED, shared);
}

/// CLSD reports a word Jaccard of 0.47 ± 0.17 between originals and distractors over WMT19 and
/// WMT21 in both directions. The available data is WMT19, and the paper does not describe how it
/// splits words: ours gives 0.50 ± 0.19 against the original and 0.47 ± 0.18 within the sets.
#[test]
#[ignore = "tests/more data: the licence forbids a copy of the data set"]
fn our_jaccard_of_the_shared_data_is_near_the_papers() {
    let (mut against, mut within) = (Vec::new(), Vec::new());
    for file in ["CLSD-WMT19/de-fr.jsonl", "CLSD-WMT19/fr-de.jsonl"] {
        for row in shared(file) {
            let target = row["target"].as_str().unwrap();
            let texts: Vec<&str> = row["distractors"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            against.extend(texts.iter().map(|text| measure(target, text).jaccard));
            for (at, a) in texts.iter().enumerate() {
                within.extend(texts[at + 1..].iter().map(|b| measure(a, b).jaccard));
            }
        }
    }
    for (what, values, most) in [
        ("against the original", against, 0.05),
        ("within the sets", within, 0.02),
    ] {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let deviation = (values.iter().map(|j| (j - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        println!("{n} {what}: Jaccard {mean:.3} ± {deviation:.3}, paper 0.47 ± 0.17");
        assert!(
            (mean - 0.47).abs() < most && (deviation - 0.17).abs() < 0.025,
            "{what}: {mean} ± {deviation}"
        );
    }
}
