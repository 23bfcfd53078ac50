//! Converts text to token ids like sentence-transformers.

mod beside;
pub(crate) mod marks;
pub(crate) mod pairs;
pub(crate) mod parts;
mod pieces;
pub mod words;

use std::{
    panic::{AssertUnwindSafe, UnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use parking_lot::{Mutex, MutexGuard};
use tokenizers::{
    NormalizerWrapper, PostProcessor, PostProcessorWrapper, Tokenizer, TruncationDirection, TruncationParams,
    normalizers::{Lowercase, Sequence as NormalizerSequence},
};

use crate::{batch::Sequence, error::EmbedError};
use words::WordTokenizer;

/// Texts, and pieces of a text, larger than this many bytes are tokenised one at a time. Each of
/// their bytes takes some hundred bytes of memory meanwhile.
const LARGE: usize = 32 << 10;
static ONE_LARGE: Mutex<()> = Mutex::new(());

const HINT: &str = "fetch the model again, or save it with a fast tokenizer (`tokenizer.save_pretrained`)";

/// Waits until a text may be tokenised.
fn turn(text: &str) -> Option<MutexGuard<'static, ()>> {
    let large = text.len() > LARGE;
    // The lock guards no data that a panic could leave inconsistent.
    large.then(|| ONE_LARGE.lock())
}

/// The end of an overlong text that is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Keeps the tokens at the beginning.
    Head,
    /// Keeps the tokens at the end.
    Tail,
}

/// The ids of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Ids as the model sees them, with special tokens, truncated to the limit.
    pub ids: Vec<u32>,
    /// Number of ids before truncation.
    pub count: usize,
    /// Leading ids that are special tokens and prompt, in models that do not pool the prompt;
    /// else 0.
    pub prompt: usize,
    /// First id of the second text of a pair, if the tokenizer gives that text its own token type.
    pub second: Option<usize>,
}

impl From<Tokens> for Sequence {
    fn from(tokens: Tokens) -> Self {
        Self {
            ids: tokens.ids,
            prompt: tokens.prompt,
            second: tokens.second,
            ..Self::default()
        }
    }
}

impl Tokens {
    /// Whether the text was longer than the model accepts.
    pub fn truncated(&self) -> bool {
        self.ids.len() < self.count
    }
}

/// A model's tokenizer. Padding and truncation settings of the file are disabled: nothing is padded
/// here, and the folder's own limit applies.
#[derive(Debug)]
pub struct TextTokenizer {
    kind: Kind,
    /// The file it was read from; empty for a list of words.
    file: PathBuf,
    /// Special tokens around every text.
    special: usize,
    /// Maximum length of an input according to the file itself.
    file_limit: Option<usize>,
    /// Whether truncation keeps special tokens.
    keeps_special: bool,
    /// Appended to every text, for models that expect their end mark there.
    suffix: String,
    /// Whether tokenising a long text in pieces gives the same result.
    in_pieces: bool,
    /// Differences from the files beside it that show in few texts, for a person.
    warnings: Vec<String>,
}

#[derive(Debug)]
enum Kind {
    /// A `tokenizer.json`.
    File(Box<Tokenizer>),
    /// A list of words.
    Words(WordTokenizer),
}

impl TextTokenizer {
    /// A tokenizer that looks words up in a list.
    pub fn of_words(words: WordTokenizer) -> Self {
        Self {
            kind: Kind::Words(words),
            file: PathBuf::new(),
            special: 0,
            file_limit: None,
            keeps_special: false,
            suffix: String::new(),
            in_pieces: false,
            warnings: Vec::new(),
        }
    }

    /// Reads a `tokenizer.json`, and checks that the files beside it agree. `lower_case` is
    /// `do_lower_case` of `sentence_bert_config.json`: the text is lower-cased before the tokenizer
    /// sees it.
    pub fn load(file: &Path, lower_case: bool) -> Result<Self, EmbedError> {
        Self::guard(file, || Self::read(file, lower_case, beside::check))
    }

    /// Like [`TextTokenizer::load`], for models that read no other file of the tokenizer.
    pub fn load_alone(file: &Path) -> Result<Self, EmbedError> {
        Self::guard(file, || Self::read(file, false, beside::check_alone))
    }

    /// The library assumes that some parts are complete, and panics otherwise.
    fn guard(file: &Path, read: impl FnOnce() -> Result<Self, EmbedError> + UnwindSafe) -> Result<Self, EmbedError> {
        catch_unwind(read).unwrap_or_else(|_| {
            Err(EmbedError::file(
                file,
                "not a tokenizer: its parts do not fit together",
                HINT,
            ))
        })
    }

    fn read(
        file: &Path,
        lower_case: bool,
        check: fn(&Path, &Tokenizer, Option<&TruncationParams>) -> Result<Vec<String>, EmbedError>,
    ) -> Result<Self, EmbedError> {
        let bytes = isomer_models::regular::read(file)
            .map_err(|error| EmbedError::file(file, format!("the tokenizer cannot be read: {error}"), HINT))?;
        let refuse = |problem: String| EmbedError::file(file, format!("not a tokenizer: {problem}"), HINT);
        serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).map_err(|error| refuse(error.to_string()))?;
        let mut inner = Tokenizer::from_bytes(&bytes).map_err(|error| refuse(error.to_string()))?;
        let truncation = inner.get_truncation().cloned();
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| EmbedError::file(file, format!("truncation cannot be switched off: {error}"), HINT))?;
        let warnings = check(file, &inner, truncation.as_ref())?;
        if lower_case {
            // Lower-cased before the tokenizer's own normalisation, like sentence-transformers
            // since version 5.
            let mut steps = vec![NormalizerWrapper::Lowercase(Lowercase)];
            steps.extend(inner.get_normalizer().cloned());
            let normalizer = Some(NormalizerSequence::new(steps));
            inner
                .with_normalizer(normalizer)
                .map_err(|error| EmbedError::file(file, format!("cannot be made to lower-case: {error}"), HINT))?;
        }
        let special = inner
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(false));
        Ok(Self {
            in_pieces: pieces::possible(&inner),
            kind: Kind::File(Box::new(inner)),
            file: file.into(),
            special,
            file_limit: truncation.map(|truncation| truncation.max_length),
            keeps_special: true,
            suffix: String::new(),
            warnings,
        })
    }

    /// Disables special tokens around a text.
    #[must_use]
    pub fn without_special_tokens(mut self) -> Self {
        if let Kind::File(inner) = &mut self.kind {
            inner.with_post_processor(None::<PostProcessorWrapper>);
        }
        self.special = 0;
        self
    }

    /// Truncates a text after the last token that fits, even a special one, like `WordEmbeddings`.
    #[must_use]
    pub fn cutting_anywhere(mut self) -> Self {
        self.keeps_special = false;
        self
    }

    /// Appends this suffix to every text. The suffix is tokenised and truncated together with the
    /// text.
    #[must_use]
    pub fn followed_by(mut self, suffix: &str) -> Self {
        suffix.clone_into(&mut self.suffix);
        self
    }

    /// Differences from the files beside it that show in few texts.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The id of a token, by its name.
    pub fn id(&self, token: &str) -> Option<u32> {
        match &self.kind {
            Kind::File(inner) => inner.token_to_id(token),
            Kind::Words(_) => None,
        }
    }

    /// Special tokens around every text.
    pub fn special_tokens(&self) -> usize {
        self.special
    }

    /// Everything that affects ids, for a digest.
    pub fn settings(&self) -> String {
        let words = match &self.kind {
            Kind::File(inner) => inner.to_string(false).unwrap_or_default(),
            Kind::Words(words) => words.settings(),
        };
        format!("{words} {:?} {}", self.suffix, self.keeps_special)
    }

    /// Maximum length of an input in tokens according to `tokenizer.json` itself.
    pub fn file_limit(&self) -> Option<usize> {
        self.file_limit
    }

    /// Largest id plus one.
    pub fn vocabulary(&self) -> usize {
        match &self.kind {
            Kind::File(inner) => inner.get_vocab(true).values().max().map_or(0, |&id| id as usize + 1),
            Kind::Words(words) => words.vocabulary(),
        }
    }

    /// Number of leading ids in every text that begins with this prompt: the special tokens in
    /// front and the prompt's own. Measured as in sentence-transformers: for the prompt alone,
    /// without a special token at its end.
    ///
    /// # Errors
    /// If the tokenizer refuses the prompt.
    pub fn prompt_tokens(&self, prompt: &str) -> Result<usize, String> {
        if prompt.is_empty() {
            return Ok(0);
        }
        let ids = self.encode_whole(prompt, usize::MAX, Cut::Tail)?.ids;
        let ends_special = match &self.kind {
            Kind::File(inner) => ids.last().is_some_and(|last| {
                let added = inner.get_added_tokens_decoder();
                added.get(last).is_some_and(|token| token.special)
            }),
            Kind::Words(_) => false,
        };
        Ok(ids.len() - usize::from(ends_special))
    }

    /// The largest id of a token other than the added special tokens, plus one.
    pub fn words(&self) -> usize {
        let Kind::File(inner) = &self.kind else {
            return self.vocabulary();
        };
        let added = inner.get_added_tokens_decoder();
        let special = |id: &u32| added.get(id).is_some_and(|token| token.special);
        let vocabulary = inner.get_vocab(true);
        let words = vocabulary.values().filter(|id| !special(id));
        words.max().map_or(0, |&id| id as usize + 1)
    }

    /// Ids of `prompt + text`, at most `limit` of them. Truncation keeps special tokens, except in
    /// `WordEmbeddings` models. `limit` is larger than [`TextTokenizer::special_tokens`].
    pub fn encode(&self, prompt: &str, text: &str, limit: usize, cut: Cut) -> Result<Tokens, String> {
        if prompt.is_empty() && self.suffix.is_empty() {
            self.encode_whole(text, limit, cut)
        } else {
            self.encode_whole(&format!("{prompt}{text}{}", self.suffix), limit, cut)
        }
    }

    /// Calls the library, which panics at some texts if parts of the file do not match.
    fn guarded<T, E: ToString>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err(format!(
                "the parts of {} do not fit together, which shows with this text: {HINT}",
                self.file.display()
            )),
        }
    }

    fn encode_whole(&self, text: &str, limit: usize, cut: Cut) -> Result<Tokens, String> {
        let inner = match &self.kind {
            Kind::File(inner) => inner,
            Kind::Words(words) => return Ok(cut_words(words.encode(text), limit, cut)),
        };
        let whole = self.guarded(|| pieces::encode(inner, text, self.in_pieces, limit, cut))?;
        let (mut encoding, count) = (whole.tokens, whole.count + self.special);
        if count > limit && self.keeps_special {
            let direction = match cut {
                Cut::Head => TruncationDirection::Left,
                Cut::Tail => TruncationDirection::Right,
            };
            encoding.truncate(limit.saturating_sub(self.special), 0, direction);
            encoding.take_overflowing();
        }
        let encoding = self.guarded(|| inner.post_process(encoding, None, true))?;
        let mut tokens = cut_words(encoding.get_ids().to_vec(), limit, cut);
        tokens.count = count;
        Ok(tokens)
    }
}

fn cut_words(mut ids: Vec<u32>, limit: usize, cut: Cut) -> Tokens {
    let count = ids.len();
    match cut {
        Cut::Head => drop(ids.drain(..count.saturating_sub(limit))),
        Cut::Tail => ids.truncate(limit),
    }
    Tokens {
        ids,
        count,
        prompt: 0,
        second: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    /// The tokenizer of a fixture with another template of special tokens.
    fn tokenizer(file: &Path, special_tokens: &Value) -> TextTokenizer {
        let fixture = Path::new(".").join("tests/fixtures/distilbert/tokenizer.json");
        let mut json: Value = serde_json::from_slice(&std::fs::read(fixture).unwrap()).unwrap();
        let mark = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
        let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        json["post_processor"] = json!({
            "type": "TemplateProcessing",
            "single": [mark("[CLS]"), text("A")],
            "pair": [mark("[CLS]"), text("A"), text("B")],
            "special_tokens": special_tokens,
        });
        std::fs::write(file, json.to_string()).unwrap();
        TextTokenizer::load(file, false).unwrap()
    }

    #[test]
    fn where_the_library_panics_at_a_text_the_error_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokenizer.json");
        let whole = json!({"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}});
        let all = |tokenizer: &TextTokenizer| {
            let first = tokenizer.first_of_pairs("a", 8).unwrap();
            [
                tokenizer
                    .encode("", "a storm", 8, Cut::Tail)
                    .map(|tokens| tokens.ids.len()),
                tokenizer.encode_pair(&first, "b", 8).map(|tokens| tokens.ids.len()),
                tokenizer.parts("", "a storm", true).map(|parts| parts.len()),
            ]
        };
        for done in all(&tokenizer(&file, &whole)) {
            assert!(done.unwrap() > 1);
        }
        for refused in all(&tokenizer(&file, &json!({}))) {
            let said = refused.unwrap_err();
            assert!(said.contains(&*file.to_string_lossy()), "{said}");
        }
    }
}
