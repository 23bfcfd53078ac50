//! Errors of a configuration, with their place and how to fix them.

use std::fmt;

/// An error of a configuration, with its place and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    field: String,
    message: String,
    hint: String,
    origin: Option<String>,
}

impl ConfigError {
    /// A value that cannot be used: path of the key (`embed.max_batch_tokens`), what is wrong, how
    /// to fix it.
    pub fn new(field: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
            hint: hint.into(),
            origin: None,
        }
    }

    /// Path of the key; empty when the error concerns the whole file.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The problem, in words that continue the key.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How to fix it; empty if that is evident.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Where the value was written: a file, an environment variable, the command line, the built-in
    /// default.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The same error, seen from the section that holds it: `max_batch_tokens` becomes
    /// `embed.max_batch_tokens`.
    #[must_use]
    pub fn within(mut self, section: &str) -> Self {
        self.field = if self.field.is_empty() {
            section.to_owned()
        } else {
            format!("{section}.{}", self.field)
        };
        self
    }

    /// Adds where the value was written, unless that is known already.
    #[must_use]
    pub(crate) fn written_in(mut self, origin: Option<String>) -> Self {
        self.origin = self.origin.or(origin);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("configuration: ")?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        if let Some(origin) = &self.origin {
            write!(f, ", in {origin}")?;
        }
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

/// Checks that types cannot express. Called before anything is bound, opened or loaded.
pub trait Validate {
    /// Checks all values.
    ///
    /// # Errors
    /// The first value that cannot be used.
    fn validate(&self) -> Result<(), ConfigError>;
}
