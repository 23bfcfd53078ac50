//! Data sets and suites.

use isomer_eval::{
    dataset::{self, InlineFile, LoadOptions, Source},
    locate,
    suite::Suite,
    task::TaskType,
};

use crate::input::{Input, text};

/// Files of a data set. The first letter selects the task; lines of `=== NAME` begin a file.
/// `NAME.gz` is compressed here first, so that mutations reach its content. A data set that loads
/// is the same when it is loaded again.
pub(super) fn rows(data: &[u8]) {
    let mut input = Input(data);
    let Some(task) = input.choice(&TaskType::ALL) else {
        return;
    };
    let mut files = Vec::new();
    let mut rest = input.0;
    while let Some(at) = find(rest, b"=== ") {
        let mut part = Input(&rest[at + 4..]);
        let name = text(part.until(b'\n'));
        let end = find(part.0, b"=== ").unwrap_or(part.0.len());
        let (content, after) = part.0.split_at(end);
        let content = if name.ends_with(".gz") {
            packed(content)
        } else {
            content.to_vec()
        };
        files.push(InlineFile { path: name, content });
        rest = after;
    }
    let source = Source::Inline(files);
    let options = LoadOptions {
        limit: Some(50),
        ..LoadOptions::default()
    };
    let Ok(loaded) = dataset::load(task, &source, &options) else {
        return;
    };
    let texts = loaded.texts().len();
    for item in loaded.item_texts() {
        assert!(item.iter().all(|text| (*text as usize) < texts));
    }
    let again = dataset::load(task, &source, &options);
    assert_eq!(
        again.ok().map(|again| again.digest().to_owned()).as_deref(),
        Some(loaded.digest())
    );
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn packed(content: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut out = Vec::new();
    let read = flate2::read::GzEncoder::new(content, flate2::Compression::fast()).read_to_end(&mut out);
    if read.is_ok() { out } else { Vec::new() }
}

/// A suite file. Every error names the file.
pub(super) fn suite(data: &[u8]) {
    if let Err(error) = Suite::parse(&text(data), "fuzz.toml", None) {
        assert!(error.to_string().contains("fuzz.toml"), "{error}");
    }
}

/// The card of a data set.
pub(super) fn card(data: &[u8]) {
    locate::configurations_of(&text(data));
}
