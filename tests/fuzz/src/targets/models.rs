//! Model files.

use std::path::{Component, Path};

use isomer_embed::{
    arch,
    device::Device,
    folder::ModelFolder,
    tokenise::{Cut, TextTokenizer},
    vectors::text_file,
    weights::Weights,
};
use isomer_models::{Catalogue, ModelKind, assemble, folder as model_folder_of, fuzz};

use crate::input::{Input, file, folder, text};

/// The smallest safetensors file: no tensors.
const NO_TENSORS: &[u8] = b"\x02\0\0\0\0\0\0\0{}";

/// Both readers of safetensors. A file that one of them opens is opened by the other too, and no
/// tensor is larger than its file.
pub(super) fn safetensors(data: &[u8]) {
    let Some(folder) = folder() else { return };
    let Some(path) = file(folder.path(), "model.safetensors", data) else {
        return;
    };
    let header = fuzz::safetensors_header(&path);
    let Ok(weights) = Weights::open(folder.path()) else {
        return;
    };
    let header = match header {
        Ok(header) => header,
        Err(error) => unreachable!("the weights open, and the header is refused: {error}"),
    };
    for (name, shape) in header {
        let shape: Vec<usize> = shape.iter().filter_map(|size| usize::try_from(*size).ok()).collect();
        assert_eq!(weights.shape(&name), Some(&shape[..]));
        if let Ok(values) = weights.get(&name, &shape) {
            assert!(values.len() * 2 <= data.len(), "{name} is larger than the file");
        }
        if let Ok(values) = weights.doubles(&name, &shape) {
            assert!(values.len() * 2 <= data.len(), "{name} is larger than the file");
        }
        if let Ok(values) = weights.integers(&name) {
            assert!(values.len() * 4 <= data.len(), "{name} is larger than the file");
        }
    }
}

/// A GGUF file with its vocabulary, template and tensors. Tokens of a text are in the vocabulary.
pub(super) fn gguf(data: &[u8]) {
    let Some(folder) = folder() else { return };
    let Some(path) = file(folder.path(), "model.gguf", data) else {
        return;
    };
    if let Ok((known, tokens)) = isomer_local_llm::fuzz::read(&path, "He said: \"hello\" <|im_end|> 42") {
        assert!(tokens.iter().all(|token| (*token as usize) < known));
    }
}

/// A `tokenizer.json`, and a text that it tokenizes. A text that is cut is no longer than the
/// limit.
pub(super) fn tokenizer(data: &[u8]) {
    const LIMIT: usize = 8;
    const TEXT: &str = "A man is playing a guitar, isn't he? Größe 10";
    let mut input = Input(data);
    let lower_case = input.byte() == b'b';
    let Some(folder) = folder() else { return };
    let Some(path) = file(folder.path(), "tokenizer.json", input.0) else {
        return;
    };
    let Ok(tokenizer) = TextTokenizer::load(&path, lower_case) else {
        return;
    };
    for cut in [Cut::Tail, Cut::Head] {
        if let Ok(tokens) = tokenizer.encode("", TEXT, LIMIT, cut) {
            assert!(
                tokens.ids.len() <= LIMIT.max(tokenizer.special_tokens()),
                "{}",
                tokens.ids.len()
            );
            assert!(tokens.ids.len() <= tokens.count);
        }
    }
    let first = tokenizer.first_of_pairs("A man", LIMIT);
    if let Ok(tokens) = first.and_then(|first| tokenizer.encode_pair(&first, TEXT, LIMIT)) {
        assert!(tokens.second.is_none_or(|second| second <= tokens.ids.len()));
    }
    let _ = (
        tokenizer.prompt_tokens("query: "),
        tokenizer.words(),
        tokenizer.vocabulary(),
    );
    if let Ok(tokens) = tokenizer.encode("", TEXT, usize::MAX, Cut::Tail) {
        let _ = tokenizer.text_of(&tokens.ids, false);
    }
    let _ = tokenizer.text_of(&[0, u32::MAX], true);
    // Longer than the parts into which texts are cut.
    let long = TEXT.repeat(400);
    for cut in [Cut::Tail, Cut::Head] {
        if let Ok(tokens) = tokenizer.encode("", &long, LIMIT, cut) {
            assert!(tokens.ids.len() <= LIMIT.max(tokenizer.special_tokens()));
        }
    }
    if let Ok(parts) = tokenizer.parts("", TEXT, true) {
        for part in parts {
            assert!(
                part.bytes
                    .is_none_or(|bytes| bytes.start <= bytes.end && bytes.end <= TEXT.len())
            );
        }
    }
}

/// The small files of a model folder: lines of `=== NAME` begin a file. No file outside the folder
/// is named.
pub(super) fn model_folder(data: &[u8]) {
    let Some(folder) = folder() else { return };
    let root = folder.path();
    for name in ["model.safetensors", "2_Dense/model.safetensors"] {
        if file(root, name, NO_TENSORS).is_none() {
            return;
        }
    }
    let all = text(data);
    for part in all.split("=== ").skip(1) {
        let (name, content) = part.split_once('\n').unwrap_or((part, ""));
        let is_inside = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if is_inside && !name.is_empty() && !name.contains('\0') && name.len() < 100 {
            let _ = file(root, name, content.as_bytes());
        }
    }
    if let Ok(weights) = model_folder_of::inspect(root, ModelKind::Encoder) {
        for name in weights {
            assert!(fuzz::is_listable(&name), "{name} points outside the folder");
        }
    }
    let Ok(read) = ModelFolder::read(root) else { return };
    assert!(read.transformer.starts_with(root));
    assert!(read.transformer.components().all(|part| part != Component::ParentDir));
    let Ok(weights) = Weights::open(root) else { return };
    let _ = arch::load(&read, &weights, &Device::Cpu);
}

/// A text file of word vectors.
pub(super) fn word_vectors(data: &[u8]) {
    let Some(folder) = folder() else { return };
    if let Some(path) = file(folder.path(), "vectors.txt", data) {
        let _ = text_file::read(&path);
    }
}

/// The parameters of an ONNX model. The converted file can be opened and is not much larger than
/// the model.
pub(super) fn onnx(data: &[u8]) {
    let Some(folder) = folder() else { return };
    let to = folder.path().join("model.safetensors");
    let drop = ["pooler.".to_owned()];
    if assemble::onnx::convert(data.to_vec(), Path::new("model.onnx"), "model.", &drop, &to).is_ok() {
        assert!(
            Weights::open(folder.path()).is_ok(),
            "what was written cannot be opened"
        );
    }
}

/// The weights and the tokenizer of an `E5S1` file.
pub(super) fn e5s1(data: &[u8]) {
    const MAP: &[u8] = b"\x1a\x0d\x0a\x08nmt_nfkc\x12\x01x";
    let Some(folder) = folder() else { return };
    let to = folder.path().join("model.safetensors");
    let name = Path::new("model.bin");
    if assemble::e5s1::weights(data, name, &to).is_ok() {
        assert!(
            Weights::open(folder.path()).is_ok(),
            "what was written cannot be opened"
        );
    }
    let _ = assemble::e5s1::tokenizer(data, name, MAP, Path::new("map"));
}

/// The words of a Parquet file: as many as the file declares, and not much more than it holds.
pub(super) fn parquet_words(data: &[u8]) {
    if let Ok(words) = fuzz::parquet_words(data) {
        assert!(words.len() <= 8 * data.len());
        assert!(words.iter().map(String::len).sum::<usize>() <= 64 * data.len());
    }
}

/// A matrix in numpy's format: as many values as rows times columns.
pub(super) fn npy(data: &[u8]) {
    if let Ok((rows, cols, values)) = fuzz::npy(data) {
        assert_eq!(rows.checked_mul(cols), Some(values.len()));
        assert!(values.len() * 4 <= data.len());
    }
}

pub(super) fn catalogue(data: &[u8]) {
    let all = text(data);
    if let Ok(catalogue) = Catalogue::parse("catalogue.toml", &all) {
        for entry in catalogue.iter() {
            assert!(fuzz::is_plain_name(&entry.id), "{:?} becomes part of a path", entry.id);
            assert!(catalogue.get(&entry.id).is_some());
        }
    }
}
