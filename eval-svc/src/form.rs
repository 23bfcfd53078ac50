//! The forms of an encoder: how an index stores its vectors, and how it is searched. Each form is
//! scored like another encoder.

use std::{fmt, str::FromStr};

use isomer_config::spelling::nearest;

use crate::{search_form::SearchForm, stored_form::StoredForm};

/// A form of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Its vectors as an index stores them.
    Stored(StoredForm),
    /// Another search than the one by its vectors alone, for retrieval.
    Search(SearchForm),
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(form) => form.fmt(f),
            Self::Search(form) => form.fmt(f),
        }
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.split_once(':').map_or(text, |(name, _)| name);
        if SearchForm::NAMES.contains(&name) {
            return text.parse().map(Self::Search);
        }
        let stored = text.parse().map(Self::Stored);
        stored.map_err(|message| match nearest(name, SearchForm::NAMES) {
            Some(near) => format!("`{text}` is an unknown form; did you mean `{near}`?"),
            None => message,
        })
    }
}

/// Reads distinct forms.
///
/// # Errors
/// The position of the first unknown or repeated form, and the problem.
pub(crate) fn parse_all(texts: &[String]) -> Result<Vec<Form>, (usize, String)> {
    let mut forms = Vec::with_capacity(texts.len());
    for (position, text) in texts.iter().enumerate() {
        let form: Form = text.parse().map_err(|message| (position, message))?;
        if forms.contains(&form) {
            return Err((position, format!("`{text}` is named twice")));
        }
        forms.push(form);
    }
    Ok(forms)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn forms_are_written_as_they_are_read_and_others_name_what_is_allowed() {
        for text in [
            "int8",
            "binary:256",
            "bm25",
            "hybrid:rrf",
            "hybrid:dbsf",
            "hybrid:rsf:0.7",
        ] {
            assert_eq!(text.parse::<Form>().unwrap().to_string(), text);
        }
        for (text, part) in [
            ("int4", "did you mean `int8`?"),
            ("bm52", "did you mean `bm25`?"),
            ("hybird:rrf", "did you mean `hybrid`?"),
            ("elser", "hybrid:rrf"),
        ] {
            let refused = text.parse::<Form>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }

    #[test]
    fn a_form_that_is_named_twice_is_refused_however_it_is_written() {
        let twice = |texts: [&str; 2]| parse_all(&texts.map(str::to_owned)).unwrap_err().0;
        assert_eq!(twice(["int8", "int8"]), 1);
        assert_eq!(twice(["hybrid:rrf", "hybrid:rrf:0.5"]), 1);
    }
}
