//! Entry points for the fuzz targets of `tests/fuzz` into readers that are private to this crate.
//! Not part of the crate's interface.

use std::path::Path;

use crate::{
    Arithmetic, ChatMessage, LocalError, decoder::Decoder, gguf::GgufFile, shape::Shape, template::ChatTemplate,
    vocabulary::Vocabulary,
};

/// Reads a model file like `LocalModel::load`, without starting a thread, and encodes a text.
/// Returns the number of tokens in the vocabulary and the text's tokens.
///
/// # Errors
/// The errors of loading.
pub fn read(path: &Path, text: &str) -> Result<(usize, Vec<u32>), LocalError> {
    let file = GgufFile::open(path)?;
    let shape = Shape::read(&file)?;
    let vocabulary = Vocabulary::read(&file)?;
    let mut prompt = text.to_owned();
    if let Some(source) = file.find_text("tokenizer.chat_template")? {
        let message = ChatMessage {
            role: "user".to_owned(),
            content: text.to_owned(),
        };
        prompt = ChatTemplate::parse(source, &vocabulary)?.render(&[message])?.text;
    }
    let tokens = vocabulary.encode(&prompt, None)?;
    let known = vocabulary.len();
    Decoder::new(file, shape, known, Arithmetic::default())?;
    Ok((known, tokens))
}
