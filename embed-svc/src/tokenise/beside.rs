//! The files beside `tokenizer.json` that transformers reads too. Settings that contradict it are
//! refused, because transformers obeys them while this crate reads only `tokenizer.json`.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use tokenizers::{NormalizerWrapper, Tokenizer};

use crate::{error::EmbedError, folder::read_optional};

const HINT: &str = "save the tokenizer again: `AutoTokenizer.from_pretrained(dir).save_pretrained(new_dir)` writes what it does into tokenizer.json";

/// Settings of `tokenizer_config.json` that change the normalisation of BERT's tokenizers.
#[derive(Default, Deserialize)]
struct Normalisation {
    #[serde(default)]
    do_lower_case: Option<bool>,
    #[serde(default)]
    strip_accents: Option<bool>,
    #[serde(default)]
    tokenize_chinese_chars: Option<bool>,
}

/// Compares a tokenizer with the files beside its own.
///
/// # Errors
/// If a setting or token is missing in `tokenizer.json`; the error names it and the file.
pub(super) fn check(file: &Path, tokenizer: &Tokenizer) -> Result<(), EmbedError> {
    let config = file.with_file_name("tokenizer_config.json");
    let named: Normalisation = read_optional(&config)?;
    if let Some(NormalizerWrapper::BertNormalizer(own)) = tokenizer.get_normalizer() {
        // By default, accents are removed if the text is lower-cased.
        let strips = own.strip_accents.unwrap_or(own.lowercase);
        let settings = [
            ("do_lower_case", named.do_lower_case, own.lowercase),
            ("strip_accents", named.strip_accents, strips),
            (
                "tokenize_chinese_chars",
                named.tokenize_chinese_chars,
                own.handle_chinese_chars,
            ),
        ];
        for (name, wanted, is) in settings {
            if wanted.is_some_and(|wanted| wanted != is) {
                return Err(EmbedError::file(
                    &config,
                    format!(
                        "{name} is {}, and the normalizer of tokenizer.json does the opposite",
                        !is
                    ),
                    HINT,
                ));
            }
        }
    }
    let added = file.with_file_name("added_tokens.json");
    let tokens: BTreeMap<String, u32> = read_optional(&added)?;
    match tokens
        .iter()
        .find(|(token, id)| tokenizer.token_to_id(token) != Some(**id))
    {
        Some((token, id)) => Err(EmbedError::file(
            &added,
            format!(
                "the token `{}` has the id {id}, and not in tokenizer.json",
                token.escape_debug()
            ),
            HINT,
        )),
        None => Ok(()),
    }
}
