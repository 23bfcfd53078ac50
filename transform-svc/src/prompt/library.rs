//! The prompts in use: built-in or supplied by the user.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use isomer_config::spelling::{nearest, suggest};

use super::{Prompt, Purpose};
use crate::error::TransformError;

// `BUILT_IN`: ids and texts of the files of `prompts`, written by the build script.
include!(concat!(env!("OUT_DIR"), "/prompts.rs"));

/// The prompts in use: one default for each [`Purpose`], and other wordings.
#[derive(Debug, Clone)]
pub struct Prompts {
    by_id: BTreeMap<String, Arc<Prompt>>,
}

impl Prompts {
    /// Loads the built-in prompts, then replaces and extends them with the files `<id>.txt` of a
    /// directory, if given.
    ///
    /// # Errors
    /// If a directory or file cannot be read, a file's name is not the id of a prompt, or a file is
    /// malformed or lacks its placeholder. These errors are reported at start, not at the first
    /// text.
    pub fn load(directory: Option<&Path>) -> Result<Self, TransformError> {
        let mut by_id = BTreeMap::new();
        for (id, file) in BUILT_IN {
            let prompt = Prompt::parse(id, file).map_err(|message| TransformError::Prompt {
                file: format!("built-in {id}"),
                message,
            })?;
            by_id.insert((*id).to_owned(), Arc::new(prompt));
        }
        for purpose in Purpose::all() {
            if !by_id.contains_key(purpose.name()) {
                return Err(TransformError::Prompt {
                    file: format!("built-in {}", purpose.name()),
                    message: "it is missing".into(),
                });
            }
        }
        if let Some(directory) = directory {
            for prompt in read_directory(directory)? {
                by_id.insert(prompt.id().to_owned(), Arc::new(prompt));
            }
        }
        Ok(Self { by_id })
    }

    /// The prompt for a purpose if a request names none: the wording whose `generators` match this
    /// generator (the longest pattern wins), else the default.
    pub fn get(&self, purpose: Purpose, generator: &str) -> Arc<Prompt> {
        let own = self
            .of(purpose)
            .filter_map(|prompt| {
                let longest = prompt
                    .generators()
                    .iter()
                    .filter(|pattern| matches(pattern, generator))
                    .map(String::len)
                    .max()?;
                Some((longest, prompt))
            })
            // `max_by_key` returns the last of equal elements. In reverse order that is the
            // alphabetically first.
            .rev()
            .max_by_key(|(length, _)| *length);
        match own {
            Some((_, prompt)) => Arc::clone(prompt),
            // `load` guarantees a default for every purpose.
            None => Arc::clone(&self.by_id[purpose.name()]),
        }
    }

    /// The prompt with this id.
    ///
    /// # Errors
    /// If no prompt has this id; the error names the nearest id.
    pub fn named(&self, id: &str, field: &str) -> Result<Arc<Prompt>, TransformError> {
        self.by_id.get(id).cloned().ok_or_else(|| {
            let ids: Vec<&str> = self.by_id.keys().map(String::as_str).collect();
            let hint = suggest(id, &ids);
            TransformError::invalid(field, format!("there is no prompt `{id}`"), hint)
        })
    }

    /// Every wording for a purpose, the default first.
    pub fn of(&self, purpose: Purpose) -> impl DoubleEndedIterator<Item = &Arc<Prompt>> {
        // Ids of one purpose begin with its name, which sorts before the name with a suffix.
        self.by_id.values().filter(move |prompt| prompt.purpose() == purpose)
    }
}

/// Whether a generator's id matches a pattern in which `*` matches any number of characters. Case
/// is ignored.
fn matches(pattern: &str, id: &str) -> bool {
    let (pattern, id) = (pattern.to_lowercase(), id.to_lowercase());
    let parts: Vec<&str> = pattern.split('*').collect();
    let [first, middle @ .., last] = parts.as_slice() else {
        return pattern == id;
    };
    let Some(mut rest) = id.strip_prefix(first) else {
        return false;
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn read_directory(directory: &Path) -> Result<Vec<Prompt>, TransformError> {
    let fail = |path: &Path, message: String| TransformError::Prompt {
        file: path.display().to_string(),
        message,
    };
    let entries =
        fs::read_dir(directory).map_err(|error| fail(directory, format!("the directory cannot be read: {error}")))?;
    let mut prompts = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| fail(directory, error.to_string()))?.path();
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "txt") || id.starts_with('.') {
            continue;
        }
        if Purpose::of_id(&id).is_none() {
            return Err(fail(&path, unknown(&id)));
        }
        let file = fs::read_to_string(&path).map_err(|error| fail(&path, format!("it cannot be read: {error}")))?;
        prompts.push(Prompt::parse(&id, &file).map_err(|message| fail(&path, message))?);
    }
    Ok(prompts)
}

/// The problem with a file's name, and the nearest valid name.
fn unknown(id: &str) -> String {
    let shared = match id.split('-').next().unwrap_or_default() {
        "backtranslation" | "cross_translation" => Some("translation.txt"),
        "summarised_expansion" => Some("expansion.txt and summarisation.txt"),
        _ => None,
    };
    if let Some(shared) = shared {
        return format!("`{id}` has no prompt of its own; it is made with {shared}");
    }
    let names = || Purpose::all().iter().map(|purpose| purpose.name());
    let (base, wording) = id.split_once('-').map_or((id, None), |(base, rest)| (base, Some(rest)));
    match nearest(id, names()).or_else(|| nearest(base, names())) {
        Some(near) => {
            let suffix = wording
                .filter(|_| !near.contains('-') && nearest(base, [near]).is_some() && id.len() > near.len())
                .map_or(String::new(), |wording| {
                    format!(
                        "-{}",
                        wording
                            .to_lowercase()
                            .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
                    )
                });
            format!("no prompt has this name; did you mean `{near}{suffix}.txt`?")
        }
        None => {
            let all: Vec<_> = names().map(|name| format!("{name}.txt")).collect();
            format!(
                "no prompt has this name; there are {}, and each with a hyphen and a wording's name, e.g. paraphrase-mine.txt",
                all.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn file(id: &str, header: &str) -> String {
        format!("+++\nid = \"{id}\"\nversion = 3\n{header}\n+++\n[user]\n<text>\n{{text}}\n</text>\n")
    }

    fn directory(files: &[(&str, String)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(directory.path().join(name), content).unwrap();
        }
        directory
    }

    #[test]
    fn every_built_in_prompt_delimits_its_texts_and_leaves_no_placeholder() {
        let prompts = Prompts::load(None).unwrap();
        for purpose in Purpose::all().iter().copied() {
            for prompt in prompts.of(purpose) {
                assert!(!prompt.delimiters().0.is_empty(), "{}", prompt.id());
                let messages = if purpose.judges() {
                    prompt.render_pair("x", "y", "Shorter.")
                } else {
                    prompt.render("x", None, 4)
                };
                for message in messages {
                    assert!(!message.content.contains('{'), "{}: {}", prompt.id(), message.content);
                }
            }
            assert_eq!(prompts.get(purpose, "any").id(), purpose.name());
        }
        assert_eq!(
            prompts.of(Purpose::of_id("paraphrase").unwrap()).count(),
            4,
            "three more wordings"
        );
    }

    #[test]
    fn a_directory_replaces_prompts_and_adds_wordings() {
        let directory = directory(&[
            ("paraphrase.txt", file("paraphrase", "")),
            ("keywords-mine.txt", file("keywords-mine", "")),
            ("notes.md", "not a prompt".into()),
        ]);
        let prompts = Prompts::load(Some(directory.path())).unwrap();
        assert_eq!(
            prompts.get(Purpose::of_id("paraphrase").unwrap(), "g").tag(),
            "paraphrase@3"
        );
        assert_eq!(prompts.named("keywords-mine", "spec.prompts").unwrap().version(), "3");
        assert_eq!(prompts.get(Purpose::of_id("keywords").unwrap(), "g").id(), "keywords");
        assert!(Prompts::load(Some(&directory.path().join("absent"))).is_err());
    }

    #[test]
    fn a_generator_gets_the_wording_made_for_it_and_the_longest_pattern_wins() {
        let directory = directory(&[
            (
                "paraphrase-gemma.txt",
                file("paraphrase-gemma", "generators = [\"*gemma*\"]"),
            ),
            (
                "paraphrase-small.txt",
                file(
                    "paraphrase-small",
                    "generators = [\"local:gemma-3-270m\", \"local:smol*\"]",
                ),
            ),
        ]);
        let prompts = Prompts::load(Some(directory.path())).unwrap();
        for (generator, id) in [
            ("local:qwen", "paraphrase"),
            ("openai:google/Gemma-3-27b@http://h/v1", "paraphrase-gemma"),
            ("local:gemma-3-270m", "paraphrase-small"),
            ("local:smollm2-135m", "paraphrase-small"),
        ] {
            assert_eq!(
                prompts.get(Purpose::of_id("paraphrase").unwrap(), generator).id(),
                id,
                "{generator}"
            );
        }
        assert_eq!(
            prompts
                .get(Purpose::of_id("summarisation").unwrap(), "local:gemma-3-270m")
                .id(),
            "summarisation"
        );
    }

    #[test]
    fn a_misnamed_file_is_told_the_nearest_name_and_a_malformed_one_its_placeholder() {
        for (name, part) in [
            ("parafrase.txt", "`paraphrase.txt`"),
            ("parafrase-b.txt", "`paraphrase-b.txt`"),
            ("Paraphrase.txt", "`paraphrase.txt`"),
            ("style-change.txt", "`style_change.txt`"),
            ("paraphrase-B.txt", "`paraphrase-b.txt`"),
            ("judge.txt", "paraphrase-mine.txt"),
            ("backtranslation.txt", "translation.txt"),
            ("summarised_expansion.txt", "expansion.txt and summarisation.txt"),
        ] {
            let directory = directory(&[(name, file("x", ""))]);
            let error = Prompts::load(Some(directory.path())).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(part), "{error}");
        }
        let directory = directory(&[("keywords.txt", file("keywords", "").replace("{text}", "the text"))]);
        let error = Prompts::load(Some(directory.path())).unwrap_err().to_string();
        assert!(error.contains("keywords.txt") && error.contains("{text}"), "{error}");
    }

    #[test]
    fn an_id_that_is_none_is_told_the_nearest() {
        let error = Prompts::load(None)
            .unwrap()
            .named("paraphrase-x", "spec.prompts")
            .unwrap_err();
        let TransformError::Invalid { field, hint, .. } = error else {
            panic!("{error}");
        };
        assert!(field == "spec.prompts" && hint.contains("`paraphrase"), "{hint}");
    }
}
