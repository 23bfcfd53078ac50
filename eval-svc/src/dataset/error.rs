//! What can be wrong with a dataset. Every message names the place and how to mend it.

use std::io;

use crate::task::TaskType;

/// A dataset that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// Datasets of this kind cannot be read yet.
    #[error("datasets of the task {task} are not served yet")]
    NotServed {
        /// The kind.
        task: TaskType,
    },
    /// No shipped dataset has this name.
    #[error("there is no built-in dataset `{name}`; there are {}", super::BUILTIN_NAMES.join(", "))]
    UnknownBuiltin {
        /// The name.
        name: String,
    },
    /// The path leads nowhere.
    #[error("{path}: no such file or folder")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The path lies outside the folders that may be read.
    #[error("{path} lies outside the server's data roots; {}", roots_hint(.roots))]
    OutsideRoots {
        /// The path.
        path: String,
        /// The roots.
        roots: Vec<String>,
    },
    /// A relative path sent inline leaves its folder, or is used twice.
    #[error("inline file `{path}`: {problem}")]
    InlinePath {
        /// The path.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A file that cannot be read.
    #[error("{file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A file that the layout needs.
    #[error("{place}: {missing} is missing; {mend}")]
    MissingFile {
        /// The folder.
        place: String,
        /// The file.
        missing: String,
        /// How to mend it.
        mend: String,
    },
    /// Several languages and none chosen, or a language that is not there.
    #[error("{place}: {problem}; the split `{split}` has {}", .languages.join(", "))]
    Language {
        /// The folder.
        place: String,
        /// The split.
        split: String,
        /// What is wrong.
        problem: String,
        /// The languages there are.
        languages: Vec<String>,
    },
    /// A row that cannot be used.
    #[error("{file}, line {line}{}: {problem}", field_hint(.field))]
    Row {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The field, where one is to blame.
        field: Option<String>,
        /// What is wrong and what is expected.
        problem: String,
    },
    /// Bytes that are not UTF-8.
    #[error("{file}, line {line}: not UTF-8 at byte {offset} of the file; convert the file to UTF-8")]
    NotUtf8 {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// Offset of the first bad byte in the file, from 0.
        offset: u64,
    },
    /// A file without a single row.
    #[error("{file}: the file has no rows")]
    Empty {
        /// The file.
        file: String,
    },
    /// A metric that these labels leave undefined.
    #[error("{file}: {problem}")]
    Undefined {
        /// The file.
        file: String,
        /// Why.
        problem: String,
    },
    /// A limit of no rows.
    #[error("a limit of 0 rows leaves nothing to score; give at least 2 pairs or 1 query")]
    ZeroLimit,
}

fn field_hint(field: &Option<String>) -> String {
    field.as_ref().map(|f| format!(", field `{f}`")).unwrap_or_default()
}

fn roots_hint(roots: &[String]) -> String {
    if roots.is_empty() {
        "none are configured".to_owned()
    } else {
        format!("they are {}", roots.join(", "))
    }
}
