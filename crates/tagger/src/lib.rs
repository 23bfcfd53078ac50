//! English parts of speech and named entities, without a runtime, a network or a large file.
//!
//! * [`tokenise`](fn@tokenise): text → tokens, divided as in English treebanks and spaCy (`don't`
//!   is `do` + `n't`).
//! * [`Tagger::tag`]: tokens → one Universal part of speech per token ([`Pos`]), and the spans of
//!   named entities ([`EntityLabel`], the eighteen types of OntoNotes).
//!
//! Both taggers are linear chains with a score for each (feature, tag) and (tag, next tag).
//! Viterbi's algorithm finds the best sequence, and the averaged structured perceptron
//! (Collins 2002) learns the scores. Scores are integers, so that a text gets the same tags on
//! every machine. The model is part of the binary ([`Tagger::english`]). This crate's README
//! describes its training, its data and its accuracy.

pub mod features;
mod labels;
pub mod model;
mod tokenise;
pub mod viterbi;

use std::{ops::Range, sync::OnceLock};

pub use labels::{EntityLabel, Pos};
use model::{Chain, ModelError};
pub use tokenise::tokenise;

/// The model that is part of this crate.
pub static ENGLISH: &[u8] = include_bytes!("../model/en.tagger");

/// A token and its part of speech.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// Its part of speech.
    pub pos: Pos,
}

/// A named entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Its tokens, by index; never empty. Entities do not overlap and are in order.
    pub tokens: Range<usize>,
    /// Its type.
    pub label: EntityLabel,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaggedText {
    /// The tokens in order; every character that is not white space is in exactly one.
    pub tokens: Vec<Token>,
    /// The entities in order.
    pub entities: Vec<Entity>,
}

/// Two trained chains.
#[derive(Debug)]
pub struct Tagger {
    pos: Chain,
    entities: Chain,
    pos_tags: Vec<Pos>,
    entity_tags: Vec<Bio>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bio {
    Outside,
    Begin(EntityLabel),
    Inside(EntityLabel),
}

impl Tagger {
    /// The English tagger, loaded at the first call (milliseconds, about 4 MB).
    ///
    /// # Errors
    /// If the built-in file is damaged, which a test rules out. The error is then the same each
    /// time.
    pub fn english() -> Result<&'static Self, &'static ModelError> {
        static TAGGER: OnceLock<Result<Tagger, ModelError>> = OnceLock::new();
        TAGGER.get_or_init(|| Self::read(ENGLISH)).as_ref()
    }

    /// Reads a model file: the chain of the parts of speech, then that of the entities.
    ///
    /// # Errors
    /// If the file is not a model of this version, is cut short or damaged, or names unknown tags.
    pub fn read(bytes: &[u8]) -> Result<Self, ModelError> {
        let (pos, entities) = model::read(bytes)?;
        let pos_tags = pos
            .tags()
            .iter()
            .map(|name| Pos::named(name).ok_or_else(|| ModelError::UnknownTag(name.clone())))
            .collect::<Result<_, _>>()?;
        let entity_tags = entities
            .tags()
            .iter()
            .map(|name| Bio::parse(name).ok_or_else(|| ModelError::UnknownTag(name.clone())))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            pos,
            entities,
            pos_tags,
            entity_tags,
        })
    }

    /// Tags a text of any length, which need not be one sentence.
    pub fn tag(&self, text: &str) -> TaggedText {
        self.tag_tokens(text, tokenise(text))
    }

    /// Tags tokens from another tokeniser: ordered spans that do not overlap, each within the text
    /// and on character boundaries. An invalid span is treated as an empty word.
    pub fn tag_tokens(&self, text: &str, spans: Vec<Range<usize>>) -> TaggedText {
        let words = features::words(text, &spans);
        let mut buffer = Vec::new();
        let tags = self.pos.best(words.len(), |at, scores| {
            features::of_pos(&words, at, &mut buffer);
            self.pos.add(&buffer, scores);
        });
        let pos: Vec<Pos> = tags
            .into_iter()
            .map(|tag| self.pos_tags.get(tag).copied().unwrap_or(Pos::X))
            .collect();
        let runs = features::capital_runs(&words);
        let bio = self.entities.best(words.len(), |at, scores| {
            features::of_entity(&words, &pos, &runs, at, &mut buffer);
            self.entities.add(&buffer, scores);
        });
        let bio = bio
            .into_iter()
            .map(|tag| self.entity_tags.get(tag).copied().unwrap_or(Bio::Outside));
        let entities = spans_of(bio);
        let tokens = spans
            .into_iter()
            .zip(pos)
            .map(|(span, pos)| Token { span, pos })
            .collect();
        TaggedText { tokens, entities }
    }
}

impl Bio {
    fn parse(name: &str) -> Option<Self> {
        match name.split_once('-') {
            None if name == "O" => Some(Self::Outside),
            Some(("B", label)) => EntityLabel::named(label).map(Self::Begin),
            Some(("I", label)) => EntityLabel::named(label).map(Self::Inside),
            _ => None,
        }
    }
}

/// Entities of a sequence of tags. An inside tag that continues no entity begins a new one.
fn spans_of(tags: impl Iterator<Item = Bio>) -> Vec<Entity> {
    let mut entities: Vec<Entity> = Vec::new();
    for (at, tag) in tags.enumerate() {
        match tag {
            Bio::Outside => {}
            Bio::Inside(label) => match entities.last_mut() {
                Some(last) if last.tokens.end == at && last.label == label => last.tokens.end = at + 1,
                _ => entities.push(Entity {
                    tokens: at..at + 1,
                    label,
                }),
            },
            Bio::Begin(label) => entities.push(Entity {
                tokens: at..at + 1,
                label,
            }),
        }
    }
    entities
}
