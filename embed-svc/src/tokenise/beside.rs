//! The files beside `tokenizer.json` that transformers reads too. Settings that contradict it are
//! refused, because transformers obeys them while this crate reads only `tokenizer.json`.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use serde_json::Value;
use tokenizers::{
    ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer, TruncationDirection, TruncationParams,
};

use crate::{error::EmbedError, folder::read_optional};

const HINT: &str = "save the tokenizer again: `AutoTokenizer.from_pretrained(dir).save_pretrained(new_dir)` writes what it does into tokenizer.json";
/// Classes for which transformers builds the normaliser from `tokenizer_config.json`.
const BERT: [&str; 4] = [
    "BertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "MPNetTokenizer",
];
/// Classes that put the tokens of these names around a text. Others use `cls_token` and
/// `sep_token`, or the post-processor of the file.
const BY_BOS: [&str; 2] = ["CamembertTokenizer", "XLMRobertaTokenizer"];
const NAMED: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];
const LISTS: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// Compares a tokenizer with the files beside its own. `truncation` is that of its own file.
/// Returns warnings.
///
/// # Errors
/// If a setting or token is missing in `tokenizer.json`; the error names it and the file.
pub(super) fn check(
    file: &Path,
    tokenizer: &Tokenizer,
    truncation: Option<&TruncationParams>,
) -> Result<Vec<String>, EmbedError> {
    let config: Value = read_optional(&file.with_file_name("tokenizer_config.json"))?;
    // A side there replaces the one of `tokenizer.json`, and was checked with the folder.
    if config.get("truncation_side").is_none_or(Value::is_null) {
        check_alone(file, tokenizer, truncation)?;
    }
    let companions = Companions {
        file,
        tokenizer,
        class: class(file, &config)?,
        special: match config.get("added_tokens_decoder") {
            // Then transformers does not open the older files.
            Some(_) => Value::Null,
            None => read_optional(&file.with_file_name("special_tokens_map.json"))?,
        },
        config,
    };
    companions.compare_settings()?;
    companions.compare_tokens()?;
    companions.compare_marks()?;
    companions.compare_words()?;
    Ok(companions.warnings())
}

/// Refuses a tokenizer whose own file drops the beginning of a long text.
pub(super) fn check_alone(
    file: &Path,
    _: &Tokenizer,
    truncation: Option<&TruncationParams>,
) -> Result<Vec<String>, EmbedError> {
    match truncation.map(|truncation| truncation.direction) {
        Some(TruncationDirection::Left) => Err(EmbedError::file(
            file,
            "truncation.direction is Left, which is not served",
            "set it to Right, and request `truncation` HEAD if the end of a long text matters",
        )),
        _ => Ok(Vec::new()),
    }
}

/// The class that transformers loads, without `Fast`.
fn class(file: &Path, config: &Value) -> Result<String, EmbedError> {
    let model: Value = read_optional(&file.with_file_name("config.json"))?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let named = text(config, "tokenizer_class").or_else(|| text(&model, "tokenizer_class"));
    let named = named.unwrap_or_else(|| match text(&model, "model_type").as_deref() {
        Some("bert" | "distilbert" | "nomic_bert") => "BertTokenizer".to_owned(),
        Some("mpnet") => "MPNetTokenizer".to_owned(),
        _ => String::new(),
    });
    Ok(named.trim_end_matches("Fast").to_owned())
}

/// A token, given as a string or as a full added token.
fn token(value: &Value) -> Option<&str> {
    let text = value.as_str().or_else(|| value.get("content")?.as_str());
    text.filter(|text| !text.is_empty())
}

struct Companions<'a> {
    file: &'a Path,
    tokenizer: &'a Tokenizer,
    class: String,
    /// `tokenizer_config.json`.
    config: Value,
    /// `special_tokens_map.json`, if it is read.
    special: Value,
}

impl Companions<'_> {
    fn refuse(&self, name: &str, problem: String) -> EmbedError {
        EmbedError::file(&self.file.with_file_name(name), problem, HINT)
    }

    /// A special token by its name, and the file that gives it.
    fn named(&self, key: &str) -> Option<(&'static str, &str)> {
        if let Some(found) = self.special.get(key).and_then(token) {
            return Some(("special_tokens_map.json", found));
        }
        let found = self.config.get(key).and_then(token)?;
        Some(("tokenizer_config.json", found))
    }

    /// Settings of the normaliser and of the splitting into words.
    fn compare_settings(&self) -> Result<(), EmbedError> {
        let contradicted = |part: &str, key: &str, is: bool, default: Option<bool>| {
            let given = self.config.get(key).filter(|value| !value.is_null());
            let wanted = given.cloned().or(default.map(Value::Bool));
            match wanted {
                Some(wanted) if wanted != Value::Bool(is) => {
                    let by = if given.is_some() { "" } else { " by default" };
                    let problem = format!("{key} is {wanted}{by}, and the {part} of tokenizer.json does the opposite");
                    Err(self.refuse("tokenizer_config.json", problem))
                }
                _ => Ok(()),
            }
        };
        let builds = BERT.contains(&self.class.as_str());
        if let Some(NormalizerWrapper::BertNormalizer(own)) = self.tokenizer.get_normalizer() {
            // By default, accents are removed if the text is lower-cased.
            let strips = own.strip_accents.unwrap_or(own.lowercase);
            for (key, is, default) in [
                ("do_lower_case", own.lowercase, true),
                ("strip_accents", strips, own.lowercase),
                ("tokenize_chinese_chars", own.handle_chinese_chars, true),
            ] {
                contradicted("normalizer", key, is, builds.then_some(default))?;
            }
        }
        if let ModelWrapper::WordPiece(own) = self.tokenizer.get_model()
            && let Some((name, unknown)) = self.named("unk_token").filter(|_| builds)
            && unknown != own.unk_token
        {
            let problem = format!("unk_token is `{unknown}`, and `{}` in tokenizer.json", own.unk_token);
            return Err(self.refuse(name, problem));
        }
        match self.tokenizer.get_pre_tokenizer() {
            Some(PreTokenizerWrapper::ByteLevel(own)) if self.class == "RobertaTokenizer" => {
                contradicted("pre_tokenizer", "add_prefix_space", own.add_prefix_space, Some(false))
            }
            _ => Ok(()),
        }
    }

    /// The ids of added tokens.
    fn compare_tokens(&self) -> Result<(), EmbedError> {
        let agrees = |text: &str, id: u32| self.tokenizer.token_to_id(text) == Some(id);
        let problem = |text: &str, id: u32| {
            let text = text.escape_debug();
            format!("the token `{text}` has the id {id}, and not in tokenizer.json")
        };
        let decoder = self.config.get("added_tokens_decoder").and_then(Value::as_object);
        for (id, added) in decoder.into_iter().flatten() {
            if let (Ok(id), Some(text)) = (id.parse(), token(added))
                && !agrees(text, id)
            {
                let problem = format!("added_tokens_decoder: {}", problem(text, id));
                return Err(self.refuse("tokenizer_config.json", problem));
            }
        }
        let name = "added_tokens.json";
        let added: BTreeMap<String, u32> = read_optional(&self.file.with_file_name(name))?;
        match added.iter().find(|(text, id)| !agrees(text, **id)) {
            Some((text, id)) => Err(self.refuse(name, problem(text, *id))),
            None => Ok(()),
        }
    }

    /// The special tokens around a text.
    fn compare_marks(&self) -> Result<(), EmbedError> {
        let (first, last) = match BY_BOS.contains(&self.class.as_str()) {
            true => ("bos_token", "eos_token"),
            false => ("cls_token", "sep_token"),
        };
        if self.named(first).or(self.named(last)).is_none() {
            return Ok(());
        }
        // A text at which the library panics is refused when it comes.
        let marks = catch_unwind(AssertUnwindSafe(|| self.tokenizer.encode_fast("", true)));
        let Ok(Ok(marks)) = marks else { return Ok(()) };
        let [front, .., end] = marks.get_ids() else {
            return Ok(());
        };
        for (key, id) in [(first, *front), (last, *end)] {
            if let Some((name, wanted)) = self.named(key)
                && self.tokenizer.token_to_id(wanted) != Some(id)
            {
                let own = self.tokenizer.id_to_token(id).unwrap_or_default();
                let problem = format!(
                    "{key} is `{}`, and tokenizer.json writes `{own}` there",
                    wanted.escape_debug()
                );
                return Err(self.refuse(name, problem));
            }
        }
        Ok(())
    }

    /// The words of `vocab.txt`. No program reads the file beside `tokenizer.json`, so it may
    /// differ in a few words, but another model's file is a mistake.
    fn compare_words(&self) -> Result<(), EmbedError> {
        let file = self.file.with_file_name("vocab.txt");
        if !file.is_file() {
            return Ok(());
        }
        let bytes = isomer_models::regular::read(&file).map_err(|error| self.refuse("vocab.txt", error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        let words = text.trim_end().split('\n').map(|word| word.trim_end_matches('\r'));
        let (mut count, mut other) = (0_usize, 0_usize);
        for (id, word) in (0_u32..).zip(words) {
            count += 1;
            other += usize::from(self.tokenizer.token_to_id(word) != Some(id));
        }
        if other * 100 <= count {
            return Ok(());
        }
        let problem = format!("{other} of its {count} words have another id in tokenizer.json");
        Err(EmbedError::file(
            &file,
            problem,
            "the files belong to different models; fetch the model again",
        ))
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let normalizer = self.tokenizer.get_normalizer();
        if BERT.contains(&self.class.as_str()) && !matches!(normalizer, Some(NormalizerWrapper::BertNormalizer(_))) {
            warnings.push(format!(
                "{}: the normalizer is followed as transformers 4 does; transformers 5 builds that of {} in its place",
                self.file.display(),
                self.class
            ));
        }
        let lists = LISTS
            .iter()
            .flat_map(|key| [self.config.get(key), self.special.get(key)]);
        let lists = lists.flatten().flat_map(|list| match list {
            Value::Array(tokens) => tokens.iter().filter_map(token).collect(),
            Value::Object(tokens) => tokens.values().filter_map(token).collect(),
            _ => Vec::new(),
        });
        let keys = self.config.as_object().into_iter().flatten();
        let own = keys.filter(|(key, _)| key.ends_with("_token") && !NAMED.contains(&key.as_str()));
        let tokens = NAMED.iter().filter_map(|key| self.named(key).map(|(_, text)| text));
        let tokens = tokens.chain(lists).chain(own.filter_map(|(_, value)| token(value)));
        let added: Vec<String> = self
            .tokenizer
            .get_added_tokens_decoder()
            .into_values()
            .map(|added| added.content)
            .collect();
        let mut missing: Vec<String> = tokens
            .filter(|text| !added.iter().any(|own| own == text))
            .map(|text| format!("`{}`", text.escape_debug()))
            .collect();
        missing.sort();
        missing.dedup();
        if !missing.is_empty() {
            warnings.push(format!(
                "{}: {} in a text is one token to transformers; tokenizer.json, which is followed, does not add it",
                self.file.display(),
                missing.join(", ")
            ));
        }
        warnings
    }
}
