//! Word vectors in text: a word and its numbers on each line, in the format of GloVe. word2vec's
//! text format begins with a line that gives the two sizes. Parsed like sentence-transformers'
//! `WordEmbeddings.from_text_file`, without stop words.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use super::StaticVectors;
use crate::{
    error::EmbedError,
    folder::WordList,
    tokenise::words::WordTokenizer,
    weights::{Floats, Table},
};

/// Row 0 belongs to no word and is zero. Its name comes from sentence-transformers.
const PADDING: &str = "PADDING_TOKEN";

/// The words and vectors of a file.
pub struct TextVectors {
    /// Looks words up unchanged, then without surrounding punctuation, then in lower case.
    pub words: WordTokenizer,
    pub table: StaticVectors,
    /// Number of skipped lines, whose number of values differs from the first line's.
    pub skipped: usize,
}

/// Reads a file.
///
/// # Errors
/// If a line is not text or contains a value that is not a number (the error names file and line),
/// or if a file has no vectors.
pub fn read(file: &Path) -> Result<TextVectors, EmbedError> {
    const HINT: &str = "give a text file with a word and its numbers, separated by single spaces, on each line";
    let refuse = |problem: String| EmbedError::file(file, problem, HINT);
    let reader = isomer_models::regular::open(file).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let mut reader = BufReader::with_capacity(1 << 20, reader);
    let (mut vocab, mut values) = (vec![PADDING.to_owned()], Vec::<f32>::new());
    let (mut width, mut skipped, mut number) = (0, 0, 0usize);
    let mut line = String::new();
    loop {
        line.clear();
        number += 1;
        if reader
            .read_line(&mut line)
            .map_err(|error| refuse(format!("line {number}: {error}")))?
            == 0
        {
            break;
        }
        let mut fields = line.trim_end().split(' ');
        let word = fields.next().unwrap_or_default();
        let count = fields.clone().count();
        if width == 0 {
            if count == 1 {
                continue;
            }
            if count == 0 {
                return Err(refuse(format!("line {number} holds no vector")));
            }
            width = count;
            values.resize(width, 0.0);
        }
        if count != width {
            skipped += 1;
            continue;
        }
        for field in fields {
            #[allow(clippy::cast_possible_truncation)]
            let value = field
                .parse::<f64>()
                .map_err(|_| refuse(format!("line {number}: `{}` is not a number", shortened(field))))?
                as f32;
            values.push(value);
        }
        vocab.push(word.to_owned());
    }
    if width == 0 {
        return Err(refuse("holds no vectors".into()));
    }
    let words = WordTokenizer::new(WordList {
        vocab,
        ..WordList::default()
    });
    let values = Floats::from(Arc::<[f32]>::from(values));
    let table = StaticVectors::new("word-vectors", Table::held(values, width));
    Ok(TextVectors { words, table, skipped })
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
