//! Prompts of encoders: the prompt that precedes each input.
//!
//! The rule, in two steps:
//!
//! 1. Sources in order: the request (`--prompt role=…`), the suite (`[encoder."ID".prompts]`), the
//!    encoder's own prompts (`prompts` of `config_sentence_transformers.json`). The first source
//!    that has a prompt for the text is used. If none has one, the request names no prompt, and the
//!    encoder's default applies (usually no prompt).
//! 2. Roles of one source in the order of mteb 2.20 (`AbsEncoder.get_prompt_name`): data set and
//!    part (`NFCorpus-query`), data set (`NFCorpus`), task type and part (`Retrieval-query`), task
//!    type (`STS`), part (`query`).
//!
//! Only retrieval and reranking have parts, as in mteb: `query`, and `document`, for which
//! `passage` and `corpus` are accepted too (`SentenceTransformer.encode_document`). Two differences
//! from mteb: letter case, hyphens and underscores do not matter, and Isomer's names of task types
//! (`bitext`) are accepted in addition to mteb's (`BitextMining`).

mod resolve;
mod space;
pub mod variant;

use std::collections::BTreeMap;

use isomer_proto::encoder::v1::{Encoder, encode_request};
pub use isomer_report::terms::{Part, PromptSource};
use serde::{Deserialize, Serialize};

use crate::task::TaskType;
use variant::Wording;

pub use resolve::{is_role, known_roles};
pub(crate) use resolve::{resolve, unknown_role, unused};
pub(crate) use space::{check, key, same_but_prompt};

/// A prompt that a user gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenPrompt {
    /// Encoder that it applies to; absent: every encoder.
    pub encoder: Option<String>,
    /// Texts that it applies to, for example `query` or `sts`.
    pub role: String,
    /// The text; empty for no prompt.
    pub text: String,
}

/// A prompt that was chosen for texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptSelection {
    pub source: PromptSource,
    /// The prompt's role in that source, as written.
    pub role: String,
    /// The prompt in the form sent to the encoder.
    pub sent: RequestPrompt,
}

/// A prompt in a request to an encoder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RequestPrompt {
    Literal(String),
    /// The encoder's name of the prompt.
    Named {
        name: String,
        /// Its text, if the encoder reports it.
        text: Option<String>,
    },
}

impl RequestPrompt {
    /// The text, if it is known.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Named { text, .. } => text.as_deref(),
        }
    }

    pub(crate) fn field(&self) -> encode_request::Prompt {
        match self {
            Self::Literal(text) => encode_request::Prompt::LiteralPrompt(text.clone()),
            Self::Named { name, .. } => encode_request::Prompt::PromptName(name.clone()),
        }
    }
}

/// The prompts of one source, by role.
pub(crate) type Layer = BTreeMap<String, RequestPrompt>;

/// The prompts available for an encoder, by source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    request: Layer,
    suite: Layer,
    own: Layer,
    /// The prompt of texts for which no source has one; absent: the encoder's default.
    fallback: Option<RequestPrompt>,
}

impl Layers {
    /// Collects the prompts for one encoder.
    pub(crate) fn new(encoder: &Encoder, request: &[GivenPrompt], suite: Option<&BTreeMap<String, String>>) -> Self {
        let literal = |text: &str| RequestPrompt::Literal(text.to_owned());
        let for_it = |given: &&GivenPrompt| given.encoder.as_ref().is_none_or(|id| *id == encoder.id);
        // A prompt for this encoder takes precedence over one for all encoders.
        let mut given: Vec<&GivenPrompt> = request.iter().filter(for_it).collect();
        given.sort_by_key(|given| given.encoder.is_some());
        let named = |name: &String, text: Option<&String>| {
            let sent = RequestPrompt::Named {
                name: name.clone(),
                text: text.cloned(),
            };
            (name.clone(), sent)
        };
        let mut own: Layer = encoder.prompt_names.iter().map(|name| named(name, None)).collect();
        own.extend(encoder.prompts.iter().map(|(name, text)| named(name, Some(text))));
        Self {
            request: given
                .iter()
                .map(|given| (given.role.clone(), literal(&given.text)))
                .collect(),
            suite: suite
                .into_iter()
                .flatten()
                .map(|(role, text)| (role.clone(), literal(text)))
                .collect(),
            own,
            fallback: None,
        }
    }

    /// The prompts of a variant of the encoder. A prompt whose text the encoder does not report
    /// stays as it is under a rule.
    #[must_use]
    pub(crate) fn varied(mut self, encoder: &Encoder, wording: &Wording) -> Self {
        match wording {
            Wording::Given(prompts) => {
                let literal = |(role, text): (&String, &String)| (role.clone(), RequestPrompt::Literal(text.clone()));
                self.request.extend(prompts.iter().map(literal));
            }
            Wording::Rule(rule) => {
                for sent in [&mut self.request, &mut self.suite, &mut self.own]
                    .into_iter()
                    .flat_map(BTreeMap::values_mut)
                {
                    if let Some(text) = sent.text() {
                        *sent = RequestPrompt::Literal(rule.reworded(text));
                    }
                }
                let default = encoder.vector_space.as_ref().map(|space| &space.prompt);
                let default = default.filter(|prompt| !prompt.is_empty());
                self.fallback = default.map(|prompt| RequestPrompt::Literal(rule.reworded(prompt)));
            }
        }
        self
    }

    /// The prompt of texts for which no source has one.
    pub(crate) fn fallback(&self) -> Option<PromptSelection> {
        Some(PromptSelection {
            source: PromptSource::Encoder,
            role: "default".to_owned(),
            sent: self.fallback.clone()?,
        })
    }

    /// The sources in order of precedence.
    pub(crate) fn in_order(&self) -> [(PromptSource, &Layer); 3] {
        [
            (PromptSource::Request, &self.request),
            (PromptSource::Suite, &self.suite),
            (PromptSource::Encoder, &self.own),
        ]
    }
}

/// The prompts of one data set's texts under one encoder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DatasetPrompts {
    chosen: Vec<(Part, Option<PromptSelection>)>,
}

impl DatasetPrompts {
    /// Chooses the prompt of each part of a data set; `name` is mteb's name of the task.
    pub(crate) fn choose(layers: &Layers, task: TaskType, name: &str) -> Self {
        let of = |part: &Part| (*part, resolve(layers, task, name, *part));
        Self {
            chosen: Part::of_task(task).iter().map(of).collect(),
        }
    }

    /// The prompt of a part; `None`: the encoder's default.
    pub(crate) fn of(&self, part: Part) -> Option<&PromptSelection> {
        let found = self.chosen.iter().find(|(own, _)| *own == part);
        found.and_then(|(_, chosen)| chosen.as_ref())
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = (Part, Option<&PromptSelection>)> {
        self.chosen.iter().map(|(part, chosen)| (*part, chosen.as_ref()))
    }
}
