//! The pages of `docs/reference` that are generated from the code, and generated tables of other
//! pages. Each test fails if its page is out of date, and rewrites it if `ISOMER_RENEW` is set.

mod catalogues;
mod configuration;
mod errors;
mod gate;
mod http_fields;
mod metrics;
mod protos;
mod providers;

pub(crate) use errors::reasons;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

const RENEW: &str = "ISOMER_RENEW=1 cargo test -p isomer-all-in-one --test it reference::";

pub(crate) fn workspace() -> PathBuf {
    Path::new(".").join("..")
}

/// The Rust files below a folder.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let below = folders.iter().flat_map(|folder| rust_files(folder));
    files.chain(below).collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The head of a generated page.
fn head(title: &str) -> String {
    format!("# {title}\n\n<!-- Generated. Renew with: {RENEW} -->\n")
}

/// A text on one line of a table. Links of rustdoc become plain code.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .join(" ")
        // A bracket as code is not a link.
        .replace("`[`", "\0")
        .replace("[`", "`")
        .replace("`]", "`")
        .replace('\0', "`[`")
        .replace('|', "\\|")
}

/// Compares a page with the committed one, or writes it.
fn compare(name: &str, page: &str) {
    let file = workspace().join("docs/reference").join(name);
    if env::var_os("ISOMER_RENEW").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, page).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/{name} is out of date; renew it with: {RENEW}"
    );
}

/// Compares a generated part of a page that is otherwise written by hand, or writes it.
fn compare_part(page: &str, part: &str, content: &str) {
    let text = read(&format!("docs/reference/{page}"));
    let (begin, end) = (
        format!("<!-- Generated: {part}. Renew with: {RENEW} -->\n"),
        format!("<!-- End of {part} -->\n"),
    );
    let parts = text
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.unwrap_or_else(|| panic!("{page} lacks the lines\n{begin}{end}"));
    compare(page, &format!("{before}{begin}\n{content}\n{end}{after}"));
}
