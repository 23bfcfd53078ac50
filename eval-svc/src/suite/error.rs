//! Errors in a suite, with file, line and the nearest valid name.

/// A suite that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SuiteError {
    /// The text is not TOML.
    #[error("{file}:{line}: not valid TOML: {message}")]
    Syntax {
        /// File name.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// A field that suites do not have.
    #[error("{file}:{line}: unknown field `{field}`{}", hint(.nearest.as_deref(), .known))]
    UnknownField {
        /// File name.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// The field as written, with its place, for example `dataset[0].tsk`.
        field: String,
        /// The nearest valid name.
        nearest: Option<String>,
        /// All fields allowed there.
        known: Vec<String>,
    },
    /// A value that is not one of the names allowed.
    #[error("{file}:{line}: `{field}`: unknown {what} `{value}`{}", hint(.nearest.as_deref(), .known))]
    UnknownName {
        /// File name.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// The field, for example `dataset[0].task`.
        field: String,
        /// Kind of name, for example `task type`.
        what: &'static str,
        /// The value as written.
        value: String,
        /// The nearest valid name.
        nearest: Option<String>,
        /// All allowed names.
        known: Vec<String>,
    },
    /// A value of the wrong type or out of bounds, or a missing field.
    #[error("{file}:{line}: `{field}`: {message}")]
    Invalid {
        /// File name.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// The field, for example `seeds[1]`.
        field: String,
        message: String,
    },
    /// No suite of this name ships with Isomer.
    #[error("no suite named `{name}` ships with Isomer{}", hint(.nearest.as_deref(), .known))]
    NoSuchSuite {
        name: String,
        /// The nearest valid name.
        nearest: Option<String>,
        /// Suites that ship with Isomer.
        known: Vec<String>,
    },
}

impl SuiteError {
    /// The field with the error, if there is one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::UnknownField { field, .. } | Self::UnknownName { field, .. } | Self::Invalid { field, .. } => {
                Some(field)
            }
            Self::Syntax { .. } | Self::NoSuchSuite { .. } => None,
        }
    }
}

fn hint(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; allowed: {}", known.join(", ")),
    }
}
