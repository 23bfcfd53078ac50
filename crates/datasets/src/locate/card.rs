//! The card of a repository (the header of its README.md), which assigns files to configurations
//! and splits.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Patterns of files, by configuration and split.
pub(super) type Configurations = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The configurations in the header of a card.
pub(super) fn configurations(card: &str) -> Configurations {
    #[derive(Deserialize)]
    struct Card {
        #[serde(default)]
        configs: Vec<Configuration>,
    }
    #[derive(Deserialize)]
    struct Configuration {
        config_name: String,
        #[serde(default)]
        data_files: DataFiles,
    }
    #[derive(Deserialize, Default)]
    #[serde(untagged)]
    enum DataFiles {
        #[default]
        None,
        One(String),
        Splits(Vec<SplitFiles>),
        Many(Vec<String>),
    }
    #[derive(Deserialize)]
    struct SplitFiles {
        split: String,
        path: Paths,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Paths {
        One(String),
        Many(Vec<String>),
    }
    let Some(head) = card.strip_prefix("---").and_then(|rest| rest.split_once("\n---")) else {
        return Configurations::new();
    };
    let card: Card = match serde_norway::from_str(head.0) {
        Ok(card) => card,
        Err(error) => {
            tracing::debug!(%error, "the card of a data set is not understood; usual file names are looked for");
            return Configurations::new();
        }
    };
    let splits = |files: DataFiles| match files {
        DataFiles::None => BTreeMap::new(),
        // Files without a split are `train`, as in the `datasets` library.
        DataFiles::One(path) => BTreeMap::from([("train".to_owned(), vec![path])]),
        DataFiles::Many(paths) => BTreeMap::from([("train".to_owned(), paths)]),
        DataFiles::Splits(splits) => {
            let paths = |paths| match paths {
                Paths::One(path) => vec![path],
                Paths::Many(paths) => paths,
            };
            splits
                .into_iter()
                .map(|files| (files.split, paths(files.path)))
                .collect()
        }
    };
    card.configs
        .into_iter()
        .map(|configuration| (configuration.config_name, splits(configuration.data_files)))
        .collect()
}
