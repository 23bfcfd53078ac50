//! Reading tagged sentences: the files of training/label.py and treebanks in CoNLL-U.
#![allow(dead_code, reason = "each example uses a part")]

use std::{fs, ops::Range, path::Path};

/// A sentence with its tags.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sentence {
    pub(crate) text: String,
    pub(crate) spans: Vec<Range<usize>>,
    pub(crate) pos: Vec<String>,
    /// BIO tags; empty if the file has none.
    pub(crate) bio: Vec<String>,
}

/// Reads a file, by its ending `.conllu` or `.tagged`.
pub(crate) fn read(path: &Path) -> Result<Vec<Sentence>, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let treebank = path.extension().is_some_and(|ending| ending == "conllu");
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    let read = blocks.map(|block| if treebank { of_treebank(block) } else { of_tagged(block) });
    let sentences: Vec<Sentence> = read.flatten().collect();
    if sentences.is_empty() {
        return Err(format!("{} holds no tagged sentence", path.display()));
    }
    Ok(sentences)
}

fn text_of(block: &str) -> Option<&str> {
    block.lines().find_map(|line| line.strip_prefix("# text = "))
}

/// `None` if the tokens cannot be found in the text.
fn of_treebank(block: &str) -> Option<Sentence> {
    let text = text_of(block)?.to_owned();
    let mut sentence = Sentence::default();
    let mut next = 0;
    for line in block.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let (id, form, pos) = (fields.first()?, fields.get(1)?, fields.get(3)?);
        // Multi-word tokens (`1-2`) and empty nodes (`1.1`).
        if id.contains(['-', '.']) {
            continue;
        }
        let start = next + text[next..].find(form)?;
        if !text[next..start].chars().all(char::is_whitespace) {
            return None;
        }
        next = start + form.len();
        sentence.spans.push(start..next);
        sentence.pos.push((*pos).to_owned());
    }
    Some(Sentence { text, ..sentence })
}

fn of_tagged(block: &str) -> Option<Sentence> {
    let mut sentence = Sentence {
        text: text_of(block)?.to_owned(),
        ..Sentence::default()
    };
    for line in block.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split('\t');
        let (start, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        sentence.spans.push(start..end);
        sentence.pos.push(fields.next()?.to_owned());
        sentence.bio.push(fields.next()?.to_owned());
    }
    Some(sentence)
}

/// Entities of BIO tags, as byte ranges of the text with their types.
pub(crate) fn entities(sentence: &Sentence) -> Vec<(Range<usize>, String)> {
    let mut found: Vec<(Range<usize>, String)> = Vec::new();
    for (span, tag) in sentence.spans.iter().zip(&sentence.bio) {
        match (tag.split_once('-'), found.last_mut()) {
            (Some(("I", _)), Some(last)) => last.0.end = span.end,
            (Some((_, label)), _) => found.push((span.clone(), label.to_owned())),
            (None, _) => {}
        }
    }
    found
}
