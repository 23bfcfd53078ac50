//! A folder that cannot be followed exactly is refused with an error that names the file and the
//! remedy.

use std::{fs, path::Path};

use isomer_embed::{device::Device, model::Model};
use isomer_service_kit::Fault;
use serde_json::json;

use crate::common::{self, edit_json, tensors, tiny, write_json, write_tensors};

/// Loads a tiny folder after `damage`; returns the error, which must be FAILED_PRECONDITION with a
/// remedy.
#[track_caller]
fn refusal(damage: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    damage(folder.path());
    let error = Model::load(folder.path(), &Device::Cpu)
        .err()
        .expect("the folder must be refused");
    let text = error.to_string();
    let fault = Fault::from(error);
    assert_eq!(fault.code, tonic::Code::FailedPrecondition);
    assert!(fault.hint.is_some_and(|hint| !hint.is_empty()), "{text}");
    text
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn a_folder_without_tokenizer_is_refused() {
    says(
        &refusal(|f| fs::remove_file(f.join("tokenizer.json")).unwrap()),
        &["tokenizer.json", "no tokenizer"],
    );
}

#[test]
fn a_tokenizer_that_is_not_one_is_refused() {
    says(
        &refusal(|f| fs::write(f.join("tokenizer.json"), "{}").unwrap()),
        &["tokenizer.json", "not a tokenizer"],
    );
}

#[test]
fn truncated_safetensors_are_refused() {
    for keep in [0, 4, 100, 30_000] {
        let text = refusal(|f| {
            let file = f.join("model.safetensors");
            let bytes = fs::read(&file).unwrap();
            assert!(bytes.len() > keep);
            fs::write(&file, &bytes[..keep]).unwrap();
        });
        says(
            &text,
            &[
                "model.safetensors",
                "truncated or not safetensors",
                "fetch the model again",
            ],
        );
    }
}

#[test]
fn pickled_weights_are_refused_with_the_conversion() {
    let text = refusal(|f| fs::rename(f.join("model.safetensors"), f.join("pytorch_model.bin")).unwrap());
    says(&text, &["pytorch_model.bin", "save_pretrained", "safe_serialization"]);
}

#[test]
fn missing_weights_are_refused() {
    says(
        &refusal(|f| fs::remove_file(f.join("model.safetensors")).unwrap()),
        &["model.safetensors", "no weights"],
    );
}

#[test]
fn missing_tensors_are_named() {
    let text = refusal(|f| {
        let mut all = tensors("");
        all.remove("encoder.layer.1.output.dense.bias").unwrap();
        all.remove("embeddings.LayerNorm.weight").unwrap();
        write_tensors(&f.join("model.safetensors"), &all);
    });
    says(
        &text,
        &["`embeddings.LayerNorm.weight`", "`encoder.layer.1.output.dense.bias`"],
    );
}

#[test]
fn a_tensor_of_another_shape_is_named() {
    let text = refusal(|f| edit_json(&f.join("config.json"), |config| config["intermediate_size"] = json!(63)));
    says(
        &text,
        &["encoder.layer.0.intermediate.dense.weight", "[64, 32]", "[63, 32]"],
    );
}

#[test]
fn a_limit_beyond_the_position_table_is_refused() {
    let text = refusal(|f| {
        edit_json(&f.join("sentence_bert_config.json"), |config| {
            config["max_seq_length"] = json!(512)
        })
    });
    says(&text, &["sentence_bert_config.json", "512", "48"]);
}

#[test]
fn a_limit_without_room_for_text_is_refused() {
    let text = refusal(|f| {
        edit_json(&f.join("sentence_bert_config.json"), |config| {
            config["max_seq_length"] = json!(2)
        })
    });
    says(&text, &["sentence_bert_config.json", "special tokens"]);
}

#[test]
fn other_architectures_are_refused_by_name() {
    let text = refusal(|f| {
        edit_json(&f.join("config.json"), |config| {
            config["model_type"] = json!("reformer")
        })
    });
    says(&text, &["config.json", "`reformer`", "bert"]);
}

#[test]
fn settings_of_bert_that_we_do_not_compute_are_refused() {
    for (key, value) in [
        ("hidden_act", json!("quick_gelu")),
        ("position_embedding_type", json!("relative_key")),
        ("is_decoder", json!(true)),
        ("num_attention_heads", json!(5)),
        ("intermediate_size", json!(0)),
    ] {
        says(
            &refusal(|f| edit_json(&f.join("config.json"), |config| config[key] = value)),
            &["config.json", key],
        );
    }
    let text = refusal(|f| {
        edit_json(&f.join("config.json"), |config| {
            config.as_object_mut().unwrap().remove("vocab_size");
        });
    });
    says(&text, &["config.json", "vocab_size"]);
}

#[test]
fn modules_that_are_not_served_are_refused_by_name() {
    let text = refusal(|f| {
        edit_json(&f.join("modules.json"), |modules| {
            modules[2]["type"] = json!("sentence_transformers.models.LSTM")
        });
    });
    says(&text, &["modules.json", "LSTM"]);
    let text = refusal(|f| {
        edit_json(&f.join("modules.json"), |modules| {
            modules[1]["type"] = json!("evil.Pooling")
        })
    });
    says(&text, &["modules.json", "evil.Pooling"]);
    let text = refusal(|f| {
        edit_json(&f.join("modules.json"), |modules| {
            modules[1]["path"] = json!("../elsewhere")
        })
    });
    says(&text, &["modules.json", "../elsewhere"]);
    let text = refusal(|f| {
        edit_json(&f.join("modules.json"), |modules| {
            modules.as_array_mut().unwrap().remove(1);
        });
    });
    says(&text, &["modules.json", "[Transformer, Normalize]"]);
}

#[test]
fn pooling_that_is_not_served_is_refused_by_name() {
    let pooling = "1_Pooling/config.json";
    let text = refusal(|f| {
        edit_json(&f.join(pooling), |config| {
            config["pooling_mode_attention"] = json!(true)
        })
    });
    says(&text, &[pooling, "pooling_mode_attention", "mean"]);
    let text = refusal(|f| write_json(&f.join(pooling), &json!({"pooling_mode": "median"})));
    says(&text, &[pooling, "median"]);
    let text = refusal(|f| write_json(&f.join(pooling), &json!({"word_embedding_dimension": 32})));
    says(&text, &[pooling, "no pooling mode"]);
    let text = refusal(|f| edit_json(&f.join(pooling), |config| config["include_prompt"] = json!("no")));
    says(&text, &[pooling, "include_prompt"]);
    says(
        &refusal(|f| fs::remove_file(f.join(pooling)).unwrap()),
        &[pooling, "missing"],
    );
    let text = refusal(|f| {
        edit_json(&f.join(pooling), |config| {
            config["word_embedding_dimension"] = json!(64)
        })
    });
    says(&text, &[pooling, "64 columns", "32"]);
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let text = refusal(|f| {
        edit_json(&f.join("config.json"), |config| config["vocab_size"] = json!(10));
        let mut all = tensors("");
        let words = all.get_mut("embeddings.word_embeddings.weight").unwrap();
        words.0[0] = 10;
        words.1.truncate(10 * 32);
        write_tensors(&f.join("model.safetensors"), &all);
    });
    says(&text, &["tokenizer.json", "61 tokens", "10 rows"]);
}

#[test]
fn broken_json_is_refused_with_its_place() {
    for (file, text) in [
        ("config.json", "{\n  \"a\": ,\n}"),
        ("sentence_bert_config.json", "{\n  \"a\": ,\n}"),
        ("config_sentence_transformers.json", "{\n  \"a\": ,\n}"),
        ("modules.json", "[\n  {\"type\": ,}\n]"),
    ] {
        says(&refusal(|f| fs::write(f.join(file), text).unwrap()), &[file, "line 2"]);
    }
}

#[test]
fn a_default_prompt_that_is_not_there_is_refused() {
    let file = "config_sentence_transformers.json";
    let text = refusal(|f| {
        edit_json(&f.join(file), |config| {
            config["default_prompt_name"] = json!("nonsense")
        })
    });
    says(&text, &[file, "nonsense", "query"]);
}

#[test]
fn a_dense_layer_that_does_not_fit_is_refused() {
    let text = refusal(|f| {
        write_json(
            &f.join("2_Dense/config.json"),
            &json!({"in_features": 7, "out_features": 3}),
        );
        edit_json(&f.join("modules.json"), |modules| {
            modules[2] = json!({"path": "2_Dense", "type": "sentence_transformers.models.Dense"});
        });
    });
    says(&text, &["in_features is 7", "32 columns"]);
}

#[test]
fn random_bytes_never_load_and_never_panic() {
    let mut numbers = common::Numbers(99);
    for file in ["model.safetensors", "tokenizer.json", "config.json", "modules.json"] {
        for length in [0, 1, 8, 9, 1000] {
            let bytes: Vec<u8> = (0..length).map(|_| (numbers.next() * 127.0) as i8 as u8).collect();
            says(&refusal(|f| fs::write(f.join(file), &bytes).unwrap()), &[file]);
        }
    }
}

/// A file is replaced in place while its model serves. With a mapped file the process would end
/// (SIGBUS).
#[test]
fn a_file_cut_short_under_a_model_that_serves_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let model = Model::load(folder.path(), &Device::Cpu).unwrap();
    let before = model.encode(&[vec![1_u32, 2, 3]]).unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(folder.path().join("model.safetensors"))
        .unwrap();
    file.set_len(100).unwrap();
    let after = model.encode(&[vec![1_u32, 2, 3]]).unwrap();
    assert_eq!(before, after);
    let words = model.encode(&[(0..40_u32).collect::<Vec<_>>()]);
    assert!(words.is_ok(), "rows of the table that were not read before");
}

/// The same between opening a file and reading one of its tensors.
#[test]
fn a_file_cut_short_while_it_is_read_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let path = folder.path().join("model.safetensors");
    let weights = isomer_embed::weights::Weights::open(folder.path()).unwrap();
    let name = "embeddings.word_embeddings.weight";
    let shape = weights.shape(name).unwrap().to_vec();
    assert!(weights.get(name, &shape).is_ok());
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(100)
        .unwrap();
    let error = weights.get(name, &shape).unwrap_err().to_string();
    says(&error, &["model.safetensors", "cannot be read any more"]);
}

/// A tiny folder whose tokenizer normalises like BERT's, lower-casing.
fn normalising(folder: &Path) {
    edit_json(&folder.join("tokenizer.json"), |tokenizer| {
        tokenizer["normalizer"] = json!({
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true,
        });
    });
}

#[test]
fn a_tokenizer_that_the_files_beside_it_contradict_is_refused() {
    for (key, value) in [
        ("do_lower_case", false),
        ("strip_accents", false),
        ("tokenize_chinese_chars", false),
    ] {
        let text = refusal(|f| {
            normalising(f);
            write_json(&f.join("tokenizer_config.json"), &json!({ key: value }));
        });
        says(
            &text,
            &["tokenizer_config.json", &format!("{key} is false"), "save_pretrained"],
        );
        let folder = tempfile::tempdir().unwrap();
        tiny(folder.path());
        normalising(folder.path());
        write_json(&folder.path().join("tokenizer_config.json"), &json!({ key: !value }));
        Model::load(folder.path(), &Device::Cpu).unwrap();
    }
    for (token, id) in [("[NEW]", 7), ("[CLS]", 1_000)] {
        let text = refusal(|f| write_json(&f.join("added_tokens.json"), &json!({ token: id })));
        says(&text, &["added_tokens.json", token, &id.to_string()]);
    }
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let tokenizer: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("tokenizer.json")).unwrap()).unwrap();
    let known = &tokenizer["added_tokens"][0];
    let added = json!({ known["content"].as_str().unwrap(): known["id"] });
    write_json(&folder.path().join("added_tokens.json"), &added);
    Model::load(folder.path(), &Device::Cpu).unwrap();
}

#[test]
fn arguments_that_change_the_model_are_refused_and_others_are_not() {
    for (key, argument) in [
        ("config_kwargs", "num_hidden_layers"),
        ("config_args", "num_hidden_layers"),
        ("model_kwargs", "attention_window"),
        ("model_args", "attention_window"),
        ("tokenizer_kwargs", "do_lower_case"),
        ("tokenizer_args", "do_lower_case"),
        ("processor_kwargs", "do_lower_case"),
    ] {
        for name in ["sentence_bert_config.json", "sentence_xlnet_config.json"] {
            let text = refusal(|f| {
                let _ = fs::remove_file(f.join("sentence_bert_config.json"));
                write_json(&f.join(name), &json!({ key: { argument: 1 } }));
            });
            says(&text, &[name, argument]);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    write_json(
        &folder.path().join("sentence_bert_config.json"),
        &json!({"max_seq_length": 8, "model_args": {"trust_remote_code": true, "torch_dtype": "auto"}, "config_args": {}}),
    );
    Model::load(folder.path(), &Device::Cpu).unwrap();
}

#[test]
fn older_names_of_the_settings_are_read_in_their_order() {
    let limit = |files: &[(&str, usize)]| {
        let folder = tempfile::tempdir().unwrap();
        tiny(folder.path());
        let _ = fs::remove_file(folder.path().join("sentence_bert_config.json"));
        for (name, limit) in files {
            write_json(&folder.path().join(name), &json!({ "max_seq_length": limit }));
        }
        Model::load(folder.path(), &Device::Cpu).unwrap().max_tokens()
    };
    for name in ["roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"] {
        assert_eq!(limit(&[(&format!("sentence_{name}_config.json"), 5)]), 5, "{name}");
    }
    let both = [("sentence_albert_config.json", 6), ("sentence_roberta_config.json", 5)];
    assert_eq!(limit(&both), 5);
    assert_eq!(limit(&[both[0], both[1], ("sentence_bert_config.json", 4)]), 4);
}
