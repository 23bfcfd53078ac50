//! Finds the files of a split and a language.
//!
//! A folder contains `<split>.jsonl` or, per language, `<split>.<language>.jsonl`. Retrieval has
//! `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv`, each of which may have a language
//! before its ending. The judgements determine the available languages; a corpus or queries without
//! a language are used for all of them. These are names of tables: the file of `test.jsonl` may
//! also be called `test.csv.gz` or `test-00000-of-00002.parquet` (see `files`).

use super::{DatasetError, LoadOptions, files::Files};
use isomer_scoring::task::TaskType;

/// The chosen files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileSelection {
    pub(super) language: Option<String>,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Rows(String),
    Retrieval(RetrievalFiles),
    /// Classification: the train file and the split's.
    TrainAndTest(String, String),
    /// Reranking with the layout of retrieval, and the candidates of each query.
    Ranked(RetrievalFiles, String),
}

/// Files of a retrieval dataset, by relative path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RetrievalFiles {
    pub(super) corpus: String,
    pub(super) queries: String,
    pub(super) qrels: String,
}

impl RetrievalFiles {
    fn names(&self) -> Vec<&str> {
        vec![self.corpus.as_str(), self.queries.as_str(), self.qrels.as_str()]
    }
}

impl FileSelection {
    /// The names of all files.
    pub(super) fn names(&self) -> Vec<&str> {
        match &self.kind {
            Kind::Rows(name) => vec![name.as_str()],
            Kind::TrainAndTest(train, test) => vec![train.as_str(), test.as_str()],
            Kind::Retrieval(files) => files.names(),
            Kind::Ranked(files, candidates) => {
                let mut names = files.names();
                names.push(candidates);
                names
            }
        }
    }

    /// The file of rows of a single-file task.
    pub(super) fn rows(&self) -> Result<&str, DatasetError> {
        match &self.kind {
            Kind::Rows(name) => Ok(name),
            _ => Err(DatasetError::NotServed {
                task: TaskType::Retrieval,
            }),
        }
    }

    /// The files of a retrieval task.
    pub(super) fn retrieval(&self) -> Result<&RetrievalFiles, DatasetError> {
        match &self.kind {
            Kind::Retrieval(files) => Ok(files),
            _ => Err(DatasetError::NotServed { task: TaskType::Sts }),
        }
    }

    /// The files of a reranking task with the layout of retrieval, and its candidates.
    pub(super) fn ranked(&self) -> Option<(&RetrievalFiles, &str)> {
        match &self.kind {
            Kind::Ranked(files, candidates) => Some((files, candidates)),
            _ => None,
        }
    }

    /// The train file and the split's file of classification.
    pub(super) fn train_and_test(&self) -> Result<(&str, &str), DatasetError> {
        match &self.kind {
            Kind::TrainAndTest(train, test) => Ok((train, test)),
            _ => Err(DatasetError::NotServed {
                task: TaskType::Classification,
            }),
        }
    }
}

pub(super) fn choose(task: TaskType, files: &Files<'_>, options: &LoadOptions) -> Result<FileSelection, DatasetError> {
    match task {
        TaskType::Retrieval => retrieval(files, options),
        TaskType::Reranking => reranking(files, options),
        TaskType::Clsd => pairs_of_languages(files, options),
        TaskType::Classification => classification(files, options),
        task if task.served() => rows(files, options),
        _ => Err(DatasetError::NotServed { task }),
    }
}

fn rows(files: &Files<'_>, options: &LoadOptions) -> Result<FileSelection, DatasetError> {
    if let Some(name) = files.single() {
        // A single file is accepted whatever its name, but the name may still give the language.
        let named = language_of(&name, &options.split, "jsonl").flatten();
        if let (Some(wanted), Some(named)) = (&options.language, &named)
            && wanted != named
        {
            return Err(no_language(files, options, wanted, vec![named.clone()]));
        }
        return Ok(FileSelection {
            language: named.or_else(|| options.language.clone()),
            kind: Kind::Rows(name),
        });
    }
    let (name, language) = in_folder(files, "", &options.split, "jsonl", options)?;
    Ok(FileSelection {
        language,
        kind: Kind::Rows(name),
    })
}

/// The split's file and the train file of the same language.
fn classification(files: &Files<'_>, options: &LoadOptions) -> Result<FileSelection, DatasetError> {
    if let Some(name) = files.single() {
        return Err(DatasetError::MissingFile {
            place: files.label(&name),
            missing: "a folder".to_owned(),
            hint: "classification needs a folder with train.jsonl beside the split's file".to_owned(),
        });
    }
    let (test, language) = in_folder(files, "", &options.split, "jsonl", options)?;
    let names = files.list("");
    let localised = language.as_ref().map(|l| format!("train.{l}.jsonl"));
    let candidates: Vec<String> = localised.into_iter().chain(["train.jsonl".to_owned()]).collect();
    let Some(train) = candidates.iter().find(|name| names.contains(name)) else {
        return Err(DatasetError::MissingFile {
            place: files.place(),
            missing: candidates.join(" or "),
            hint: "classification fits on a train file".to_owned(),
        });
    };
    Ok(FileSelection {
        language,
        kind: Kind::TrainAndTest(train.clone(), test),
    })
}

/// Like [`rows`], but a folder without any file of the split may contain `<source>-<target>.jsonl`,
/// the format in which CLSD is published.
fn pairs_of_languages(files: &Files<'_>, options: &LoadOptions) -> Result<FileSelection, DatasetError> {
    let bare = |name: &str| {
        let stem = name.strip_suffix(".jsonl")?;
        let mut parts = stem.split('-');
        let both = [parts.next()?, parts.next()?];
        let code = |part: &str| matches!(part.len(), 2 | 3) && part.bytes().all(|b| b.is_ascii_lowercase());
        (parts.next().is_none() && both.into_iter().all(code)).then(|| stem.to_owned())
    };
    if let Some(name) = files.single() {
        let mut chosen = rows(files, options)?;
        chosen.language = chosen.language.or_else(|| bare(&name));
        return Ok(chosen);
    }
    let names = files.list("");
    let of_split = names.iter().any(|n| language_of(n, &options.split, "jsonl").is_some());
    let languages: Vec<String> = names.iter().filter_map(|name| bare(name)).collect();
    if of_split || languages.is_empty() {
        return rows(files, options);
    }
    let language = match &options.language {
        Some(wanted) if languages.contains(wanted) => wanted.clone(),
        Some(wanted) => return Err(no_language(files, options, wanted, languages)),
        None if languages.len() == 1 => languages[0].clone(),
        None => {
            return Err(DatasetError::Language {
                place: files.place(),
                split: options.split.clone(),
                problem: "choose a language".to_owned(),
                languages,
            });
        }
    };
    Ok(FileSelection {
        kind: Kind::Rows(format!("{language}.jsonl")),
        language: Some(language),
    })
}

/// One file of rows, or mteb's newer layout: like retrieval, with candidates in
/// `top_ranked/<split>.jsonl`.
fn reranking(files: &Files<'_>, options: &LoadOptions) -> Result<FileSelection, DatasetError> {
    let of_rows = |name: &String| language_of(name, &options.split, "jsonl").is_some();
    if files.single().is_some() || files.list("").iter().any(of_rows) || files.list("top_ranked").is_empty() {
        return rows(files, options);
    }
    let FileSelection { language, kind } = retrieval(files, options)?;
    let chosen = LoadOptions {
        language: language.clone(),
        ..options.clone()
    };
    let (candidates, _) = in_folder(files, "top_ranked", &options.split, "jsonl", &chosen)?;
    match kind {
        Kind::Retrieval(names) => Ok(FileSelection {
            language,
            kind: Kind::Ranked(names, format!("top_ranked/{candidates}")),
        }),
        kind => Ok(FileSelection { language, kind }),
    }
}

fn retrieval(files: &Files<'_>, options: &LoadOptions) -> Result<FileSelection, DatasetError> {
    if files.single().is_some() {
        return Err(DatasetError::MissingFile {
            place: files.place(),
            missing: "a folder".to_owned(),
            hint: "retrieval needs a folder with corpus.jsonl, queries.jsonl and qrels/<split>.tsv".to_owned(),
        });
    }
    let (qrels, language) = in_folder(files, "qrels", &options.split, "tsv", options)?;
    let top = files.list("");
    let part = |stem: &str| {
        let localised = language.as_ref().map(|l| format!("{stem}.{l}.jsonl"));
        let candidates = localised.into_iter().chain([format!("{stem}.jsonl")]);
        let mut candidates = candidates.collect::<Vec<_>>();
        match candidates.iter().position(|c| top.contains(c)) {
            Some(i) => Ok(candidates.swap_remove(i)),
            None => Err(DatasetError::MissingFile {
                place: files.place(),
                missing: candidates.join(" or "),
                hint: "retrieval needs corpus.jsonl, queries.jsonl and qrels/<split>.tsv".to_owned(),
            }),
        }
    };
    let kind = Kind::Retrieval(RetrievalFiles {
        corpus: part("corpus")?,
        queries: part("queries")?,
        qrels: format!("qrels/{qrels}"),
    });
    Ok(FileSelection { language, kind })
}

/// Chooses `<stem>.<ending>` or `<stem>.<language>.<ending>` in a folder.
fn in_folder(
    files: &Files<'_>,
    folder: &str,
    stem: &str,
    ending: &str,
    options: &LoadOptions,
) -> Result<(String, Option<String>), DatasetError> {
    let names = files.list(folder);
    let plain = names.iter().any(|n| language_of(n, stem, ending) == Some(None));
    let mut languages: Vec<String> = names
        .iter()
        .filter_map(|n| language_of(n, stem, ending).flatten())
        .collect();
    languages.sort();
    let localised = |language: &str| (format!("{stem}.{language}.{ending}"), Some(language.to_owned()));
    match &options.language {
        Some(wanted) if languages.contains(wanted) => Ok(localised(wanted)),
        Some(wanted) if !languages.is_empty() => Err(no_language(files, options, wanted, languages)),
        Some(wanted) if plain => Err(no_language(
            files,
            options,
            wanted,
            vec!["only a file without a language".to_owned()],
        )),
        None if plain => Ok((format!("{stem}.{ending}"), None)),
        None if languages.len() == 1 => Ok(localised(&languages[0])),
        None if languages.len() > 1 => Err(DatasetError::Language {
            place: files.place(),
            split: options.split.clone(),
            problem: "choose a language".to_owned(),
            languages,
        }),
        _ => {
            let path = |name: &str| {
                if folder.is_empty() {
                    name.to_owned()
                } else {
                    format!("{folder}/{name}")
                }
            };
            let there: Vec<String> = files.shown(folder).iter().map(|name| path(name)).collect();
            let hint = if there.is_empty() {
                "no file that could be read is there (.jsonl, .csv, .tsv, each also .gz, or .parquet)".to_owned()
            } else {
                format!("there is {}; choose another split", there.join(", "))
            };
            Err(DatasetError::MissingFile {
                place: files.place(),
                missing: path(&format!("{stem}.{ending}")),
                hint,
            })
        }
    }
}

fn no_language(files: &Files<'_>, options: &LoadOptions, wanted: &str, languages: Vec<String>) -> DatasetError {
    DatasetError::Language {
        place: files.place(),
        split: options.split.clone(),
        problem: format!("the language `{wanted}` is not there"),
        languages,
    }
}

/// `Some(None)` for `<stem>.<ending>`, `Some(Some(language))` for `<stem>.<language>.<ending>`,
/// `None` for others.
fn language_of(name: &str, stem: &str, ending: &str) -> Option<Option<String>> {
    let middle = name.strip_prefix(stem)?.strip_suffix(ending)?;
    match middle {
        "." => Some(None),
        _ => {
            let language = middle.strip_prefix('.')?.strip_suffix('.')?;
            (!language.is_empty() && !language.contains('.')).then(|| Some(language.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_read_from_file_names() {
        assert_eq!(language_of("test.jsonl", "test", "jsonl"), Some(None));
        assert_eq!(
            language_of("test.en-ext.jsonl", "test", "jsonl"),
            Some(Some("en-ext".to_owned()))
        );
        assert_eq!(language_of("train.jsonl", "test", "jsonl"), None);
        assert_eq!(language_of("test.de.jsonl.bak", "test", "jsonl"), None);
        assert_eq!(language_of("testing.jsonl", "test", "jsonl"), None);
    }
}
