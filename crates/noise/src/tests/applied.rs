//! Every language and channel: applied, or refused with a reason.

use super::sentences;
use crate::{Channel, Dose, Language, apply};

const TABLE: &str = include_str!("applied.txt");

/// The outcome of each channel on the sentence of a language.
fn outcomes(language: Language, sentence: &str) -> String {
    let of = |channel: &Channel| match apply(*channel, sentence, language, Dose::Severe, 1) {
        Ok(_) => "applied",
        Err(refusal) => refusal.reason(),
    };
    Channel::ALL.iter().map(of).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_channel_is_applied_to_each_language_or_refused_with_a_reason() {
    let head: Vec<&str> = Channel::ALL.iter().map(|channel| channel.name()).collect();
    let rows = sentences().map(|(language, sentence)| format!("{} {}", language.code(), outcomes(language, sentence)));
    let found = format!("language {}\n{}\n", head.join(" "), rows.collect::<Vec<_>>().join("\n"));
    assert_eq!(found, TABLE, "\n{found}");
}

/// mteb's codes of the languages in the catalogue of data sets, another crate's.
#[test]
fn every_language_of_the_catalogue_of_data_sets_is_known() {
    let path = std::path::Path::new(".").join("../datasets/catalogue/datasets.toml");
    let catalogue: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let mut seen = 0;
    for dataset in catalogue["dataset"].as_array().unwrap() {
        for code in dataset["languages"]
            .as_table()
            .unwrap()
            .values()
            .flat_map(|codes| codes.as_array().unwrap())
        {
            let code = code.as_str().unwrap();
            assert!(Language::parse(code).is_some(), "{code}");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
    assert!(Language::parse("xx").is_none() && Language::parse("").is_none());
}
