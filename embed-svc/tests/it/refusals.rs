//! A setting of `config.json` that would not be followed exactly is refused by its key, in every
//! family.

use std::{
    fs,
    path::{Path, PathBuf},
};

use isomer_embed::{device::Device, model::Model};
use serde_json::{Value, json};

use crate::common::{self, edit_json, is_computed};

fn fixture(family: &str) -> PathBuf {
    Path::new(".").join("tests/fixtures").join(family)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            fs::copy(&entry, target).unwrap();
        }
    }
}

/// Loads a family's fixture with one key of `config.json` set, or removed if the value is null.
fn with(family: &str, key: &str, value: &Value) -> Result<Model, String> {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture(family), folder.path());
    edit_json(&folder.path().join("config.json"), |config| {
        config[key] = value.clone();
    });
    Model::load(folder.path(), &Device::Cpu).map_err(|error| error.to_string())
}

#[test]
fn settings_that_are_not_computed_are_refused_by_their_key() {
    for (family, key, value) in [
        ("roberta", "position_embedding_type", json!("relative_key")),
        ("roberta", "is_decoder", json!(true)),
        ("roberta", "hidden_act", json!("quick_gelu")),
        ("roberta", "pad_token_id", json!(97)),
        ("roberta", "layer_norm_eps", json!("small")),
        ("xlm_roberta", "add_cross_attention", json!(true)),
        ("xlm_roberta", "num_attention_heads", json!(5)),
        ("distilbert", "sinusoidal_pos_embds", json!(true)),
        ("distilbert", "activation", json!("tanh")),
        ("distilbert", "n_heads", json!(null)),
        ("mpnet", "relative_attention_num_buckets", json!(64)),
        ("mpnet", "max_position_embeddings", json!(2)),
        ("modernbert", "layer_types", json!(["full_attention"])),
        (
            "modernbert",
            "layer_types",
            json!(["full_attention", "full_attention", "linear", "full_attention"]),
        ),
        ("modernbert", "hidden_activation", json!("mish")),
        ("modernbert", "norm_bias", json!("no")),
        ("modernbert", "rope_scaling", json!({"rope_type": "mrope"})),
        ("nomic_bert", "prenorm", json!(true)),
        ("nomic_bert", "causal", json!(true)),
        ("nomic_bert", "use_rms_norm", json!(true)),
        ("nomic_bert", "activation_function", json!("glu")),
        ("nomic_bert", "rotary_emb_fraction", json!(0.0)),
        ("nomic_bert", "rotary_emb_scale_base", json!(512)),
        ("nomic_bert", "n_embd", json!(null)),
        ("new", "position_embedding_type", json!("absolute")),
        ("new", "layer_norm_type", json!("batch_norm")),
        ("new", "logn_attention_scale", json!(true)),
        ("new", "rope_scaling", json!({"type": "ntk"})),
        (
            "new",
            "rope_scaling",
            json!({"type": "ntk", "factor": 2.0, "mixed_b": 0.6}),
        ),
        ("jina_bert", "feed_forward_type", json!("original")),
        ("jina_bert", "is_decoder", json!(true)),
        ("deberta_v2", "relative_attention", json!(null)),
        ("deberta_v2", "share_att_key", json!(false)),
        ("deberta_v2", "pos_att_type", json!("c2p")),
        ("deberta_v2", "conv_kernel_size", json!(3)),
        ("deberta_v2", "norm_rel_ebd", json!("batch_norm")),
        ("deberta_v2", "embedding_size", json!(16)),
        ("jina_bert_qk", "vocab_size", json!(0)),
        ("llama", "attn_logit_softcapping", json!(50.0)),
        ("llama", "use_bidirectional_attention", json!(true)),
        ("llama", "rope_scaling", json!({"rope_type": "mrope"})),
        ("llama", "hidden_act", json!("quick_gelu")),
        ("llama", "num_key_value_heads", json!(3)),
        ("llama", "attention_bias", json!("yes")),
        (
            "llama",
            "auto_map",
            json!({"AutoModel": "modeling_llama_encoder.LlamaEncoderModel"}),
        ),
        ("mistral", "attention_bias", json!(true)),
        ("mistral", "mlp_bias", json!(true)),
        ("mistral", "is_causal", json!(false)),
        ("mistral", "sliding_window", json!("wide")),
        ("mistral", "num_key_value_heads", json!(0)),
        ("mistral", "layer_types", json!(["full_attention", "full_attention"])),
        ("qwen2", "auto_map", json!({"AutoModel": "modeling_other.Qwen2Model"})),
        ("qwen2", "is_causal", json!(true)),
        ("qwen2", "layer_types", json!(["full_attention", "sliding_attention"])),
        ("qwen3", "auto_map", json!({"AutoModel": "modeling_qwen.Qwen2Model"})),
        ("qwen3", "layer_types", json!(["full_attention"])),
        ("qwen3", "rms_norm_eps", json!(-1)),
        ("qwen3", "intermediate_size", json!(null)),
        ("gemma3", "attn_logit_softcapping", json!(50.0)),
        ("gemma3", "is_causal", json!(false)),
        ("gemma3", "sliding_window", json!(null)),
        ("gemma3", "query_pre_attn_scalar", json!(0)),
        ("gemma3", "hidden_activation", json!("mish")),
        (
            "gemma3",
            "rope_parameters",
            json!({"rope_type": "default", "rope_theta": 1e6}),
        ),
        ("nv_embed", "mask_type", json!("c")),
        ("nv_embed", "is_mask_instruction", json!(false)),
        ("nv_embed", "text_config", json!(null)),
        ("sentence_t5", "feed_forward_proj", json!("gelu")),
        ("sentence_t5", "is_gated_act", json!(true)),
        ("sentence_t5", "dense_act_fn", json!("gelu")),
        ("sentence_t5", "is_decoder", json!(true)),
        ("sentence_t5", "relative_attention_num_buckets", json!(2)),
        ("sentence_t5", "relative_attention_max_distance", json!(8)),
        ("sentence_t5", "d_kv", json!(null)),
        ("gtr", "dense_act_fn", json!("relu")),
        ("gtr", "feed_forward_proj", json!("gated-relu")),
    ]
    .into_iter()
    .filter(|(family, ..)| is_computed(Path::new(family)))
    {
        let error = with(family, key, &value).err();
        let error = error.unwrap_or_else(|| panic!("{family} loads with {key} = {value}"));
        assert!(
            error.contains("config.json") && error.contains(key),
            "{family}: {error}"
        );
    }
}

#[test]
fn settings_that_change_the_numbers_are_read() {
    let texts = [(5u32..60).collect::<Vec<_>>()];
    for (family, key, value) in [
        ("roberta", "pad_token_id", json!(0)),
        ("roberta", "hidden_act", json!("gelu_new")),
        ("modernbert", "local_attention", json!(18)),
        ("modernbert", "global_attn_every_n_layers", json!(1)),
        (
            "modernbert",
            "rope_scaling",
            json!({"rope_type": "linear", "factor": 2.0}),
        ),
        ("nomic_bert", "rotary_emb_base", json!(10_000)),
        ("nomic_bert", "rotary_emb_interleaved", json!(true)),
        ("nomic_bert", "rotary_emb_fraction", json!(0.5)),
        ("new", "rope_scaling", json!(null)),
        ("new", "rope_scaling", json!({"type": "ntk", "factor": 2.0})),
        ("deberta_v2", "max_relative_positions", json!(40)),
        ("jina_bert", "feed_forward_type", json!("reglu")),
        ("llama", "is_causal", json!(false)),
        ("llama", "rope_scaling", json!(null)),
        ("mistral", "sliding_window", json!(null)),
        ("mistral", "sliding_window", json!(15)),
        ("mistral", "hidden_act", json!("gelu")),
        ("qwen2", "auto_map", json!(null)),
        ("qwen3", "rope_theta", json!(10_000)),
        ("qwen3", "rms_norm_eps", json!(0.05)),
        ("gemma3", "use_bidirectional_attention", json!(false)),
        ("gemma3", "sliding_window", json!(18)),
        ("sentence_t5", "relative_attention_max_distance", json!(64)),
        ("gtr", "layer_norm_epsilon", json!(0.05)),
        ("gemma3", "rope_local_base_freq", json!(1e6)),
        ("gemma3", "rope_scaling", json!({"rope_type": "linear", "factor": 8.0})),
        ("gemma3", "query_pre_attn_scalar", json!(16)),
        ("gemma3", "layer_types", json!(["full_attention", "full_attention"])),
        (
            "nv_embed",
            "latent_attention_config",
            json!({"latent_dim": 32, "hidden_dim": 32, "num_latents_value": 8, "num_cross_heads": 4, "cross_dim_head": 8}),
        ),
    ]
    .into_iter()
    .filter(|(family, ..)| is_computed(Path::new(family)))
    {
        let plain = Model::load(&fixture(family), &Device::Cpu)
            .unwrap()
            .encode(&texts)
            .unwrap();
        let other = with(family, key, &value).unwrap_or_else(|error| panic!("{error}"));
        let other = other.encode(&texts).unwrap();
        let apart = plain.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart > 2e-5, "{family}: {key} = {value} changes nothing ({apart:e})");
    }
}

#[test]
fn nomics_dynamic_scaling_begins_beyond_the_training_length() {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture("nomic_bert"), folder.path());
    edit_json(&folder.path().join("config.json"), |config| {
        config["rotary_scaling_factor"] = json!(2);
        config["max_trained_positions"] = json!(20);
    });
    let plain = Model::load(&fixture("nomic_bert"), &Device::Cpu).unwrap();
    let ours = Model::load(folder.path(), &Device::Cpu).unwrap();
    let candle = Model::load(folder.path(), &Device::candle(candle_core::Device::Cpu)).unwrap();
    let (short, long) = ((5u32..25).collect::<Vec<_>>(), (5u32..26).collect::<Vec<_>>());
    assert_eq!(ours.encode(&[&short]).unwrap(), plain.encode(&[&short]).unwrap());
    let scaled = ours.encode(&[&short, &long]).unwrap()[32..].to_vec();
    assert!(common::cosine(&scaled, &plain.encode(&[&long]).unwrap()) < 0.999_99);
    assert!(common::cosine(&scaled, &candle.encode(&[&long]).unwrap()) > 0.999_999_9);
}

#[test]
fn without_a_stated_limit_the_positions_after_the_padding_id_are_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture("roberta"), folder.path());
    fs::remove_file(folder.path().join("sentence_bert_config.json")).unwrap();
    fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
    assert_eq!(Model::load(folder.path(), &Device::Cpu).unwrap().max_tokens(), 96);
}
