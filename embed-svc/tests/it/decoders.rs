//! Language models as encoders: alternative settings in their files, edge cases, and defaults.

use std::path::Path;

use isomer_embed::{device::Device, model::Model, tokenise::Cut};
use serde_json::{Value, json};

use crate::common::{copy, edit_json, fixtures};

fn plain(family: &str) -> Model {
    Model::load(&fixtures().join(family), &Device::Cpu).unwrap()
}

/// A family's fixture after `change` in its folder.
fn changed(family: &str, change: impl FnOnce(&Path)) -> Result<Model, String> {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixtures().join(family), folder.path());
    change(folder.path());
    Model::load(folder.path(), &Device::Cpu).map_err(|error| error.to_string())
}

/// A fixture with keys of `config.json` set.
fn configured(family: &str, keys: &Value) -> Model {
    let set = |folder: &Path| {
        edit_json(&folder.join("config.json"), |config| {
            for (key, value) in keys.as_object().unwrap() {
                config[key] = value.clone();
            }
        });
    };
    changed(family, set).unwrap_or_else(|error| panic!("{family} with {keys}: {error}"))
}

fn vectors(model: &Model) -> Vec<f32> {
    let texts: Vec<Vec<u32>> = [1u32, 9, 40].iter().map(|n| (5..5 + n).collect()).collect();
    model.encode(&texts).unwrap()
}

/// A longer text, on which attention windows have an effect.
fn far(model: &Model) -> Vec<f32> {
    model.encode(&[(5u32..60).collect::<Vec<_>>()]).unwrap()
}

#[test]
fn qwens_windows_begin_at_the_layer_that_the_file_names() {
    for family in ["qwen3", "f2llm"] {
        let none = far(&plain(family));
        let with = |first: usize, window: Value| {
            far(&configured(
                family,
                &json!({"use_sliding_window": true, "sliding_window": window, "max_window_layers": first,
                        "layer_types": null}),
            ))
        };
        assert_eq!(with(0, json!(55)), none, "{family}: a window as long as the text");
        assert_eq!(with(2, json!(8)), none, "{family}: no layer has one");
        assert_eq!(with(0, json!(null)), none, "{family}: no window");
        let (all, last) = (with(0, json!(8)), with(1, json!(8)));
        assert!(all != none && last != none && all != last, "{family}");
        let listed = configured(
            family,
            &json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0,
                    "layer_types": ["full_attention", "sliding_attention"]}),
        );
        assert_eq!(far(&listed), last, "{family}: layer_types rules");
    }
}

#[test]
fn a_causal_text_does_not_see_what_follows() {
    for family in ["llama", "mistral", "qwen3"] {
        let folder = tempfile::tempdir().unwrap();
        copy(&fixtures().join(family), folder.path());
        edit_json(&folder.path().join("1_Pooling/config.json"), |config| {
            *config = json!({"word_embedding_dimension": 32, "pooling_mode_cls_token": true});
        });
        let first = Model::load(folder.path(), &Device::Cpu).unwrap();
        let of = |ids: &[u32]| first.encode(&[ids]).unwrap();
        let (short, long) = (of(&[7]), of(&[7, 20, 30, 40]));
        let apart = short.iter().zip(&long).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "{family}: {apart:e}");
    }
}

#[test]
fn new_and_old_names_of_rotary_settings_mean_the_same() {
    let same = |family: &str, keys: Value| {
        assert_eq!(vectors(&configured(family, &keys)), vectors(&plain(family)), "{family}");
    };
    same(
        "qwen3",
        json!({"rope_theta": null, "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000}}),
    );
    same(
        "gemma3",
        json!({"rope_theta": null, "rope_local_base_freq": null, "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
    );
    // Defaults of the library.
    same("gemma3", json!({"rope_theta": null, "rope_local_base_freq": null}));
    same(
        "gemma3",
        json!({"layer_types": null, "sliding_window_pattern": 2, "_sliding_window_pattern": 2}),
    );
}

#[test]
fn code_that_a_checkpoint_took_over_from_another_is_known_by_its_home() {
    let keys = json!({"auto_map": {"AutoModel": "Alibaba-NLP/gte-Qwen2-7B-instruct--modeling_qwen.Qwen2Model"},
                      "is_causal": false});
    assert_eq!(far(&configured("qwen2", &keys)), far(&plain("qwen2")));
    // Without it a plain Qwen 2 is causal, unless its settings say otherwise.
    let keys = json!({"auto_map": null, "is_causal": false});
    assert_eq!(far(&configured("qwen2", &keys)), far(&plain("qwen2")));
}

#[test]
fn a_mark_that_the_tokenizer_does_not_add_is_refused() {
    let without_end = |folder: &Path| {
        edit_json(&folder.join("tokenizer.json"), |tokenizer| {
            let single = tokenizer["post_processor"]["single"].as_array_mut().unwrap();
            single.pop();
        });
    };
    let error = changed("mistral", without_end).err().expect("refused");
    assert!(
        error.contains("tokenizer_config.json") && error.contains("add_eos_token") && error.contains("</s>"),
        "{error}"
    );
    let not_asked = |folder: &Path| {
        without_end(folder);
        edit_json(&folder.join("tokenizer_config.json"), |config| {
            config["add_eos_token"] = json!(false);
        });
    };
    changed("mistral", not_asked).unwrap();
}

#[test]
fn nv_embeds_end_mark_is_read_with_the_text_and_cut_off_with_it() {
    let model = plain("nv_embed");
    let whole = model.tokenise("", "one", Cut::Tail).unwrap();
    assert_eq!((whole.ids.first(), whole.ids.last()), (Some(&1), Some(&2)));
    let long = "one ".repeat(200);
    let cut = model.tokenise("", &long, Cut::Tail).unwrap();
    assert!(cut.truncated() && cut.ids.len() == 96 && cut.ids.last() != Some(&2));
    assert_eq!(model.tokenise("", &long, Cut::Head).unwrap().ids.last(), Some(&2));
    // The prompt is counted without it.
    let prompt = model.folder().prompts.by_name["query"].clone();
    let (with, without) = (
        model.tokenise(&prompt, "", Cut::Tail).unwrap().ids,
        model.unpooled(&prompt).unwrap(),
    );
    assert_eq!(with.len(), without + 1);
    let silent = changed("nv_embed", |folder| {
        edit_json(&folder.join("config.json"), |config| config["add_eos"] = json!(false));
    });
    assert_ne!(
        silent.unwrap().tokenise("", "one", Cut::Tail).unwrap().ids.last(),
        Some(&2)
    );
    let strange = |folder: &Path| {
        edit_json(&folder.join("tokenizer_config.json"), |config| {
            config["eos_token"] = json!({"content": "<end>"});
        });
    };
    let error = changed("nv_embed", strange).err().expect("refused");
    assert!(error.contains("eos_token"), "{error}");
}

#[test]
fn without_modules_a_causal_model_is_pooled_at_its_last_token() {
    let bare = |folder: &Path| std::fs::remove_file(folder.join("modules.json")).unwrap();
    let model = changed("qwen3", bare).unwrap();
    assert_eq!(model.pipeline(), "lasttoken");
    assert!(model.folder().warnings[0].contains("lasttoken"));
    let two_sided = |folder: &Path| {
        bare(folder);
        edit_json(&folder.join("config.json"), |config| config["is_causal"] = json!(false));
    };
    assert_eq!(changed("qwen3", two_sided).unwrap().pipeline(), "mean");
    assert_eq!(changed("gemma3", bare).unwrap().pipeline(), "mean");
    let error = changed("nv_embed", bare).err().expect("refused");
    assert!(error.contains("is_mask_instruction"), "{error}");
}

#[test]
fn an_adapter_beside_the_weights_is_refused() {
    let add = |folder: &Path| std::fs::write(folder.join("adapter_config.json"), "{}").unwrap();
    let error = changed("mistral", add).err().expect("refused");
    assert!(error.contains("adapter_config.json"), "{error}");
}

#[test]
fn marks_of_images_have_no_vector_and_a_text_with_one_is_refused() {
    let mark = |special: bool| {
        move |folder: &Path| {
            edit_json(&folder.join("tokenizer.json"), |tokenizer| {
                let tokens = tokenizer["added_tokens"].as_array_mut().unwrap();
                tokens.push(
                    json!({"id": 450, "content": "<image>", "single_word": false, "lstrip": false,
                                   "rstrip": false, "normalized": false, "special": special}),
                );
            });
        }
    };
    let model = changed("gemma3", mark(true)).unwrap();
    let text = |text: &str| model.tokenise("", text, Cut::Tail);
    assert_eq!(
        text("a cat").unwrap(),
        plain("gemma3").tokenise("", "a cat", Cut::Tail).unwrap()
    );
    let error = text("a <image> cat").unwrap_err();
    assert!(error.contains("450"), "{error}");
    // A word without a vector counts as damage.
    let error = changed("gemma3", mark(false)).err().expect("refused");
    assert!(error.contains("451"), "{error}");
}

#[test]
fn what_nv_embed_nests_in_its_file_is_checked_too() {
    for (outer, inner, value) in [
        ("text_config", "model_type", json!("mistral")),
        ("text_config", "hidden_act", json!("quick_gelu")),
        ("text_config", "vocab_size", json!(null)),
        ("latent_attention_config", "latent_dim", json!(64)),
        ("latent_attention_config", "hidden_dim", json!(null)),
        ("latent_attention_config", "cross_dim_head", json!(0)),
        ("latent_attention_config", "num_cross_heads", json!(1 << 24)),
    ] {
        let set = |folder: &Path| {
            edit_json(&folder.join("config.json"), |config| {
                config[outer][inner] = value.clone()
            })
        };
        let error = changed("nv_embed", set)
            .err()
            .unwrap_or_else(|| panic!("{inner} = {value} loads"));
        assert!(error.contains("config.json") && error.contains(inner), "{error}");
    }
}
