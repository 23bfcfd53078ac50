//! Chooses the files of a repository that a task needs. The card names them. If it does not, the
//! usual names are tried (`data/<split>-*.parquet`, `<configuration>/<split>.jsonl` and the like).

use isomer_models::{hub::ChooseError, pattern};

use crate::{card::Configurations, is_readable};
use isomer_scoring::task::TaskType;

/// The requested part of a repository.
pub(super) struct Choice<'a> {
    pub(super) configurations: &'a Configurations,
    pub(super) task: TaskType,
    pub(super) split: &'a str,
    pub(super) config: Option<&'a str>,
    pub(super) language: Option<&'a str>,
}

impl Choice<'_> {
    /// The tables that the layout looks for, each with its files.
    pub(super) fn tables(&self, listed: &[String]) -> Result<Vec<(String, Vec<String>)>, ChooseError> {
        let readable: Vec<&String> = listed.iter().filter(|name| is_readable(name)).collect();
        match self.task {
            TaskType::Retrieval => return self.retrieval(&readable),
            // This is mteb's newer layout of reranking. In the older one, rows are queries with
            // their candidates.
            TaskType::Reranking if self.part(&readable, "top_ranked").is_ok() => {
                let mut tables = self.retrieval(&readable)?;
                tables.push((
                    format!("top_ranked/{}.jsonl", self.split),
                    self.part(&readable, "top_ranked")?,
                ));
                return Ok(tables);
            }
            _ => {}
        }
        let config = self.configuration(&readable)?;
        let mut splits = vec![self.split];
        if self.task == TaskType::Classification && self.split != "train" {
            splits.push("train");
        }
        // The layout finds a language in a file's name.
        let subset = self.language.map(|language| format!(".{language}")).unwrap_or_default();
        splits
            .into_iter()
            .map(|split| {
                let files = self.files(&readable, config.as_deref(), split)?;
                Ok((format!("{split}{subset}.jsonl"), files))
            })
            .collect()
    }

    /// A corpus, queries and judgements are three configurations. If there are several subsets, the
    /// subset precedes their names.
    fn retrieval(&self, readable: &[&String]) -> Result<Vec<(String, Vec<String>)>, ChooseError> {
        let subset = self.language.map(|language| format!(".{language}")).unwrap_or_default();
        Ok(vec![
            ("corpus.jsonl".to_owned(), self.part(readable, "corpus")?),
            ("queries.jsonl".to_owned(), self.part(readable, "queries")?),
            (
                format!("qrels/{}{subset}.tsv", self.split),
                self.part(readable, "qrels")?,
            ),
        ])
    }

    /// The files of one part of retrieval, located by mteb's rules: the configuration by its name,
    /// then the requested split in it, or the only one.
    fn part(&self, readable: &[&String], part: &str) -> Result<Vec<String>, ChooseError> {
        let names: Vec<String> = match (
            self.config.or(self.language).filter(|subset| *subset != "default"),
            part,
        ) {
            (Some(subset), _) => vec![format!("{subset}-{part}")],
            (None, "qrels") => vec!["default".to_owned(), "qrels".to_owned()],
            (None, "queries") => vec!["query".to_owned(), "queries".to_owned()],
            (None, _) => vec![part.to_owned()],
        };
        for name in &names {
            if let Some(splits) = self.configurations.get(name).filter(|splits| !splits.is_empty()) {
                let split = match splits.keys().collect::<Vec<_>>().as_slice() {
                    [only] if *only != self.split => (*only).as_str(),
                    _ => self.split,
                };
                return self.files(readable, Some(name), split);
            }
        }
        // If the card names nothing, the usual names apply, in which a corpus and queries are
        // separate splits.
        let splits = match part {
            "corpus" | "queries" => vec![part, self.split],
            _ => vec![self.split],
        };
        let usual = names.iter().filter(|_| self.configurations.is_empty());
        let found = usual.flat_map(|name| splits.iter().map(move |split| (name, split)));
        for (name, split) in found {
            // The judgements' `default` may also contain rows of other tasks.
            let name = if part == "qrels" && name == "default" {
                "qrels"
            } else {
                name
            };
            if let Ok(files) = self.files(readable, Some(name), split) {
                return Ok(files);
            }
        }
        Err(self.missing(format!(
            "no configuration {} for the split `{}`",
            names.join(" or "),
            self.split
        )))
    }

    /// The configuration: the named one, the one of the language, or the only one.
    fn configuration(&self, readable: &[&String]) -> Result<Option<String>, ChooseError> {
        let known = |name: &str| {
            self.configurations.contains_key(name)
                || readable
                    .iter()
                    .any(|file| file.starts_with(&format!("{name}/")) || file.contains(&format!("/{name}.")))
        };
        match (self.config, self.language) {
            (Some(name), _) if known(name) => Ok(Some(name.to_owned())),
            (Some(name), _) => Err(self.missing(format!("no configuration `{name}`"))),
            (None, Some(language)) if known(language) => Ok(Some(language.to_owned())),
            (None, Some(language)) => Err(self.missing(format!("no configuration for the language `{language}`"))),
            (None, None) if self.configurations.len() <= 1 => Ok(self.configurations.keys().next().cloned()),
            (None, None) if self.configurations.contains_key("default") => Ok(Some("default".to_owned())),
            (None, None) => Err(self.missing("several configurations and none is chosen".to_owned())),
        }
    }

    /// The files of a split, in order. Every shard must exist.
    fn files(&self, readable: &[&String], config: Option<&str>, split: &str) -> Result<Vec<String>, ChooseError> {
        let said = config.and_then(|config| self.configurations.get(config));
        let patterns: Vec<String> = match said {
            Some(splits) if !splits.is_empty() => splits.get(split).cloned().unwrap_or_default(),
            _ => usual(config, split),
        };
        for pattern in &patterns {
            let mut found: Vec<String> = readable
                .iter()
                .filter(|file| pattern::matches(pattern, file))
                .map(|file| (*file).clone())
                .collect();
            found.sort();
            if let Some(first) = found.first() {
                if let Some(count) = shards(first).filter(|count| *count != found.len()) {
                    return Err(self.missing(format!(
                        "{} of {count} shards of the split `{split}` are there",
                        found.len()
                    )));
                }
                return Ok(found);
            }
        }
        Err(self.missing(format!("no readable file for the split `{split}`")))
    }

    fn missing(&self, message: String) -> ChooseError {
        let there = self.configurations.iter().map(|(name, splits)| {
            let splits: Vec<&str> = splits.keys().map(String::as_str).collect();
            format!("{name} ({})", splits.join(", "))
        });
        let there = there.collect::<Vec<_>>().join(", ");
        ChooseError {
            message,
            hint: if there.is_empty() {
                "name the configuration (org/name:configuration) and the split; JSONL, CSV, TSV and Parquet files are read".to_owned()
            } else {
                format!("its card names {there}; choose with org/name:configuration and the split")
            },
        }
    }
}

/// The usual patterns of file names, if the card names nothing.
fn usual(config: Option<&str>, split: &str) -> Vec<String> {
    let mut patterns = Vec::new();
    if let Some(config) = config.filter(|config| *config != "default") {
        patterns.extend([
            format!("{config}/{split}-*.parquet"),
            format!("{config}/{split}/*.parquet"),
            format!("{config}/{split}.*"),
            format!("{split}/{config}.*"),
            format!("data/{config}/{split}*"),
            format!("{config}-{split}.*"),
            format!("{split}.{config}.*"),
        ]);
        if config == split {
            patterns.push(format!("{config}.*"));
        }
        return patterns;
    }
    patterns.extend([
        format!("data/{split}-*.parquet"),
        format!("default/{split}/*.parquet"),
        format!("{split}-*.parquet"),
        format!("{split}.*"),
        format!("data/{split}.*"),
        format!("{split}/*"),
    ]);
    patterns
}

/// The number of shards that a name such as `test-00000-of-00003.parquet` gives.
fn shards(name: &str) -> Option<usize> {
    let (_, after) = name.rsplit_once("-of-")?;
    after
        .chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::card::configurations;

    const CARD: &str = "---\nlanguage: en\nconfigs:\n- config_name: de\n  data_files:\n  - split: test\n    path: de/test-*\n  \
                        - split: train\n    path: [de/a.parquet, de/b.parquet]\n- config_name: en\n  data_files: en/all.csv\n---\n# Text\n";

    fn names(files: &[&str]) -> Vec<String> {
        files.iter().map(|name| (*name).to_owned()).collect()
    }

    fn choice<'a>(configurations: &'a Configurations, task: TaskType, language: Option<&'a str>) -> Choice<'a> {
        Choice {
            configurations,
            task,
            split: "test",
            config: None,
            language,
        }
    }

    #[test]
    fn a_card_says_which_files_belong_to_a_split() {
        let configurations = configurations(CARD);
        let listed = names(&[
            "README.md",
            "de/test-00000-of-00002.parquet",
            "de/test-00001-of-00002.parquet",
            "de/note.txt",
        ]);
        let tables = choice(&configurations, TaskType::Sts, Some("de"))
            .tables(&listed)
            .unwrap();
        let files = names(&["de/test-00000-of-00002.parquet", "de/test-00001-of-00002.parquet"]);
        assert_eq!(tables, [("test.de.jsonl".to_owned(), files)]);
    }

    #[test]
    fn a_missing_shard_is_not_overlooked() {
        let configurations = configurations(CARD);
        let error = choice(&configurations, TaskType::Sts, Some("de"))
            .tables(&names(&["de/test-00000-of-00002.parquet"]))
            .unwrap_err();
        assert_eq!(error.message, "1 of 2 shards of the split `test` are there");
    }

    #[test]
    fn without_a_choice_the_configurations_are_named() {
        let configurations = configurations(CARD);
        let error = choice(&configurations, TaskType::Sts, None)
            .tables(&names(&["en/all.csv"]))
            .unwrap_err();
        assert!(error.hint.contains("de (test, train), en (train)"), "{}", error.hint);
    }

    #[test]
    fn without_a_card_the_usual_names_are_found() {
        let none = Configurations::new();
        let sts = choice(&none, TaskType::Sts, None)
            .tables(&names(&["data/test-00000-of-00001.parquet"]))
            .unwrap();
        assert_eq!(sts[0].1, names(&["data/test-00000-of-00001.parquet"]));
        let of_language = choice(&none, TaskType::Sts, Some("de"))
            .tables(&names(&["test/de.jsonl.gz"]))
            .unwrap();
        assert_eq!(
            of_language,
            [("test.de.jsonl".to_owned(), names(&["test/de.jsonl.gz"]))]
        );
        let both = choice(&none, TaskType::Classification, None)
            .tables(&names(&["test.jsonl", "train.jsonl"]))
            .unwrap();
        assert_eq!(both.len(), 2);
    }

    const RETRIEVAL: &str = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: dev\n    path: qrels/dev.tsv\n  \
                             - split: test\n    path: qrels/test.tsv\n- config_name: corpus\n  data_files:\n  - split: corpus\n    \
                             path: corpus.jsonl\n- config_name: queries\n  data_files:\n  - split: queries\n    path: \
                             queries.jsonl\n- config_name: top_ranked\n  data_files:\n  - split: test\n    path: \
                             top/test.parquet\n---\n";

    #[test]
    fn the_parts_of_retrieval_are_configurations_with_the_split_asked_for_or_their_only_one() {
        let configurations = configurations(RETRIEVAL);
        let listed = names(&[
            "corpus.jsonl",
            "queries.jsonl",
            "qrels/dev.tsv",
            "qrels/test.tsv",
            "top/test.parquet",
        ]);
        let expected = [
            ("corpus.jsonl", 0),
            ("queries.jsonl", 1),
            ("qrels/test.tsv", 3),
            ("top_ranked/test.jsonl", 4),
        ];
        let expected = expected.map(|(name, file)| (name.to_owned(), vec![listed[file].clone()]));
        let tables = choice(&configurations, TaskType::Retrieval, None)
            .tables(&listed)
            .unwrap();
        assert_eq!(tables, expected[..3]);
        let tables = choice(&configurations, TaskType::Reranking, None)
            .tables(&listed)
            .unwrap();
        assert_eq!(tables, expected);
    }

    #[test]
    fn languages_of_retrieval_stand_before_the_names_of_its_parts() {
        let card = RETRIEVAL
            .replace("config_name: default", "config_name: de-qrels")
            .replace("e: c", "e: de-c")
            .replace("e: q", "e: de-q");
        let configurations = configurations(&card);
        let listed = names(&["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"]);
        let tables = choice(&configurations, TaskType::Retrieval, Some("de"))
            .tables(&listed)
            .unwrap();
        assert_eq!(tables[2], ("qrels/test.de.tsv".to_owned(), names(&["qrels/test.tsv"])));
    }

    #[test]
    fn retrieval_takes_three_configurations() {
        let none = Configurations::new();
        let listed = names(&[
            "corpus/corpus-00000-of-00001.parquet",
            "queries/queries.jsonl",
            "qrels/test.tsv",
        ]);
        let tables = choice(&none, TaskType::Retrieval, None).tables(&listed).unwrap();
        let expected = [("corpus.jsonl", 0), ("queries.jsonl", 1), ("qrels/test.tsv", 2)];
        assert_eq!(
            tables,
            expected.map(|(name, file)| (name.to_owned(), vec![listed[file].clone()]))
        );
    }
}
