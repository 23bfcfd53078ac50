//! The prompts in use: built in, or a user's own.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use super::Prompt;
use crate::{catalogue::Kind, error::TransformError};

/// The prompts compiled in.
const BUILT_IN: &[(Kind, &str)] = &[
    (Kind::Paraphrase, include_str!("../../prompts/paraphrase.txt")),
    (Kind::Summarisation, include_str!("../../prompts/summarisation.txt")),
    (Kind::Expansion, include_str!("../../prompts/expansion.txt")),
    (Kind::Translation, include_str!("../../prompts/translation.txt")),
];

/// The prompts in use.
#[derive(Debug, Clone)]
pub struct Prompts {
    by_kind: HashMap<Kind, Arc<Prompt>>,
}

impl Prompts {
    /// The built-in prompts, replaced by the files `<transformation>.txt` of a directory where there is one.
    ///
    /// # Errors
    /// A directory or file that cannot be read, a file whose name is no transformation with a prompt, a malformed file
    /// or one without its placeholder: all refused at start, not at the first text.
    pub fn load(directory: Option<&Path>) -> Result<Self, TransformError> {
        let mut by_kind = HashMap::new();
        for (kind, file) in BUILT_IN {
            let prompt = Prompt::parse(*kind, file).map_err(|message| TransformError::Prompt {
                file: format!("built-in {}", kind.name()),
                message,
            })?;
            by_kind.insert(*kind, Arc::new(prompt));
        }
        if let Some(directory) = directory {
            for (kind, prompt) in read_directory(directory)? {
                by_kind.insert(kind, Arc::new(prompt));
            }
        }
        Ok(Self { by_kind })
    }

    /// The prompt of a transformation, if it has one.
    pub fn get(&self, kind: Kind) -> Option<&Arc<Prompt>> {
        self.by_kind.get(&kind)
    }
}

fn read_directory(directory: &Path) -> Result<Vec<(Kind, Prompt)>, TransformError> {
    let fail = |path: &Path, message: String| TransformError::Prompt {
        file: path.display().to_string(),
        message,
    };
    let entries =
        fs::read_dir(directory).map_err(|error| fail(directory, format!("the directory cannot be read: {error}")))?;
    let mut prompts = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| fail(directory, error.to_string()))?.path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let kind = BUILT_IN
            .iter()
            .map(|(kind, _)| *kind)
            .find(|kind| kind.name() == stem)
            .ok_or_else(|| {
                let names: Vec<_> = BUILT_IN
                    .iter()
                    .map(|(kind, _)| format!("{}.txt", kind.name()))
                    .collect();
                fail(
                    &path,
                    format!(
                        "no transformation takes a prompt of this name; name it one of {}",
                        names.join(", ")
                    ),
                )
            })?;
        let file = fs::read_to_string(&path).map_err(|error| fail(&path, format!("it cannot be read: {error}")))?;
        prompts.push((
            kind,
            Prompt::parse(kind, &file).map_err(|message| fail(&path, message))?,
        ));
    }
    Ok(prompts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const FILE: &str = "+++\nid = \"paraphrase\"\nversion = 3\n+++\n[user]\n<text>\n{text}\n</text>\n";

    #[test]
    fn every_served_transformation_with_a_generator_has_a_prompt_that_delimits_its_text() {
        let prompts = Prompts::load(None).unwrap();
        for entry in crate::catalogue::ENTRIES
            .iter()
            .filter(|entry| entry.served && entry.calls > 0)
        {
            let prompt = prompts.get(entry.kind).unwrap();
            assert!(!prompt.delimiters().0.is_empty(), "{}", entry.name);
            assert!(
                prompt
                    .render("x", None)
                    .iter()
                    .all(|message| !message.content.contains('{')),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn a_directory_replaces_prompts_and_a_misnamed_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("paraphrase.txt"), FILE).unwrap();
        fs::write(directory.path().join("notes.md"), "not a prompt").unwrap();
        let prompts = Prompts::load(Some(directory.path())).unwrap();
        assert_eq!(prompts.get(Kind::Paraphrase).unwrap().tag(), "paraphrase@3");
        assert!(prompts.get(Kind::Summarisation).is_some());
        fs::write(directory.path().join("parafrase.txt"), FILE).unwrap();
        assert!(
            Prompts::load(Some(directory.path()))
                .unwrap_err()
                .to_string()
                .contains("paraphrase.txt")
        );
        assert!(Prompts::load(Some(&directory.path().join("absent"))).is_err());
    }
}
