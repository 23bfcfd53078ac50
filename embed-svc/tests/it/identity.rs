//! The digest of a model's settings: every change that affects a vector changes it, and a change of
//! form or place does not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use isomer_embed::{device::Device, model::Model, tokenise::Cut};
use serde_json::{Value, json};

use crate::common::{fixtures, is_computed};

/// Texts with letters of both cases, accents, numbers and punctuation, and one that is too long.
fn probes() -> [String; 4] {
    [
        "The gardener watered the roses before breakfast.".to_owned(),
        "WHY is everyone Shouting in this office?".to_owned(),
        "naïve café, 7 ﬁsh: \u{1F600} 東京".to_owned(),
        "our train to lisbon was cancelled because of the storm and ".repeat(40),
    ]
}

/// The vectors of the probes, bit for bit; `None` if the folder is refused.
fn vectors(folder: &Path) -> Option<(String, Vec<Vec<u32>>)> {
    let model = Model::load(folder, &Device::Cpu).ok()?;
    let of = |text: &String| {
        let tokens = model.tokenise("", text, Cut::Tail).ok()?;
        let made = match model.has_text_vectors() {
            true => model.encode(std::slice::from_ref(&tokens.ids)).ok()?,
            false => Vec::new(),
        };
        let bits = made.into_iter().map(f32::to_bits);
        Some(tokens.ids.into_iter().chain(bits).collect())
    };
    let all = probes().iter().map(of).collect::<Option<Vec<_>>>()?;
    Some((model.settings_digest().to_owned(), all))
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        // Vectors that other programs computed.
        if entry.file_name().to_string_lossy().starts_with("golden.") {
            continue;
        }
        match entry.path().is_dir() {
            true => copied(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            files.extend(json_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Pointers to the values of a document that are neither objects nor lists.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                leaves(
                    value,
                    &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                leaves(value, &format!("{at}/{index}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

/// Replacement values for a value.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => match number.as_u64() {
            Some(number) => vec![json!(number / 2), json!(number + 1)],
            None => vec![json!(number.as_f64().unwrap_or(1.0) * 1.5)],
        },
        Value::String(text) => vec![json!(format!("{text}x")), json!("")],
        _ => vec![json!(true), json!(2)],
    }
}

/// At most `most` elements of a list, evenly spaced.
fn spread<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step).collect()
}

/// Folders of every family and of every way to compute word vectors.
const FOLDERS: [&str; 13] = [
    "bert_poolings",
    "distilbert",
    "gtr",
    "instructor",
    "jina_bert",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "qwen3",
    "roberta",
    "static_embedding",
    "word_embeddings",
    "xlm_roberta",
];
/// Maximum number of changed values of a file.
const CHANGED: usize = 40;

#[test]
fn every_setting_that_changes_a_vector_changes_the_digest() {
    let (mut changed, mut noticed) = (0, 0);
    for name in FOLDERS.into_iter().filter(|name| is_computed(&fixtures().join(name))) {
        let place = tempfile::tempdir().unwrap();
        copied(&fixtures().join(name), place.path());
        let root = place.path();
        let (digest, before) = vectors(root).unwrap_or_else(|| panic!("{name} is refused"));
        for file in json_files(root) {
            let original = fs::read(&file).unwrap();
            let document: Value = serde_json::from_slice(&original).unwrap();
            let mut pointers = Vec::new();
            leaves(&document, "", &mut pointers);
            for pointer in spread(pointers, CHANGED) {
                for other in others(document.pointer(&pointer).unwrap()) {
                    let mut edited = document.clone();
                    *edited.pointer_mut(&pointer).unwrap() = other.clone();
                    fs::write(&file, edited.to_string()).unwrap();
                    let Some((now, after)) = vectors(root) else { continue };
                    changed += usize::from(after != before);
                    noticed += usize::from(now != digest);
                    assert!(
                        now != digest || after == before,
                        "{}: {pointer} = {other} changes a vector and not the digest",
                        file.display()
                    );
                }
            }
            fs::write(&file, original).unwrap();
        }
    }
    assert!(changed > 200 && noticed >= changed, "{changed} {noticed}");
}

#[test]
fn form_place_and_origin_do_not_change_the_digest() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["bert_poolings", "distilbert", "word_embeddings"] {
        let [one, other] = [&here, &there].map(|place| place.path().join(name));
        copied(&fixtures().join(name), &one);
        copied(&fixtures().join(name), &other);
        for file in json_files(&other) {
            let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            if document.get("model_type").is_some() {
                document["_name_or_path"] = json!("elsewhere");
                document["transformers_version"] = json!("9.9");
            }
            fs::write(&file, serde_json::to_vec_pretty(&document).unwrap()).unwrap();
        }
        let [before, after] = [&one, &other].map(|root| vectors(root).unwrap());
        assert_eq!(before, after, "{name}");
    }
}
