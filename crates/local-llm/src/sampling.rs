//! Sampling: selects a token from logits.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Samples tokens for one request.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    temperature: f64,
    top_p: f64,
    top_k: Option<usize>,
    rng: ChaCha8Rng,
}

impl Sampler {
    pub(crate) fn new(temperature: f64, top_p: f64, seed: u64) -> Self {
        Self {
            temperature,
            top_p,
            top_k: None,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Limits sampling to the k likeliest tokens.
    pub(crate) fn among(self, top_k: Option<usize>) -> Self {
        Self { top_k, ..self }
    }

    /// The next token. At temperature 0 it is the one with the largest logit, and the lowest id
    /// among equals.
    pub(crate) fn next(&mut self, logits: &[f32]) -> u32 {
        if self.temperature == 0.0 {
            return as_id(argmax(logits));
        }
        let largest = f64::from(logits[argmax(logits)]);
        let mut weights: Vec<f64> = logits
            .iter()
            .map(|logit| ((f64::from(*logit) - largest) / self.temperature).exp())
            .collect();
        if let Some(most) = self.top_k.filter(|most| *most < weights.len()) {
            keep_largest(&mut weights, most);
        }
        let total: f64 = weights.iter().sum();
        let draw = self.rng.random::<f64>();
        if self.top_p >= 1.0 {
            return as_id(pick(weights.iter().copied().enumerate(), draw * total));
        }
        // All tokens below this threshold together have a probability below 1 - top_p, so none of
        // them can be in the nucleus.
        #[allow(clippy::cast_precision_loss)]
        let threshold = (1.0 - self.top_p) / weights.len() as f64 * total;
        for weight in &mut weights {
            *weight /= total;
        }
        let threshold = threshold / total;
        let mut nucleus: Vec<(usize, f64)> = weights
            .into_iter()
            .enumerate()
            .filter(|(_, p)| *p >= threshold)
            .collect();
        nucleus.sort_by(|(i, p), (j, q)| q.total_cmp(p).then(i.cmp(j)));
        // The smallest set whose probability reaches top_p (Holtzman et al. 2020).
        let mut mass = 0.0;
        let mut size = 0;
        for (_, p) in &nucleus {
            mass += p;
            size += 1;
            if mass >= self.top_p {
                break;
            }
        }
        as_id(pick(nucleus[..size].iter().copied(), draw * mass))
    }
}

/// Sets all but the largest weights to zero. Among equals at the boundary, the lowest ids are kept.
fn keep_largest(weights: &mut [f64], most: usize) {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let larger = |a: &usize, b: &usize| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b));
    order.select_nth_unstable_by(most, larger);
    for index in order.split_off(most) {
        weights[index] = 0.0;
    }
}

/// The item at which the running sum passes `target`; the last item if rounding prevents that.
fn pick(items: impl Iterator<Item = (usize, f64)>, target: f64) -> usize {
    let mut sum = 0.0;
    let mut last = 0;
    for (item, weight) in items {
        if weight > 0.0 {
            sum += weight;
            last = item;
            if sum > target {
                break;
            }
        }
    }
    last
}

/// Index of the largest value, the first among equals. NaN is never the largest.
pub(crate) fn argmax(values: &[f32]) -> usize {
    // Blocks first, because the compiler can vectorise the loop that finds the maximum of a block.
    const BLOCK: usize = 256;
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut best = (0, f32::NEG_INFINITY);
    for (block, values) in values.chunks(BLOCK).enumerate() {
        let mut lanes = [f32::NEG_INFINITY; 8];
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            for (lane, value) in lanes.iter_mut().zip(eight) {
                *lane = larger(*lane, *value);
            }
        }
        let max = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, b| larger(a, *b));
        if max > best.1 {
            best = (block, max);
        }
    }
    let start = best.0 * BLOCK;
    let inside = values.iter().skip(start).position(|v| *v == best.1);
    start + inside.unwrap_or(0)
}

fn as_id(index: usize) -> u32 {
    // Vocabularies are far smaller than this; the size is checked when the file is read.
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn temperature_zero_takes_the_first_of_the_largest() {
        let mut logits = vec![0.0; 1000];
        logits[700] = 2.0;
        logits[300] = 2.0;
        logits[5] = f32::NAN;
        assert_eq!(Sampler::new(0.0, 1.0, 1).next(&logits), 300);
    }

    #[test]
    fn draws_follow_the_softmax() {
        let logits = [1.0f32, 0.0, -1.0];
        let mut sampler = Sampler::new(0.5, 1.0, 7);
        let mut counts = [0.0f64; 3];
        for _ in 0..20_000 {
            counts[sampler.next(&logits) as usize] += 1.0 / 20_000.0;
        }
        let weights = logits.map(|l| (f64::from(l) / 0.5).exp());
        let total: f64 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(weights) {
            assert!((count - weight / total).abs() < 0.012, "{counts:?}");
        }
    }

    #[test]
    fn top_k_leaves_only_so_many_tokens() {
        let logits = [1.0, 3.0, 2.0, 2.0, 0.0];
        let drawn = |most| -> std::collections::BTreeSet<u32> {
            (0..300)
                .map(|seed| Sampler::new(2.0, 1.0, seed).among(Some(most)).next(&logits))
                .collect()
        };
        assert_eq!(drawn(1), [1].into());
        assert_eq!(drawn(2), [1, 2].into());
        assert_eq!(drawn(9).len(), 5);
        let mut both = Sampler::new(2.0, 0.3, 1).among(Some(3));
        assert_eq!(both.next(&logits), 1);
    }

    #[test]
    fn top_p_leaves_only_the_nucleus() {
        // Probabilities 0.5, 0.3, 0.2: the first two are needed for 0.6.
        let logits = [0.2f32.ln(), 0.5f32.ln(), 0.3f32.ln()];
        let mut sampler = Sampler::new(1.0, 0.6, 3);
        let drawn: std::collections::BTreeSet<u32> = (0..500).map(|_| sampler.next(&logits)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [1, 2]);
        let mut sampler = Sampler::new(1.0, 0.3, 3);
        assert!((0..500).all(|_| sampler.next(&logits) == 1));
    }

    #[test]
    fn equal_seeds_draw_equally() {
        let logits: Vec<f32> = (0..500u16).map(|i| f32::from(i % 7)).collect();
        let draw = |seed| {
            let mut sampler = Sampler::new(1.0, 0.9, seed);
            (0..20).map(|_| sampler.next(&logits)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
