//! A tiny model folder with the real layout and random weights, and the locations of the real
//! models.

pub mod harness;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use isomer_models::{ModelsConfig, Resolver};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};

pub const HIDDEN: usize = 32;
pub const POSITIONS: usize = 48;
pub const LAYERS: usize = 2;
const INNER: usize = 64;

/// Numbers between -1 and 1 from a linear congruential generator (Knuth's MMIX constants).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub fn many(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.next() * scale).collect()
    }
}

fn vocabulary() -> Vec<String> {
    let mut words: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ",", ".", "!", "query", ":"]
        .map(str::to_owned)
        .to_vec();
    for letter in 'a'..='z' {
        words.push(letter.to_string());
        words.push(format!("##{letter}"));
    }
    words
}

/// Tensors of a BERT; `prefix` is empty or `bert.`.
pub fn tensors(prefix: &str) -> Tensors {
    let mut numbers = Numbers(7);
    let mut all = BTreeMap::new();
    let mut put = |name: String, shape: &[usize], scale: f32, shift: f32| {
        let values = numbers
            .many(shape.iter().product(), scale)
            .into_iter()
            .map(|x| x + shift)
            .collect();
        all.insert(format!("{prefix}{name}"), (shape.to_vec(), values));
    };
    put(
        "embeddings.word_embeddings.weight".into(),
        &[vocabulary().len(), HIDDEN],
        1.0,
        0.0,
    );
    put(
        "embeddings.position_embeddings.weight".into(),
        &[POSITIONS, HIDDEN],
        0.5,
        0.0,
    );
    put("embeddings.token_type_embeddings.weight".into(), &[2, HIDDEN], 0.5, 0.0);
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for layer in 0..LAYERS {
        for (part, outputs, inputs) in [
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", INNER, HIDDEN),
            ("output.dense", HIDDEN, INNER),
        ] {
            put(
                format!("encoder.layer.{layer}.{part}.weight"),
                &[outputs, inputs],
                0.3,
                0.0,
            );
            put(format!("encoder.layer.{layer}.{part}.bias"), &[outputs], 0.2, 0.0);
        }
        norms.push(format!("encoder.layer.{layer}.attention.output.LayerNorm"));
        norms.push(format!("encoder.layer.{layer}.output.LayerNorm"));
    }
    for norm in norms {
        put(format!("{norm}.weight"), &[HIDDEN], 0.2, 1.0);
        put(format!("{norm}.bias"), &[HIDDEN], 0.2, 0.0);
    }
    all
}

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

pub fn write_tensors(file: &Path, tensors: &Tensors) {
    write_as(file, tensors, Dtype::F32, |x| x.to_le_bytes().to_vec());
}

/// The same values in another element type, each converted to bytes by `bytes`.
pub fn write_as(file: &Path, tensors: &Tensors, dtype: Dtype, bytes: impl Fn(f32) -> Vec<u8>) {
    let bytes: BTreeMap<&String, Vec<u8>> = tensors
        .iter()
        .map(|(name, (_, values))| (name, values.iter().flat_map(|x| bytes(*x)).collect()))
        .collect();
    let views = tensors
        .iter()
        .map(|(name, (shape, _))| (name, TensorView::new(dtype, shape.clone(), &bytes[name]).unwrap()));
    safetensors::serialize_to_file(views, None, file).unwrap();
}

pub fn write_json(file: &Path, value: &Value) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, serde_json::to_vec_pretty(value).unwrap()).unwrap();
}

pub fn edit_json(file: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    edit(&mut value);
    write_json(file, &value);
}

/// Writes a complete folder: mean pooling, Normalize, a prompt, and a tokenizer file with the
/// well-known problematic truncation and padding.
pub fn tiny(folder: &Path) {
    let vocab: serde_json::Map<String, Value> = vocabulary()
        .into_iter()
        .enumerate()
        .map(|(id, word)| (word, json!(id)))
        .collect();
    let special = |id: u32, content: &str| json!({"id": id, "special": true, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false});
    write_json(
        &folder.join("tokenizer.json"),
        &json!({
            "version": "1.0",
            "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0},
            "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
            "added_tokens": [special(0, "[PAD]"), special(1, "[UNK]"), special(2, "[CLS]"), special(3, "[SEP]")],
            "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab},
        }),
    );
    write_json(
        &folder.join("config.json"),
        &json!({
            "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": HIDDEN,
            "intermediate_size": INNER, "layer_norm_eps": 1e-12, "max_position_embeddings": POSITIONS,
            "num_attention_heads": 4, "num_hidden_layers": LAYERS, "type_vocab_size": 2, "vocab_size": vocabulary().len(),
        }),
    );
    write_json(
        &folder.join("sentence_bert_config.json"),
        &json!({"max_seq_length": 24, "do_lower_case": false}),
    );
    write_json(
        &folder.join("config_sentence_transformers.json"),
        &json!({"prompts": {"query": "query: ", "passage": ""}, "default_prompt_name": null, "similarity_fn_name": "cosine"}),
    );
    write_json(
        &folder.join("modules.json"),
        &json!([
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ]),
    );
    write_json(
        &folder.join("1_Pooling/config.json"),
        &json!({"word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true,
                "pooling_mode_max_tokens": false, "pooling_mode_mean_sqrt_len_tokens": false}),
    );
    write_tensors(&folder.join("model.safetensors"), &tensors(""));
}

/// The fixtures of this crate.
pub fn fixtures() -> PathBuf {
    PathBuf::from(".").join("tests/fixtures")
}

/// Whether this build computes a fixture: T5 encoders need the feature `t5`.
pub fn is_computed(folder: &Path) -> bool {
    let name = folder.file_name().unwrap().to_str().unwrap();
    cfg!(feature = "t5") || !["gtr", "instructor", "sentence_t5"].contains(&name)
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The folder of a model of `fixtures/pipeline`, assembled in `into` if it needs the transformer of
/// `base`.
pub fn assembled(name: &str, transformer: bool, into: &Path) -> PathBuf {
    let own = fixtures().join("pipeline/models").join(name);
    if own.is_file() {
        return own;
    }
    let folder = into.join(name);
    if transformer {
        copy(&fixtures().join("pipeline/base"), &folder);
    }
    copy(&own, &folder);
    folder
}

/// The folder of a real model: in `ISOMER_TEST_MODELS`, else in the model cache.
fn find_model(id: &str) -> Option<PathBuf> {
    if let Some(models) = std::env::var_os("ISOMER_TEST_MODELS") {
        let folder = PathBuf::from(models).join(id);
        return folder.is_dir().then_some(folder);
    }
    let resolver = Resolver::new(ModelsConfig {
        offline: true,
        ..ModelsConfig::default()
    })
    .ok()?;
    Some(resolver.present(id)?.path)
}

/// The folder of a model that `tests/run` fetches. Without it the test is skipped.
pub fn fetched_model(id: &str) -> Option<PathBuf> {
    let folder = find_model(id);
    if folder.is_none() {
        isomer_stubs::skip(&format!("no model {id}"));
    }
    folder
}

/// The folder of a model that only `tests/more models` fetches.
pub fn other_model(id: &str) -> PathBuf {
    find_model(id).unwrap_or_else(|| panic!("no model {id}: `tests/more models` fetches it"))
}

pub fn resolver(home: &Path) -> Resolver {
    Resolver::new(ModelsConfig {
        home: home.to_path_buf(),
        offline: true,
        ..ModelsConfig::default()
    })
    .unwrap()
}

pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
