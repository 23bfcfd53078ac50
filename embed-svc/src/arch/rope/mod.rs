//! Rotary settings of `config.json`: `rope_theta`, `rope_scaling` (older files) or
//! `rope_parameters` (transformers 5), and the frequencies of each `rope_type`, as defined in
//! `transformers.modeling_rope_utils` 5.23.

use serde_json::Value;

use super::settings::Settings;
use crate::{
    backend::{
        Pairs, Rotation,
        rotation::{LongTextFrequencies, Longer, frequencies, powers},
    },
    error::EmbedError,
};

/// The architecture's defaults and facts for the rotary settings of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rope {
    /// Width of a head.
    pub(super) head: usize,
    /// Maximum text length of the model (`max_position_embeddings`).
    pub(super) longest: usize,
    /// Base if the file sets none.
    pub(super) theta: f64,
    /// Name of the base's key outside the parameters.
    pub(super) theta_key: &'static str,
    /// Rotated fraction of a head, if the file sets none.
    pub(super) partial: f64,
    /// The pairing of elements.
    pub(super) pairs: Pairs,
    /// Whether `rope_type` `ntk` has the meaning that `NewModel` gives it.
    pub(super) fixed_ntk: bool,
}

impl Rope {
    /// Rotates the whole head, in halves, with base 10,000.
    pub(super) fn whole(head: usize, longest: usize) -> Self {
        Self {
            head,
            longest,
            theta: 10_000.0,
            theta_key: "rope_theta",
            partial: 1.0,
            pairs: Pairs::Halves,
            fixed_ntk: false,
        }
    }
}

/// The rotation that a file specifies. `layer_type` selects among settings by kind of layer
/// (`{"sliding_attention": {…}, …}`).
///
/// # Errors
/// If a `rope_type` or key is unsupported; the error names it.
pub(super) fn read(settings: Settings<'_>, rope: Rope, layer_type: Option<&str>) -> Result<Rotation, EmbedError> {
    let key = if settings.get("rope_parameters").is_some() {
        "rope_parameters"
    } else {
        "rope_scaling"
    };
    let mut scaling = settings.get(key);
    if let (Some(value), Some(layer_type)) = (scaling, layer_type) {
        scaling = value.get(layer_type).or(scaling);
    }
    from(settings, key, scaling, rope)
}

/// The rotation of layers with a window: their own parameters or none. The scaling in an older file
/// applies only to the other layers.
///
/// # Errors
/// Those of [`read`].
pub(super) fn read_local(settings: Settings<'_>, rope: Rope) -> Result<Rotation, EmbedError> {
    let parameters = settings.get("rope_parameters");
    let own = parameters.and_then(|parameters| parameters.get("sliding_attention"));
    from(settings, "rope_parameters", own, rope)
}

/// Reads one set of parameters.
fn from(settings: Settings<'_>, key: &str, scaling: Option<&Value>, rope: Rope) -> Result<Rotation, EmbedError> {
    let fields = Fields { settings, key, scaling };
    let kind = scaling
        .and_then(|scaling| scaling.get("rope_type").or(scaling.get("type")))
        .and_then(Value::as_str)
        .unwrap_or("default");
    let theta = match fields.number("rope_theta")? {
        Some(theta) => theta,
        None => settings.number_or(rope.theta_key, rope.theta)?,
    };
    let partial = match fields.number("partial_rotary_factor")? {
        Some(partial) => partial,
        None => settings.number_or("partial_rotary_factor", rope.partial)?,
    };
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let width = (rope.head as f64 * partial) as usize;
    if theta.is_nan() || theta <= 0.0 || width == 0 || width > rope.head || !width.is_multiple_of(2) {
        let problem = format!(
            "rope_theta {theta} and partial_rotary_factor {partial} turn {width} of {} columns",
            rope.head
        );
        return Err(settings.refuse(problem, "an even number of columns is turned, with a positive base"));
    }
    let mut rotation = Rotation::plain(theta, width, rope.pairs);
    match kind {
        // The dynamic kind differs only beyond `max_position_embeddings`, and longer texts are
        // refused.
        "default" | "dynamic" => {}
        "linear" => {
            let factor = single(fields.needed("factor")?);
            rotation
                .frequencies
                .iter_mut()
                .for_each(|frequency| *frequency /= factor);
        }
        "llama3" => llama3(&mut rotation.frequencies, &fields, rope)?,
        "yarn" => yarn(&mut rotation, &fields, rope, theta, width)?,
        // Fixed NTK scaling of Alibaba's `NewModel`, the same for all lengths.
        "ntk" if rope.fixed_ntk => {
            if scaling
                .and_then(|scaling| scaling.get("mixed_b"))
                .is_some_and(|b| !b.is_null())
            {
                return Err(fields.wrong("mixed_b", "is not served"));
            }
            let factor = fields.needed("factor")?;
            #[allow(clippy::cast_precision_loss)]
            let slower = single(factor.powf(2.0 / width as f64));
            rotation.frequencies = frequencies(theta * factor, width);
            rotation
                .frequencies
                .iter_mut()
                .for_each(|frequency| *frequency /= slower);
        }
        "longrope" | "su" => longrope(&mut rotation, &fields, rope, theta, width)?,
        other => {
            return Err(settings.refuse(
                format!("{key}: rope_type `{other}` is not served"),
                "supported: default, linear, dynamic, llama3, yarn, longrope",
            ));
        }
    }
    Ok(rotation)
}

/// The value rounded to `f32`, which torch uses in a computation with `f32` tensors.
#[allow(clippy::cast_possible_truncation)]
fn single(value: f64) -> f32 {
    value as f32
}

struct Fields<'a> {
    settings: Settings<'a>,
    key: &'a str,
    scaling: Option<&'a Value>,
}

impl Fields<'_> {
    fn number(&self, field: &str) -> Result<Option<f64>, EmbedError> {
        match self.scaling.and_then(|scaling| scaling.get(field)) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(field, "is not a number")),
            },
        }
    }

    fn needed(&self, field: &str) -> Result<f64, EmbedError> {
        self.number(field)?.ok_or_else(|| self.wrong(field, "is missing"))
    }

    fn list(&self, field: &str, len: usize) -> Result<Vec<f32>, EmbedError> {
        let values = self
            .scaling
            .and_then(|scaling| scaling.get(field))
            .and_then(Value::as_array)
            .map(|values| values.iter().filter_map(Value::as_f64).map(single).collect::<Vec<_>>())
            .unwrap_or_default();
        if values.len() == len {
            Ok(values)
        } else {
            Err(self.wrong(field, &format!("does not hold {len} numbers")))
        }
    }

    /// Length of the texts in training.
    #[allow(clippy::cast_precision_loss)]
    fn original(&self, rope: Rope) -> Result<f64, EmbedError> {
        let outside = self.settings.maybe_size("original_max_position_embeddings")?;
        Ok(match (outside, self.number("original_max_position_embeddings")?) {
            (Some(outside), _) => outside as f64,
            (None, Some(inside)) => inside,
            (None, None) => rope.longest as f64,
        })
    }

    fn wrong(&self, field: &str, what: &str) -> EmbedError {
        let problem = format!("{}.{field} {what}", self.key);
        self.settings.refuse(problem, "fetch the model again")
    }
}

/// Llama 3.1: long wavelengths are stretched, short ones are unchanged, and those in between are
/// blended.
fn llama3(frequencies: &mut [f32], fields: &Fields<'_>, rope: Rope) -> Result<(), EmbedError> {
    let factor = single(fields.needed("factor")?);
    let (low, high) = (fields.needed("low_freq_factor")?, fields.needed("high_freq_factor")?);
    let original = fields.original(rope)?;
    let (longest, shortest) = (single(original / low), single(original / high));
    for frequency in frequencies {
        let wave = 2.0 * std::f32::consts::PI / *frequency;
        if wave > longest {
            *frequency /= factor;
        } else if wave >= shortest {
            let smooth = (single(original) / wave - single(low)) / single(high - low);
            *frequency = (1.0 - smooth) * *frequency / factor + smooth * *frequency;
        }
    }
    Ok(())
}

/// YaRN (Peng et al. 2023): a ramp over the pairs from stretched to unchanged, and a factor on the
/// result.
fn yarn(rotation: &mut Rotation, fields: &Fields<'_>, rope: Rope, theta: f64, width: usize) -> Result<(), EmbedError> {
    let original = fields.original(rope)?;
    #[allow(clippy::cast_precision_loss)]
    let (longest, columns) = (rope.longest as f64, width as f64);
    let factor = fields.number("factor")?.unwrap_or(longest / original);
    let growth = |scale: f64, m: f64| if scale <= 1.0 { 1.0 } else { 0.1 * m * scale.ln() + 1.0 };
    let nonzero = |field: &str| fields.number(field).map(|value| value.filter(|value| *value != 0.0));
    let attention = match (
        fields.number("attention_factor")?,
        nonzero("mscale")?,
        nonzero("mscale_all_dim")?,
    ) {
        (Some(given), ..) => given,
        (None, Some(m), Some(all)) => growth(factor, m) / growth(factor, all),
        _ => growth(factor, 1.0),
    };
    let pair = |turns: f64| columns * (original / (turns * 2.0 * std::f64::consts::PI)).ln() / (2.0 * theta.ln());
    let (mut low, mut high) = (
        pair(nonzero("beta_fast")?.unwrap_or(32.0)),
        pair(nonzero("beta_slow")?.unwrap_or(1.0)),
    );
    let truncate = fields.scaling.and_then(|scaling| scaling.get("truncate"));
    if truncate != Some(&Value::Bool(false)) {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(columns - 1.0));
    if low == high {
        high += 0.001;
    }
    rotation.factor = single(attention);
    rotation.frequencies = powers(theta, width)
        .enumerate()
        .map(|(i, power)| {
            #[allow(clippy::cast_precision_loss)]
            let ramp = ((i as f32 - single(low)) / single(high - low)).clamp(0.0, 1.0);
            let plain = 1.0 - ramp;
            1.0 / (single(factor) * power) * (1.0 - plain) + 1.0 / power * plain
        })
        .collect();
    Ok(())
}

/// LongRoPE (Ding et al. 2024): one list of factors for texts within the training length and one
/// for longer texts.
fn longrope(
    rotation: &mut Rotation,
    fields: &Fields<'_>,
    rope: Rope,
    theta: f64,
    width: usize,
) -> Result<(), EmbedError> {
    let original = fields.original(rope)?;
    #[allow(clippy::cast_precision_loss)]
    let longest = rope.longest as f64;
    let factor = fields.number("factor")?.unwrap_or(longest / original);
    let attention = match fields.number("attention_factor")? {
        Some(given) => given,
        None if factor <= 1.0 => 1.0,
        None => (1.0 + factor.ln() / original.ln()).sqrt(),
    };
    let of = |factors: Vec<f32>| -> Vec<f32> {
        let pairs = factors.into_iter().zip(powers(theta, width));
        pairs.map(|(factor, power)| 1.0 / (factor * power)).collect()
    };
    rotation.factor = single(attention);
    rotation.frequencies = of(fields.list("short_factor", width / 2)?);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let limit = original as usize;
    rotation.beyond = Some(LongTextFrequencies {
        limit,
        frequencies: Longer::Fixed(of(fields.list("long_factor", width / 2)?)),
    });
    Ok(())
}

#[cfg(test)]
mod tests;
