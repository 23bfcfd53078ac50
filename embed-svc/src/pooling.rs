//! From one vector a token to one vector a text (sentence-transformers' `Pooling` module, Reimers & Gurevych 2019, §3).
//!
//! Pure functions of the tokens of one text. There is no padding, hence no mask: every row counts.

/// How token vectors become one vector.
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
    /// The last token.
    LastToken,
}

impl PoolingMode {
    /// Every mode, in the order in which sentence-transformers concatenates them.
    pub const ALL: [Self; 6] = [
        Self::Cls,
        Self::Max,
        Self::Mean,
        Self::MeanSqrtLen,
        Self::WeightedMean,
        Self::LastToken,
    ];

    /// Name as used by sentence-transformers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cls => "cls",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::MeanSqrtLen => "mean_sqrt_len_tokens",
            Self::WeightedMean => "weightedmean",
            Self::LastToken => "lasttoken",
        }
    }

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

/// Pools the tokens of one text: `tokens` is `n × width`, `out` receives `modes.len() · width` values. Without tokens
/// the result is zero.
pub fn pool(tokens: &[f32], width: usize, modes: &[PoolingMode], out: &mut [f32]) {
    for (mode, out) in modes.iter().zip(out.chunks_exact_mut(width.max(1))) {
        pool_one(tokens, width, *mode, out);
    }
}

fn pool_one(tokens: &[f32], width: usize, mode: PoolingMode, out: &mut [f32]) {
    out.fill(0.0);
    let rows = || tokens.chunks_exact(width);
    #[allow(clippy::cast_precision_loss)]
    let n = (tokens.len() / width.max(1)) as f32;
    if n == 0.0 {
        return;
    }
    match mode {
        PoolingMode::Cls => out.copy_from_slice(&tokens[..width]),
        PoolingMode::LastToken => out.copy_from_slice(&tokens[tokens.len() - width..]),
        PoolingMode::Max => {
            out.fill(f32::NEG_INFINITY);
            for row in rows() {
                for (out, value) in out.iter_mut().zip(row) {
                    // NaN must win, so that it is seen.
                    *out = if out.is_nan() || *out > *value { *out } else { *value };
                }
            }
        }
        PoolingMode::Mean | PoolingMode::MeanSqrtLen => {
            for row in rows() {
                isomer_kernels::rows::add(out, row);
            }
            let divisor = if mode == PoolingMode::Mean { n } else { n.sqrt() };
            out.iter_mut().for_each(|value| *value /= divisor);
        }
        PoolingMode::WeightedMean => {
            let mut total = 0.0;
            for (weight, row) in (1u16..).map(f32::from).zip(rows()) {
                total += weight;
                for (out, value) in out.iter_mut().zip(row) {
                    *out += weight * value;
                }
            }
            out.iter_mut().for_each(|value| *value /= total);
        }
    }
}

/// Scales a vector to unit Euclidean length (`torch.nn.functional.normalize`: the length is at least 1e-12, so a zero
/// vector stays zero).
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

    fn pooled(mode: PoolingMode) -> Vec<f32> {
        let mut out = vec![f32::NAN; 2];
        pool(&TOKENS, 2, &[mode], &mut out);
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
        pool(&TOKENS, 2, &[PoolingMode::Cls, PoolingMode::Max], &mut out);
        assert_eq!(out, [1.0, -2.0, 5.0, 4.0]);
    }

    #[test]
    fn max_pooling_shows_a_nan() {
        let mut out = vec![0.0; 1];
        pool(&[1.0, f32::NAN, 3.0], 1, &[PoolingMode::Max], &mut out);
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
