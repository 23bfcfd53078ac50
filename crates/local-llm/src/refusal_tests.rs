//! Tests refusals and their messages: files, metadata, requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::quantized::gguf_file::Value;
use futures::{FutureExt, executor::block_on};

use crate::{GenerateRequest, LoadOptions, LocalError, LocalModel, tiny::TinyModel, tiny_tests::request};

fn load_error(model: &TinyModel) -> LocalError {
    let (_folder, path) = model.written();
    LocalModel::load(&path, LoadOptions::default()).unwrap_err()
}

#[test]
fn a_template_may_refuse_messages() {
    let mut model = TinyModel::new("llama", 5);
    let source = "{{ raise_exception('roles must alternate, ' + strftime_now('%Y')) }}";
    model
        .metadata
        .insert("tokenizer.chat_template".into(), Value::String(source.into()));
    let (_folder, path) = model.written();
    let loaded = LocalModel::load(&path, LoadOptions::default()).unwrap();
    let error = block_on(loaded.generate(request("x", 0.0, 0))).unwrap_err();
    assert!(
        matches!(&error, LocalError::Template(m) if m.contains("roles must alternate, 2025")),
        "{error}"
    );
}

#[test]
fn what_does_not_fit_is_refused_with_numbers() {
    let (_folder, path) = TinyModel::new("llama", 7).written();
    let options = LoadOptions {
        context: 100,
        ..LoadOptions::default()
    };
    let model = LocalModel::load(&path, options).unwrap();
    let mut long = request("x", 0.0, 0);
    long.max_tokens = 80;
    let error = block_on(model.generate(long)).unwrap_err();
    assert!(
        matches!(error, LocalError::ContextLength { prompt_tokens, max_tokens: 80, limit: 100 } if prompt_tokens > 20),
        "{error}"
    );
    for (change, field) in [
        (
            Box::new(|r: &mut GenerateRequest| r.top_p = 0.0) as Box<dyn Fn(&mut _)>,
            "top_p",
        ),
        (
            Box::new(|r: &mut GenerateRequest| r.temperature = f64::NAN),
            "temperature",
        ),
        (Box::new(|r: &mut GenerateRequest| r.max_tokens = 0), "max_tokens"),
        (Box::new(|r: &mut GenerateRequest| r.messages.clear()), "messages"),
        (Box::new(|r: &mut GenerateRequest| r.stop = vec![String::new()]), "stop"),
    ] {
        let mut bad = request("x", 0.0, 0);
        change(&mut bad);
        let error = block_on(model.generate(bad)).unwrap_err();
        assert!(
            matches!(error, LocalError::Invalid { field: f, .. } if f == field),
            "{error}"
        );
    }
}

#[test]
fn a_full_queue_refuses_and_dropped_requests_make_room() {
    let (_folder, path) = TinyModel::new("llama", 8).written();
    let options = LoadOptions {
        max_batch: 1,
        queue: 4,
        ..LoadOptions::default()
    };
    let model = LocalModel::load(&path, options).unwrap();
    let mut waiting = Vec::new();
    let refused = (0..10_000).find_map(|i| {
        let mut answer = Box::pin(model.generate(request(&format!("text {i}"), 1.0, i)));
        match answer.as_mut().now_or_never() {
            Some(Err(error)) => Some(error),
            _ => {
                waiting.push(answer);
                None
            }
        }
    });
    assert!(
        matches!(refused, Some(LocalError::QueueFull { limit: 4 })),
        "{refused:?}"
    );
    drop(waiting);
    let answered = (0..10_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        block_on(model.generate(request("late", 0.0, 0))).is_ok()
    });
    assert!(answered, "places of dropped requests are free again");
}

#[test]
fn missing_and_unusable_metadata_is_named() {
    for key in [
        "general.architecture",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
        "llama.context_length",
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.eos_token_id",
    ] {
        let mut model = TinyModel::new("llama", 10);
        model.metadata.remove(key).unwrap();
        let error = load_error(&model);
        assert!(
            matches!(&error, LocalError::MissingKey { key: k } if k == key),
            "{key}: {error}"
        );
    }
    for (key, value, says) in [
        (
            "general.architecture",
            Value::String("mamba".into()),
            "llama, qwen2, qwen3, gemma3",
        ),
        ("tokenizer.ggml.pre", Value::String("klingon".into()), "`klingon`"),
        ("tokenizer.ggml.eos_token_id", Value::U32(9999), "not below"),
        (
            "llama.block_count",
            Value::String("two".into()),
            "expected a whole number",
        ),
        ("llama.attention.head_count_kv", Value::U32(3), "evenly"),
        ("llama.rope.scaling.type", Value::String("yarn".into()), "`yarn`"),
        ("llama.expert_count", Value::U32(8), "mixtures"),
    ] {
        let mut model = TinyModel::new("llama", 10);
        model.metadata.insert(key.to_owned(), value);
        let error = load_error(&model);
        assert!(
            matches!(&error, LocalError::BadValue { key: k, message } if k == key && message.contains(says)),
            "{key}: {error}"
        );
    }
}

#[test]
fn missing_and_misshapen_tensors_are_named() {
    let mut model = TinyModel::new("llama", 11);
    model.remove_tensor("blk.3.ffn_up.weight");
    let error = load_error(&model);
    assert!(
        matches!(&error, LocalError::MissingTensor { name } if name == "blk.3.ffn_up.weight"),
        "{error}"
    );
    let mut model = TinyModel::new("llama", 11);
    model
        .metadata
        .insert("llama.feed_forward_length".into(), Value::U32(64));
    let error = load_error(&model);
    assert!(
        matches!(&error, LocalError::BadTensor { name, message }
            if name == "blk.0.ffn_gate.weight" && message.contains("96 x 64") && message.contains("64 x 64")),
        "{error}"
    );
}

#[test]
fn files_cut_anywhere_are_refused() {
    let (folder, path) = TinyModel::new("llama", 12).written();
    let bytes = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.gguf");
    let lengths = [0, 3, 10, 40, 1000, bytes.len() / 2, bytes.len() - 64];
    for len in lengths {
        std::fs::write(&cut, &bytes[..len]).unwrap();
        let error = LocalModel::load(&cut, LoadOptions::default()).unwrap_err();
        assert!(
            matches!(error, LocalError::Format { .. } | LocalError::Open { .. }),
            "{len}: {error}"
        );
        assert!(error.to_string().contains("cut.gguf"), "{error}");
    }
    let absent = LocalModel::load(&folder.path().join("absent.gguf"), LoadOptions::default()).unwrap_err();
    assert!(matches!(absent, LocalError::Open { .. }), "{absent}");
}

#[test]
fn an_alignment_of_zero_is_refused() {
    let with = |alignment| {
        let mut model = TinyModel::new("llama", 5);
        let value = Value::U32(alignment);
        model.metadata.insert("general.alignment".into(), value);
        let (folder, path) = model.written();
        (folder, LocalModel::load(&path, LoadOptions::default()))
    };
    let error = with(0).1.unwrap_err();
    assert!(
        matches!(&error, LocalError::Format { message, .. } if message == "its header does not make sense"),
        "{error}"
    );
    let (_folder, loaded) = with(32);
    let generated = block_on(loaded.unwrap().generate(request("x", 0.0, 0))).unwrap();
    assert!(generated.generated_tokens > 0);
}
