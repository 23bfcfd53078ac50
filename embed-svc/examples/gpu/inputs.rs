//! Token ids and texts from seeds, and comparisons of vectors.

use isomer_embed::{EmbedError, batch::Sequence, model::Model, tokenise::Cut};

const WORDS: &str = "time year people way day man thing woman life child world school state family student group country \
    problem hand part place case week company system program question work government number night point home water \
    room mother area money story fact";

/// Pseudo-random numbers (xorshift64*).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound.max(1)
    }

    /// Ids from 5 to 399, whose rows the packed MiniLM keeps.
    pub(crate) fn ids(&mut self, model: &Model, count: usize) -> Vec<u32> {
        let rows = model.vocabulary().clamp(20, 400);
        (0..count).map(|_| (5 + self.below(rows - 5)) as u32).collect()
    }

    pub(crate) fn text(&mut self, words: usize) -> String {
        let all: Vec<&str> = WORDS.split_whitespace().collect();
        let words: Vec<&str> = (0..words).map(|_| all[self.below(all.len())]).collect();
        words.join(" ")
    }

    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }
}

/// Texts of a batch for a speed: all of `tokens` tokens, or for 15 of 9 to 20.
pub(crate) fn batch(model: &Model, tokens: usize, batch_tokens: usize) -> Vec<Vec<u32>> {
    let mut rng = Rng(99);
    let texts = (batch_tokens / tokens).max(1);
    (0..texts)
        .map(|_| {
            let length = if tokens == 15 { 9 + rng.below(12) } else { tokens };
            rng.ids(model, length)
        })
        .collect()
}

/// 24 texts of 1 to 200 words as the model takes them; pairs for a cross-encoder.
pub(crate) fn sequences(model: &Model) -> Result<Vec<Sequence>, String> {
    let mut rng = Rng(77);
    let texts: Vec<String> = (0..24)
        .map(|i| rng.text([3, 9, 17, 30, 60, 120, 1, 200][i % 8]))
        .collect();
    (0..texts.len())
        .map(|i| {
            let tokens = if model.is_cross_encoder() {
                model.tokenise_pair(&model.first_of_pairs(&texts[i])?, &texts[(i + 1) % 24])
            } else {
                model.tokenise("", &texts[i], Cut::Head)
            };
            tokens.map(Sequence::from)
        })
        .collect()
}

/// The vector of each text in a batch of its own.
pub(crate) fn alone(model: &Model, texts: &[Vec<u32>]) -> Result<Vec<f32>, EmbedError> {
    let mut vectors = Vec::new();
    for text in texts {
        vectors.extend(model.encode(std::slice::from_ref(text))?);
    }
    Ok(vectors)
}

/// Least cosine and largest difference of two lists of vectors; NaN if any value is.
pub(crate) fn compare(a: &[f32], b: &[f32], width: usize) -> (f64, f64) {
    let (mut least, mut apart) = (1f64, 0f64);
    for (a, b) in a.chunks(width).zip(b.chunks(width)) {
        let (mut ab, mut aa, mut bb) = (0f64, 0f64, 0f64);
        for (&a, &b) in a.iter().zip(b) {
            let (a, b) = (f64::from(a), f64::from(b));
            ab += a * b;
            aa += a * a;
            bb += b * b;
            apart = apart.max((a - b).abs());
        }
        let cosine = ab / (aa * bb).sqrt();
        if cosine < least || cosine.is_nan() {
            least = cosine;
        }
        if least.is_nan() {
            return (f64::NAN, f64::NAN);
        }
    }
    (least, apart)
}

pub(crate) fn equal_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
