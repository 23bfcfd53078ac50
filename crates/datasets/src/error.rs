//! Errors of a dataset. Every message names the location and the remedy.

use std::io;

use isomer_scoring::task::TaskType;

/// The unit in which rows are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Lines of a text file.
    Line,
    /// Rows of a table.
    Row,
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Line => "line",
            Self::Row => "row",
        })
    }
}

/// A dataset that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// Datasets of this kind are not supported.
    #[error("data sets of the task {task} are not served yet")]
    NotServed { task: TaskType },
    /// No shipped dataset has this name.
    #[error("the built-in data set `{name}` is unknown; give one of {}", super::BUILTIN_NAMES.join(", "))]
    UnknownBuiltin { name: String },
    /// The path does not exist.
    #[error("{path}: no such file or folder")]
    NotFound { path: String },
    /// The path is outside the folders that may be read.
    #[error("{path} lies outside the server's data roots; {}", roots_hint(.roots))]
    OutsideRoots { path: String, roots: Vec<String> },
    /// A relative path sent inline leaves its folder, or is used twice.
    #[error("inline file `{path}`: {problem}")]
    InlinePath { path: String, problem: &'static str },
    /// A file that cannot be read.
    #[error("{file}: {source}")]
    Unreadable { file: String, source: io::Error },
    /// A file whose content does not match its name.
    #[error("{file}: {problem}")]
    Broken { file: String, problem: String },
    /// A data set on the hub that cannot be fetched.
    #[error("{dataset}: {message}")]
    Hub {
        /// Its id.
        dataset: String,
        /// The reason and the remedy.
        message: String,
    },
    /// A data set on the hub that this service may not fetch.
    #[error("{dataset}: {message}")]
    HubClosed {
        /// Its id.
        dataset: String,
        /// The reason and the remedy.
        message: &'static str,
    },
    /// A name that is neither a path nor in the catalogue.
    #[error("there is no data set called `{name}`{}; `isomer datasets` lists the names", nearest_hint(.nearest))]
    UnknownName {
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The request names no kind of task, and the source does not imply one.
    #[error("no task is named; only a data set of the catalogue brings its own")]
    NoTask,
    /// Replacement texts that do not match the data set: an internal error.
    #[error("other texts do not fit: {problem}")]
    OtherTexts { problem: String },
    /// A data set of the catalogue for another task.
    #[error("`{name}` is a data set for {task}, not for {asked}; ask for {task}")]
    OtherTask {
        name: String,
        task: TaskType,
        asked: TaskType,
    },
    /// A data set of the catalogue that is neither on this machine nor on the hub.
    #[error("`{name}` is unavailable: {}; {hint}", .tried.join("; "))]
    Unreachable {
        name: String,
        /// The places searched, and the results.
        tried: Vec<String>,
        hint: String,
    },
    /// A file that the layout requires.
    #[error("{place}: {missing} is missing; {hint}")]
    MissingFile {
        place: String,
        /// The file.
        missing: String,
        hint: String,
    },
    /// There are several languages and none was chosen, or the chosen one does not exist.
    #[error("{place}: {problem}; the split `{split}` has {}", .languages.join(", "))]
    Language {
        place: String,
        split: String,
        problem: String,
        languages: Vec<String>,
    },
    /// More languages than the task has sides.
    #[error(
        "languages = {}: a data set for {task} has at most {most}; give one language for all texts{}",
        .given.join(", "),
        if *.most == 2 { ", or those of the first and of the second side" } else { "" }
    )]
    Languages {
        /// The given languages.
        given: Vec<String>,
        task: TaskType,
        /// The maximum number of languages.
        most: usize,
    },
    /// A row that cannot be used.
    #[error("{file}, {unit} {line}{}: {problem}", field_hint(.field))]
    Row {
        file: String,
        /// The unit of `line`.
        unit: Unit,
        /// The line or row, from 1.
        line: u64,
        /// The field, if one is the cause.
        field: Option<String>,
        /// The problem and the expected content.
        problem: String,
    },
    /// Bytes that are not UTF-8.
    #[error("{file}, line {line}: not UTF-8 at byte {offset} of the file; convert the file to UTF-8")]
    NotUtf8 {
        file: String,
        /// The line, from 1.
        line: u64,
        /// Offset of the first bad byte in the file, from 0.
        offset: u64,
    },
    /// A file without any row.
    #[error("{file}: the file has no rows")]
    Empty { file: String },
    /// A metric that is undefined for these labels.
    #[error("{file}: {problem}")]
    Undefined { file: String, problem: String },
    /// Classification whose scored rows are those that it is fitted on.
    #[error("{test}: its rows are those of the train file {train}, so the score would be memory; {hint}")]
    TrainIsTest {
        train: String,
        test: String,
        /// The remedy.
        hint: String,
    },
    /// A limit of zero rows.
    #[error("a limit of 0 rows leaves nothing to score; give at least 2 pairs or 1 query")]
    ZeroLimit,
}

fn field_hint(field: &Option<String>) -> String {
    field.as_ref().map(|f| format!(", field `{f}`")).unwrap_or_default()
}

fn nearest_hint(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}

fn roots_hint(roots: &[String]) -> String {
    if roots.is_empty() {
        "none are configured".to_owned()
    } else {
        format!("they are {}", roots.join(", "))
    }
}
