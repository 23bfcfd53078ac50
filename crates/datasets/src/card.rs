//! The card of a repository (the header of its README.md): the language of its texts, and the files
//! of its configurations and splits.

#[cfg(feature = "locate")]
use std::collections::BTreeMap;
use std::{
    io::{self, Read},
    path::Path,
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_norway::Value;

use crate::roots;

/// The file with a repository's card.
pub(crate) const CARD: &str = "README.md";
/// Maximum bytes of a card that are read.
const MOST_BYTES: u64 = 4 << 20;

/// The card of a folder; empty if there is none. Nothing outside `root` is read.
pub(crate) fn of_folder(folder: &Path, root: Option<&Path>) -> String {
    let file = roots::open(&folder.join(CARD), root);
    let card = file.and_then(|file| io::read_to_string(file.take(MOST_BYTES)));
    card.unwrap_or_default()
}

/// The language in the header of a card; `None` if the header names none or several.
pub(crate) fn language(card: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Card {
        #[serde(default)]
        language: Value,
    }
    let named = header::<Card>(card)?.language;
    let one = match &named {
        Value::Sequence(all) if all.len() == 1 => all.first()?,
        one => one,
    };
    let mut parts = one.as_str()?.split(['-', '_']);
    let is_code = |part: &str| matches!(part.len(), 2 | 3) && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_tag = parts.next().is_some_and(is_code)
        && parts.all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    one.as_str().filter(|_| is_tag).map(ToOwned::to_owned)
}

/// The header of a card, read as YAML.
fn header<T: DeserializeOwned>(card: &str) -> Option<T> {
    let (head, _) = card.strip_prefix("---")?.split_once("\n---")?;
    serde_norway::from_str(head)
        .inspect_err(|error| tracing::debug!(%error, "the card of a data set is not understood"))
        .ok()
}

/// Patterns of files, by configuration and split.
#[cfg(feature = "locate")]
pub(crate) type Configurations = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The configurations in the header of a card.
#[cfg(feature = "locate")]
pub(crate) fn configurations(card: &str) -> Configurations {
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
    // Without configurations, the usual file names are looked for.
    let Some(card) = header::<Card>(card) else {
        return Configurations::new();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_gives_a_language_where_it_names_one() {
        let of = |named: &str| language(&format!("---\nlicense: mit\nlanguage: {named}\n---\n# Pairs\n"));
        for (named, expected) in [
            ("en", "en"),
            ("[de]", "de"),
            ("\n- swh", "swh"),
            ("zh-Hant", "zh-Hant"),
            ("no", "no"),
        ] {
            assert_eq!(of(named).as_deref(), Some(expected), "{named}");
        }
        for named in [
            "[en, de]",
            "[]",
            "null",
            "English",
            "multilingual",
            "7",
            "{a: b}",
            "en-",
        ] {
            assert_eq!(of(named), None, "{named}");
        }
        assert_eq!(language("# Pairs\n"), None);
        assert_eq!(language(""), None);
    }
}
