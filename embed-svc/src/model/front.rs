//! The front of the pipeline: the tokenizer and the first module, with a check that they match.

use crate::{
    arch::{self, Architecture},
    device::Device,
    error::EmbedError,
    folder::{ModelFolder, Source, WordTokens},
    tokenise::{TextTokenizer, marks, words::WordTokenizer},
    vectors::{StaticVectors, text_file},
    weights::Weights,
};

/// The parts that turn texts into token vectors: the tokenizer and the first module.
pub(super) fn front(
    folder: &mut ModelFolder,
    device: &Device,
) -> Result<(TextTokenizer, Box<dyn Architecture>), EmbedError> {
    let file = folder.transformer.join("tokenizer.json");
    let (tokenizer, architecture): (_, Box<dyn Architecture>) = match folder.source {
        Source::Transformer => {
            let folder = &*folder;
            // Each of these takes tens of milliseconds.
            let (tokenizer, architecture) = rayon::join(
                || TextTokenizer::load(&file, folder.lower_case),
                || Weights::open(&folder.transformer).and_then(|weights| arch::load(folder, &weights, device)),
            );
            (marks::follow(folder, tokenizer?)?, architecture?)
        }
        Source::WordEmbeddings => {
            let tokenizer = match folder.words.as_mut().map(|words| &mut words.tokens) {
                // Moved rather than copied: there may be hundreds of thousands of words.
                Some(WordTokens::Words(list)) => TextTokenizer::of_words(WordTokenizer::new(std::mem::take(list))),
                _ => TextTokenizer::load(&file, false)?.cutting_anywhere(),
            };
            let weights = Weights::open(&folder.transformer)?;
            (tokenizer, Box::new(StaticVectors::of_words(&weights)?))
        }
        Source::StaticEmbedding => {
            let tokenizer = TextTokenizer::load_alone(&file)?.without_special_tokens();
            let weights = Weights::open(&folder.transformer)?;
            (tokenizer, Box::new(StaticVectors::of_tokens(&weights)?))
        }
        Source::TextFile => {
            let found = text_file::read(&folder.root)?;
            if found.skipped > 0 {
                folder.warnings.push(format!(
                    "{}: {} lines have another number of values than the first and were left out",
                    folder.root.display(),
                    found.skipped
                ));
            }
            (TextTokenizer::of_words(found.words), Box::new(found.table))
        }
    };
    folder.warnings.extend_from_slice(tokenizer.warnings());
    Ok((tokenizer, architecture))
}

/// Maximum length of an input in tokens: the folder's limit, else the size of the position table,
/// else the limit in `tokenizer.json`.
pub(super) fn longest(
    folder: &ModelFolder,
    tokenizer: &TextTokenizer,
    architecture: &dyn Architecture,
) -> Result<usize, EmbedError> {
    let positions = architecture.max_positions();
    let own = match folder.source {
        Source::StaticEmbedding => tokenizer.file_limit(),
        _ => folder.max_seq_length,
    };
    // A larger number would not fit the field of an answer.
    let most = own.unwrap_or(positions).min(u32::MAX as usize);
    let refuse = |problem: String, hint: String| {
        let name = match folder.source {
            Source::Transformer => "sentence_bert_config.json",
            Source::WordEmbeddings => "wordembedding_config.json",
            Source::StaticEmbedding | Source::TextFile => "tokenizer.json",
        };
        Err(EmbedError::file(&folder.transformer.join(name), problem, hint))
    };
    if most > positions {
        return refuse(
            format!("max_seq_length is {most}, the position table of config.json ends at {positions}"),
            format!("set max_seq_length to {positions} or less"),
        );
    }
    if most <= tokenizer.special_tokens() {
        return refuse(
            format!(
                "max_seq_length {most} leaves no room beside {} special tokens",
                tokenizer.special_tokens()
            ),
            "give the longest input in tokens".into(),
        );
    }
    Ok(most)
}

/// Whether the table of token types has a row for each type that the tokenizer produces.
pub(super) fn typed(folder: &ModelFolder, tokenizer: &TextTokenizer) -> Result<(), EmbedError> {
    let file = folder.transformer.join("tokenizer.json");
    let hint = "tokenizer.json and the weights belong to different models";
    let pair = tokenizer
        .first_of_pairs("a", usize::MAX)
        .and_then(|first| tokenizer.encode_pair(&first, "b", usize::MAX))
        .map_err(|error| EmbedError::file(&file, error, hint))?;
    let rows = folder.config.get("type_vocab_size").and_then(serde_json::Value::as_u64);
    if pair.second.is_some() && rows == Some(1) {
        let problem = "gives the second text a token type that config.json (type_vocab_size 1) does not know";
        return Err(EmbedError::file(&file, problem, hint));
    }
    Ok(())
}
