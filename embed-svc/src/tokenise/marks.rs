//! Special tokens at the ends of a text, as `tokenizer_config.json` sets them.

use serde_json::Value;

use super::{Cut, TextTokenizer};
use crate::{
    error::EmbedError,
    folder::{ModelFolder, read_optional},
};

const HINT: &str = "save the tokenizer with a post-processor that adds it: `tokenizer.backend_tokenizer.save(\"tokenizer.json\")` \
                    of one that does";

/// Configures a folder's tokenizer to add the marks that its files request.
///
/// # Errors
/// If `add_bos_token` or `add_eos_token` requests a mark that `tokenizer.json` does not add
/// (versions of the library differ in their handling), or NV-Embed's end mark is unknown.
pub(crate) fn follow(folder: &ModelFolder, tokenizer: TextTokenizer) -> Result<TextTokenizer, EmbedError> {
    let file = folder.transformer.join("tokenizer_config.json");
    let config: Value = read_optional(&file)?;
    // A mark is given as a string or as a full added token.
    let mark = |key: &str| {
        let value = config.get(key)?;
        value.as_str().or_else(|| value.get("content")?.as_str())
    };
    let ids = |text: &str| {
        tokenizer
            .encode("", text, usize::MAX, Cut::Tail)
            .map(|tokens| tokens.ids)
            .unwrap_or_default()
    };
    let (plain, asks) = (ids("a"), |key: &str| config.get(key) == Some(&Value::Bool(true)));
    for (key, token, there) in [
        ("add_bos_token", "bos_token", plain.first()),
        ("add_eos_token", "eos_token", plain.last()),
    ] {
        let Some(token) = mark(token).filter(|_| asks(key)) else {
            continue;
        };
        if tokenizer.id(token).as_ref() != there {
            let problem = format!("{key} is true, but tokenizer.json does not add {token}");
            return Err(EmbedError::file(&file, problem, HINT));
        }
    }
    let writes_end = folder.config.get("model_type").and_then(Value::as_str) == Some("nvembed")
        && folder.config.get("add_eos") != Some(&Value::Bool(false));
    if !writes_end {
        return Ok(tokenizer);
    }
    match mark("eos_token").filter(|token| tokenizer.id(token).as_ref() == ids(token).last()) {
        Some(token) => Ok(tokenizer.followed_by(token)),
        None => Err(EmbedError::file(
            &file,
            "eos_token is not a token of tokenizer.json; add_eos in config.json writes it after every text",
            "fetch the model again",
        )),
    }
}
