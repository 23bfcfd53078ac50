//! `config.json` of each family of decoders, with the defaults of transformers 5.23.

use serde_json::json;

use super::{Config, Kind};
use crate::{
    arch::{
        reader::NormKind,
        rope::{self, Rope},
        settings::Settings,
    },
    backend::{Activation, Heads, Span},
    error::EmbedError,
};

/// A known class in code on the hub, beside the checkpoint: Qwen 2 with attention to all tokens
/// (gte-Qwen2, Stella 1.5B).
const TWO_SIDED_QWEN: &str = "modeling_qwen.Qwen2Model";
/// Repositories that contain this code, for models saved with a reference to it.
const ITS_HOMES: [&str; 4] = [
    "Alibaba-NLP/gte-Qwen2-1.5B-instruct--",
    "Alibaba-NLP/gte-Qwen2-7B-instruct--",
    "NovaSearch/stella_en_1.5B_v5--",
    "dunzhang/stella_en_1.5B_v5--",
];

pub(in crate::arch) fn llama(settings: Settings<'_>) -> Result<Config, EmbedError> {
    library_code(settings)?;
    let bias = settings.flag_or("attention_bias", false)?;
    let span = sight(settings)?;
    Ok(Config {
        qkv_bias: bias,
        out_bias: bias,
        feed_bias: settings.flag_or("mlp_bias", false)?,
        ..common(settings, "llama", 2048, None, span)?
    })
}

/// Mistral; e5-mistral-7b-instruct and its relatives.
pub(in crate::arch) fn mistral(settings: Settings<'_>) -> Result<Config, EmbedError> {
    library_code(settings)?;
    let span = match (settings.window("sliding_window", 4096)?, sight(settings)?) {
        (None, span) => span,
        (Some(window), Span::CAUSAL) => causal_window(window),
        (Some(window), _) => return Err(two_sided_window(settings, window)),
    };
    unused(settings, &["attention_bias", "mlp_bias"])?;
    // Ministral has kinds of layers; Mistral itself has one window for all layers.
    settings.only("layer_types", &json!(null))?;
    common(settings, "mistral", 4096 * 32, None, span)
}

/// The decoder inside NV-Embed: Mistral in which every token sees every other. The window in its
/// file is ignored.
pub(in crate::arch) fn two_sided_mistral(settings: Settings<'_>) -> Result<Config, EmbedError> {
    unused(settings, &["attention_bias", "mlp_bias"])?;
    Ok(Config {
        prefixes: &["embedding_model."],
        ..common(settings, "nvembed", 4096 * 32, None, Span::ALL)?
    })
}

/// Qwen 2; gte-Qwen2 and Stella 1.5B, whose code on the hub lets every token see every other.
pub(in crate::arch) fn qwen2(settings: Settings<'_>) -> Result<Config, EmbedError> {
    let span = match code(settings) {
        None => sight(settings)?,
        Some(name) => {
            let home = ITS_HOMES.iter().find_map(|home| name.strip_prefix(home));
            if home.unwrap_or(name) != TWO_SIDED_QWEN {
                return Err(other_code(settings, name));
            }
            settings.only("is_causal", &json!(false))?;
            Span::ALL
        }
    };
    let mut config = common(settings, "qwen2", 32_768, None, span)?;
    config.qkv_bias = true;
    windows(settings, &mut config)?;
    Ok(config)
}

/// Qwen 3; Qwen3-Embedding and F2LLM.
pub(in crate::arch) fn qwen3(settings: Settings<'_>) -> Result<Config, EmbedError> {
    library_code(settings)?;
    let bias = settings.flag_or("attention_bias", false)?;
    let mut config = Config {
        head_norms: true,
        qkv_bias: bias,
        out_bias: bias,
        ..common(settings, "qwen3", 32_768, Some(128), sight(settings)?)?
    };
    windows(settings, &mut config)?;
    Ok(config)
}

/// Gemma 3; EmbeddingGemma, where every token sees every other.
pub(in crate::arch) fn gemma3(settings: Settings<'_>) -> Result<Config, EmbedError> {
    library_code(settings)?;
    let two_sided = settings.flag_or("use_bidirectional_attention", false)?;
    // If both switches are on, the library computes windows of another size.
    settings.only("is_causal", &json!(true))?;
    let bias = settings.flag_or("attention_bias", false)?;
    let mut config = Config {
        qkv_bias: bias,
        out_bias: bias,
        head_norms: true,
        norms_after: true,
        norm: NormKind::RmsPlusOne,
        activation: settings.activation("hidden_activation", "gelu_pytorch_tanh")?,
        ..common(settings, "gemma3_text", 131_072, Some(256), Span::CAUSAL)?
    };
    let scalar = settings.number_or("query_pre_attn_scalar", 256.0)?;
    if scalar.is_nan() || scalar <= 0.0 {
        return Err(settings.refuse(format!("query_pre_attn_scalar is {scalar}"), "give a number above 0"));
    }
    config.scale = single(scalar.powf(-0.5));
    #[allow(clippy::cast_precision_loss)]
    let width = config.hidden as f64;
    config.embedding_scale = Some(single(width.sqrt()));
    let count = config.layers.len();
    let windowed = match settings.layer_types(count)? {
        Some(windowed) => windowed,
        None => {
            let every = settings.size_or("sliding_window_pattern", 6)?;
            // The library writes this key but never reads it.
            settings.only("_sliding_window_pattern", &json!(every))?;
            (1..=count).map(|layer| layer % every != 0).collect()
        }
    };
    let window = settings.window("sliding_window", 4096)?;
    let local = match (window, two_sided) {
        (Some(window), true) => Span {
            before: window / 2,
            after: window / 2,
        },
        (Some(window), false) => causal_window(window),
        (None, _) if windowed.contains(&true) => return Err(no_window(settings)),
        (None, _) => Span::CAUSAL,
    };
    if let Some(parameters) = settings.get("rope_parameters") {
        if parameters.get("full_attention").is_none() {
            return Err(settings.refuse(
                "rope_parameters has no full_attention",
                "give parameters for full_attention and sliding_attention",
            ));
        }
        settings.only("rope_scaling", &json!(null))?;
    }
    let rope = |theta: f64, theta_key: &'static str| Rope {
        theta,
        theta_key,
        ..Rope::whole(config.heads.width, config.longest)
    };
    let global = rope::read(settings, rope(1e6, "rope_theta"), Some("full_attention"))?;
    let nearby = rope::read_local(settings, rope(1e4, "rope_local_base_freq"))?;
    config.kinds = vec![
        Kind {
            span: if two_sided { Span::ALL } else { Span::CAUSAL },
            rotation: global,
        },
        Kind {
            span: local,
            rotation: nearby,
        },
    ];
    config.layers = windowed.into_iter().map(usize::from).collect();
    Ok(config)
}

/// The settings that all families share, with one kind of layer that sees `span`. `head` is the
/// default width of a head if it differs from the hidden size divided by the number of heads.
fn common(
    settings: Settings<'_>,
    name: &'static str,
    longest: usize,
    head: Option<usize>,
    span: Span,
) -> Result<Config, EmbedError> {
    settings.only("attn_logit_softcapping", &json!(null))?;
    if name != "gemma3_text" {
        unused(settings, &["use_bidirectional_attention"])?;
    }
    let (hidden, heads) = (settings.size("hidden_size")?, settings.size("num_attention_heads")?);
    let width = match (settings.maybe_size("head_dim")?, head) {
        (Some(width), _) | (None, Some(width)) => width,
        (None, None) => settings.head_width(("hidden_size", hidden), ("num_attention_heads", heads))?,
    };
    // An absent key has a different meaning in each family; null means one key head per query head.
    let key = match settings.maybe_size("num_key_value_heads")? {
        Some(key) => key,
        None if name == "llama" || settings.is_null("num_key_value_heads") => heads,
        None => settings.size("num_key_value_heads")?,
    };
    settings.head_width(("num_attention_heads", heads), ("num_key_value_heads", key))?;
    let heads = Heads {
        query: heads,
        key,
        width,
    };
    let longest = settings.size_or("max_position_embeddings", longest)?;
    let rotation = rope::read(settings, Rope::whole(width, longest), Some("full_attention"))?;
    let layers = settings.count_or("num_hidden_layers", if name == "gemma3_text" { 26 } else { 32 })?;
    Ok(Config {
        name,
        vocabulary: settings.size("vocab_size")?,
        hidden,
        inner: settings.size("intermediate_size")?,
        longest,
        heads,
        scale: heads.scale(),
        embedding_scale: None,
        eps: settings.eps("rms_norm_eps", 1e-6)?,
        norm: NormKind::Rms,
        norms_after: false,
        head_norms: false,
        qkv_bias: false,
        out_bias: false,
        feed_bias: false,
        activation: match name {
            // This family uses another key for the activation.
            "gemma3_text" => Activation::GeluTanh,
            _ => settings.activation("hidden_act", "silu")?,
        },
        kinds: vec![Kind { span, rotation }],
        layers: vec![0; layers],
        prefixes: &["", "model."],
    })
}

/// Qwen's windows, if they are enabled: in the layers from `max_window_layers` on, or as
/// `layer_types` says.
fn windows(settings: Settings<'_>, config: &mut Config) -> Result<(), EmbedError> {
    let window = match settings.flag_or("use_sliding_window", false)? {
        true => settings.window("sliding_window", 4096)?,
        false => None,
    };
    let count = config.layers.len();
    let windowed = match settings.layer_types(count)? {
        Some(windowed) => windowed,
        None => {
            let first = settings.count_or("max_window_layers", 28)?;
            (0..count).map(|layer| window.is_some() && layer >= first).collect()
        }
    };
    if !windowed.contains(&true) {
        return Ok(());
    }
    let Some(window) = window else {
        return Err(no_window(settings));
    };
    if config.kinds[0].span != Span::CAUSAL {
        return Err(two_sided_window(settings, window));
    }
    config.kinds.push(Kind {
        span: causal_window(window),
        rotation: config.kinds[0].rotation.clone(),
    });
    config.layers = windowed.into_iter().map(usize::from).collect();
    Ok(())
}

/// The tokens that a token sees: itself and all before it, or all tokens if `is_causal` is false.
fn sight(settings: Settings<'_>) -> Result<Span, EmbedError> {
    Ok(if settings.flag_or("is_causal", true)? {
        Span::CAUSAL
    } else {
        Span::ALL
    })
}

/// A span of the token itself and those before it, `window` in total.
fn causal_window(window: usize) -> Span {
    Span {
        before: window - 1,
        after: 0,
    }
}

/// The code on the hub for which the checkpoint was made, if it is not the library's.
fn code(settings: Settings<'_>) -> Option<&str> {
    settings.get("auto_map")?.get("AutoModel")?.as_str()
}

fn library_code(settings: Settings<'_>) -> Result<(), EmbedError> {
    match code(settings) {
        Some(name) => Err(other_code(settings, name)),
        None => Ok(()),
    }
}

fn other_code(settings: Settings<'_>, name: &str) -> EmbedError {
    settings.refuse(
        format!("auto_map names `{name}`, code that is not served"),
        format!("supported: the library's own classes, and {TWO_SIDED_QWEN} of gte-Qwen2 and Stella"),
    )
}

/// Refuses keys that the family does not have. If set, they would request a feature that the
/// reference does not have.
fn unused(settings: Settings<'_>, keys: &[&str]) -> Result<(), EmbedError> {
    keys.iter().try_for_each(|key| settings.only(key, &json!(false)))
}

fn two_sided_window(settings: Settings<'_>, window: usize) -> EmbedError {
    settings.refuse(
        format!("sliding_window is {window} and is_causal false, which is not served together"),
        "without a window, give sliding_window null",
    )
}

fn no_window(settings: Settings<'_>) -> EmbedError {
    settings.refuse(
        "layer_types names sliding_attention, but sliding_window is null or use_sliding_window false",
        "fetch the model again",
    )
}

#[allow(clippy::cast_possible_truncation)]
fn single(value: f64) -> f32 {
    value as f32
}
