//! Computes one vector per text from one vector per token (sentence-transformers' `Pooling` module,
//! Reimers & Gurevych 2019, §3).
//!
//! Pure functions of the tokens of one text. Nothing is padded, so no mask is needed: every row
//! counts.

/// The conversion of token vectors into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingMode {
    /// The first token.
    Cls,
    /// The largest value of each column.
    Max,
    /// The average.
    Mean,
    /// The sum divided by the square root of the number of tokens.
    MeanSqrtLen,
    /// The average with weight i + 1 on token i (SGPT; Muennighoff 2022).
    WeightedMean,
    LastToken,
}

// In the order in which sentence-transformers concatenates them.
isomer_names::names!(PoolingMode {
    Cls = "cls", Max = "max", Mean = "mean", MeanSqrtLen = "mean_sqrt_len_tokens",
    WeightedMean = "weightedmean", LastToken = "lasttoken"
});

impl PoolingMode {
    /// Its flag in `1_Pooling/config.json`.
    pub fn config_key(self) -> &'static str {
        match self {
            Self::Cls => "pooling_mode_cls_token",
            Self::Max => "pooling_mode_max_tokens",
            Self::Mean => "pooling_mode_mean_tokens",
            Self::MeanSqrtLen => "pooling_mode_mean_sqrt_len_tokens",
            Self::WeightedMean => "pooling_mode_weightedmean_tokens",
            Self::LastToken => "pooling_mode_lasttoken",
        }
    }
}

/// The token vectors of one text.
#[derive(Debug, Clone, Copy)]
pub struct TokenRows<'a> {
    /// `n × width`.
    pub values: &'a [f32],
    /// Width of a vector.
    pub width: usize,
    /// Leading tokens that are excluded: the prompt, in models that do not pool it.
    pub skip: usize,
    /// The sum of the factors by which the rows were multiplied, if they were. Means are divided by
    /// it.
    pub factors: Option<f32>,
}

/// Pools the tokens of one text; `out` receives `modes.len() · width` values. Without tokens the
/// result is zero.
pub fn pool(tokens: TokenRows<'_>, modes: &[PoolingMode], out: &mut [f32]) {
    for (mode, out) in modes.iter().zip(out.chunks_exact_mut(tokens.width.max(1))) {
        pool_one(tokens, *mode, out);
    }
}

fn pool_one(tokens: TokenRows<'_>, mode: PoolingMode, out: &mut [f32]) {
    let TokenRows {
        values,
        width,
        skip,
        factors,
    } = tokens;
    out.fill(0.0);
    if values.is_empty() {
        return;
    }
    let kept = values.get(skip * width..).unwrap_or_default();
    let rows = || kept.chunks_exact(width);
    #[allow(clippy::cast_precision_loss)]
    let number = |n: usize| n as f32;
    // A lower bound as in sentence-transformers, which prevents a division by zero.
    let at_least = |divisor: f32| divisor.max(1e-9);
    match mode {
        // If the text has only a prompt, this is the very first token, as in sentence-transformers.
        PoolingMode::Cls => out.copy_from_slice(&(if kept.is_empty() { values } else { kept })[..width]),
        _ if kept.is_empty() => {}
        PoolingMode::LastToken => out.copy_from_slice(&kept[kept.len() - width..]),
        PoolingMode::Max => {
            out.fill(f32::NEG_INFINITY);
            for row in rows() {
                for (out, value) in out.iter_mut().zip(row) {
                    // NaN must win, so that a later check detects it.
                    *out = if out.is_nan() || *out > *value { *out } else { *value };
                }
            }
        }
        PoolingMode::Mean | PoolingMode::MeanSqrtLen => {
            for row in rows() {
                isomer_kernels::rows::add(out, row);
            }
            let count = at_least(factors.unwrap_or(number(kept.len() / width)));
            let divisor = if mode == PoolingMode::Mean { count } else { count.sqrt() };
            out.iter_mut().for_each(|value| *value /= divisor);
        }
        PoolingMode::WeightedMean => {
            let mut total = 0.0;
            // Tokens after a prompt keep the weights of their positions.
            for (place, row) in (skip + 1..).zip(rows()) {
                let weight = number(place);
                total += weight;
                for (out, value) in out.iter_mut().zip(row) {
                    *out += weight * value;
                }
            }
            let divisor = at_least(factors.unwrap_or(total));
            out.iter_mut().for_each(|value| *value /= divisor);
        }
    }
}

/// The pooling of a text as weights of its rows; appends `tokens` weights for each mode. The text
/// has `tokens` tokens, of which the first `skip` are excluded. [`PoolingMode::Max`] is not a sum:
/// for it nothing is appended and the result is `false`.
pub fn weights(tokens: usize, skip: usize, modes: &[PoolingMode], out: &mut Vec<f32>) -> bool {
    if modes.contains(&PoolingMode::Max) {
        return false;
    }
    let kept = tokens.saturating_sub(skip);
    #[allow(clippy::cast_precision_loss)]
    let number = |n: usize| n as f32;
    for mode in modes {
        let weight = |row: usize| match mode {
            PoolingMode::Cls => number(usize::from(row == if kept == 0 { 0 } else { skip })),
            _ if row < skip => 0.0,
            PoolingMode::LastToken => number(usize::from(row + 1 == tokens)),
            PoolingMode::Mean => 1.0 / number(kept),
            PoolingMode::MeanSqrtLen => 1.0 / number(kept).sqrt(),
            PoolingMode::WeightedMean => number(row + 1) / number((skip + 1..=tokens).sum()),
            PoolingMode::Max => 0.0,
        };
        out.extend((0..tokens).map(weight));
    }
    true
}

/// Scales a vector to unit Euclidean length (`torch.nn.functional.normalize`: the length is at
/// least 1e-12, so a zero vector stays zero).
pub fn normalise(vector: &mut [f32]) {
    let squares: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let length = squares.sqrt().max(1e-12);
    for value in vector {
        #[allow(clippy::cast_possible_truncation)]
        {
            *value = (f64::from(*value) / length) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [f32; 6] = [1.0, -2.0, 3.0, 4.0, 5.0, 0.0];

    #[test]
    fn weights_of_rows_are_the_same_pooling() {
        let modes = PoolingMode::ALL.map(|mode| [mode]);
        let modes = modes.iter().filter(|mode| **mode != [PoolingMode::Max]);
        for (mode, tokens, skip) in modes.flat_map(|mode| {
            [(0, 0), (1, 0), (3, 0), (5, 2), (3, 3), (2, 4)].map(|(tokens, skip)| (mode, tokens, skip))
        }) {
            // The columns of the identity matrix.
            let mut identity = vec![0.0; tokens * tokens];
            (0..tokens).for_each(|row| identity[row * tokens + row] = 1.0);
            let mut pooled = vec![0.0; tokens];
            pool(
                TokenRows {
                    skip,
                    ..rows(&identity, tokens)
                },
                mode,
                &mut pooled,
            );
            let mut own = Vec::new();
            assert!(weights(tokens, skip, mode, &mut own));
            let close = own.iter().zip(&pooled).all(|(a, b)| (a - b).abs() <= 1e-7);
            assert!(close, "{mode:?} {tokens} {skip}: {own:?} {pooled:?}");
        }
        assert!(!weights(3, 0, &[PoolingMode::Mean, PoolingMode::Max], &mut Vec::new()));
    }

    fn rows(values: &[f32], width: usize) -> TokenRows<'_> {
        TokenRows {
            values,
            width,
            skip: 0,
            factors: None,
        }
    }

    fn pooled(mode: PoolingMode) -> Vec<f32> {
        let mut out = vec![f32::NAN; 2];
        pool(rows(&TOKENS, 2), &[mode], &mut out);
        out
    }

    #[test]
    fn each_mode_follows_its_definition() {
        assert_eq!(pooled(PoolingMode::Cls), [1.0, -2.0]);
        assert_eq!(pooled(PoolingMode::LastToken), [5.0, 0.0]);
        assert_eq!(pooled(PoolingMode::Max), [5.0, 4.0]);
        assert_eq!(pooled(PoolingMode::Mean), [3.0, 2.0 / 3.0]);
        assert_eq!(pooled(PoolingMode::MeanSqrtLen), [9.0 / 3f32.sqrt(), 2.0 / 3f32.sqrt()]);
        assert_eq!(pooled(PoolingMode::WeightedMean), [22.0 / 6.0, 1.0]);
    }

    #[test]
    fn several_modes_are_put_side_by_side() {
        let mut out = vec![f32::NAN; 4];
        pool(rows(&TOKENS, 2), &[PoolingMode::Cls, PoolingMode::Max], &mut out);
        assert_eq!(out, [1.0, -2.0, 5.0, 4.0]);
    }

    #[test]
    fn a_prompt_that_is_left_out_leaves_the_others_their_places() {
        let without_first = |mode| {
            let mut out = vec![f32::NAN; 2];
            let tokens = TokenRows {
                skip: 1,
                ..rows(&TOKENS, 2)
            };
            pool(tokens, &[mode], &mut out);
            out
        };
        assert_eq!(without_first(PoolingMode::Cls), [3.0, 4.0]);
        assert_eq!(without_first(PoolingMode::Mean), [4.0, 2.0]);
        assert_eq!(without_first(PoolingMode::WeightedMean), [21.0 / 5.0, 8.0 / 5.0]);
        let nothing_left = TokenRows {
            skip: 9,
            ..rows(&TOKENS, 2)
        };
        let mut out = vec![f32::NAN; 4];
        pool(nothing_left, &[PoolingMode::Cls, PoolingMode::Max], &mut out);
        assert_eq!(out, [1.0, -2.0, 0.0, 0.0]);
    }

    #[test]
    fn weights_are_summed_beyond_any_small_integer() {
        let many = vec![1.0; 70_000];
        let mut out = [0.0];
        pool(rows(&many, 1), &[PoolingMode::WeightedMean], &mut out);
        assert!((out[0] - 1.0).abs() < 1e-3, "{}", out[0]);
    }

    #[test]
    fn max_pooling_shows_a_nan() {
        let mut out = vec![0.0; 1];
        pool(rows(&[1.0, f32::NAN, 3.0], 1), &[PoolingMode::Max], &mut out);
        assert!(out[0].is_nan());
    }

    #[test]
    fn normalising_gives_unit_length_and_leaves_zero_alone() {
        let mut vector = [3.0, -4.0];
        normalise(&mut vector);
        assert_eq!(vector, [0.6, -0.8]);
        let mut zero = [0.0; 3];
        normalise(&mut zero);
        assert_eq!(zero, [0.0; 3]);
    }
}
