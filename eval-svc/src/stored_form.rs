//! The form in which a search index stores vectors: the first dimensions alone, or numbers of a
//! smaller type. One form of an encoder is scored like another encoder, from the same vectors.

use std::{borrow::Cow, fmt, str::FromStr};

use isomer_config::spelling::nearest;
use isomer_proto::{
    common::v1::{Similarity, VectorSpace},
    encoder::v1::Encoder,
};
use isomer_service_kit::vectors::{self, Ranges};

/// The type of a stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Numbers {
    /// As the encoder returns them.
    Float,
    /// IEEE 754 binary16.
    Half,
    /// 256 steps over the range of each dimension ([`Ranges`]).
    Int8,
    /// 1 if the number is above 0, else 0; compared as the encoder's vectors are (mteb).
    Binary,
    /// The same bits, compared by their Hamming distance (vector stores): +1 or −1, whose cosine is
    /// 1 − 2 × distance / dimensions.
    Hamming,
}

impl Numbers {
    const ALL: [Self; 5] = [Self::Float, Self::Half, Self::Int8, Self::Binary, Self::Hamming];

    /// Its name in requests, the bits of a number, and what is stored.
    fn row(self) -> (&'static str, u32, &'static str) {
        match self {
            Self::Float => ("float", 32, "as the encoder returns them"),
            Self::Half => ("f16", 16, "IEEE 754 binary16"),
            Self::Int8 => (
                "int8",
                8,
                "256 steps from the smallest to the largest value of each dimension",
            ),
            Self::Binary => (
                "binary",
                1,
                "1 if the number is above 0, else 0; compared as the encoder's vectors are, as in mteb",
            ),
            Self::Hamming => (
                "hamming",
                1,
                "the same bits, compared by Hamming distance, as in vector stores",
            ),
        }
    }
}

/// The types of stored numbers: name, what is stored, and bytes of a vector of 384 dimensions.
pub fn stored_numbers() -> impl Iterator<Item = (&'static str, &'static str, u32)> {
    Numbers::ALL[1..].iter().map(|numbers| {
        let (name, bits, stored) = numbers.row();
        (name, stored, 384 * bits / 8)
    })
}

const SHAPE: &str = "write a type (f16, int8, binary, hamming), a number of dimensions (256), or both (binary:256); or a \
                     search: bm25, hybrid:rrf";

/// How vectors are stored: `int8`, `binary:256` (the first 256 dimensions), `256` (these as
/// floats).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredForm {
    numbers: Numbers,
    /// Leading dimensions that are kept; absent: all.
    dimensions: Option<u32>,
}

impl fmt::Display for StoredForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.numbers, self.dimensions) {
            (Numbers::Float, Some(dimensions)) => write!(f, "{dimensions}"),
            (_, Some(dimensions)) => write!(f, "{}:{dimensions}", self.numbers.row().0),
            (_, None) => f.write_str(self.numbers.row().0),
        }
    }
}

impl FromStr for StoredForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, dimensions) = match text.split_once(':') {
            Some((name, dimensions)) => (name, Some(dimensions)),
            None if text.starts_with(|first: char| first.is_ascii_digit()) => ("float", Some(text)),
            None => (text, None),
        };
        let numbers = Numbers::ALL
            .into_iter()
            .find(|one| one.row().0 == name)
            .ok_or_else(|| {
                let close = nearest(name, Numbers::ALL[1..].iter().map(|one| one.row().0));
                let hint = close.map_or_else(|| SHAPE.to_owned(), |close| format!("did you mean `{close}`?"));
                format!("`{text}` is an unknown form; {hint}")
            })?;
        let dimensions = match dimensions.map(str::parse) {
            None => None,
            Some(Ok(dimensions @ 1..)) => Some(dimensions),
            Some(_) => return Err(format!("`{text}` has no valid number of dimensions; {SHAPE}")),
        };
        if (numbers, dimensions) == (Numbers::Float, None) {
            return Err(format!("`{text}` is the form of the encoder itself; {SHAPE}"));
        }
        Ok(Self { numbers, dimensions })
    }
}

/// Name of a form of an encoder in a run.
pub(crate) fn form_name(encoder: &str, form: impl fmt::Display) -> String {
    format!("{encoder}+{form}")
}

impl StoredForm {
    /// Whether the range of each dimension must be known.
    pub(crate) fn needs_ranges(self) -> bool {
        self.numbers == Numbers::Int8
    }

    /// Whether unit vectors keep their length.
    fn keeps_length(self) -> bool {
        matches!(self.numbers, Numbers::Float | Numbers::Half)
    }

    /// The encoder whose vectors these are, as a run names and describes it.
    ///
    /// # Errors
    /// If the encoder has no such dimensions.
    pub(crate) fn encoder(self, source: &Encoder) -> Result<Encoder, String> {
        let (id, all) = (&source.id, source.dimensions);
        if let Some(dimensions) = self.dimensions {
            let trained = &source.matryoshka_dimensions;
            if all == 0 {
                return Err(format!(
                    "`{self}` asks for {dimensions} dimensions, and `{id}` does not say how many it has"
                ));
            }
            if dimensions >= all {
                return Err(format!(
                    "`{self}` asks for {dimensions} of the {all} dimensions of `{id}`; ask for fewer"
                ));
            }
            if !trained.is_empty() && !trained.contains(&dimensions) {
                let trained: Vec<String> = trained.iter().map(u32::to_string).collect();
                return Err(format!(
                    "`{self}` asks for dimensions for which `{id}` was not trained; allowed: {}",
                    trained.join(", ")
                ));
            }
        }
        let mut encoder = Encoder {
            id: form_name(id, self),
            dimensions: self.dimensions.unwrap_or(all),
            normalises: source.normalises && self.keeps_length(),
            vector_space: source.vector_space.as_ref().map(|space| self.space(space, "")),
            ..source.clone()
        };
        if self.numbers == Numbers::Hamming {
            encoder.set_similarity(Similarity::Cosine);
        }
        Ok(encoder)
    }

    /// The space of the stored vectors. `calibration` is the digest of the data set whose texts
    /// give the ranges.
    pub(crate) fn space(self, source: &VectorSpace, calibration: &str) -> VectorSpace {
        let calibration = if self.needs_ranges() { calibration } else { "" };
        let quantisation = format!("{self} {calibration}");
        let mut hasher = blake3::Hasher::new();
        // No form contains a zero byte.
        for part in [source.digest.as_str(), "\0", &quantisation] {
            hasher.update(part.as_bytes());
        }
        VectorSpace {
            digest: hasher.finalize().to_hex().to_string(),
            dimensions: self.dimensions.unwrap_or(source.dimensions),
            normalised: source.normalised && self.keeps_length(),
            quantisation: quantisation.trim_end().to_owned(),
            ..source.clone()
        }
    }

    /// Bytes of a stored vector.
    pub(crate) fn bytes(self, dimensions: u32) -> u32 {
        dimensions.saturating_mul(self.numbers.row().1).div_ceil(8)
    }

    /// The leading dimensions of a vector; of unit length again if the encoder's vectors are.
    ///
    /// # Errors
    /// If the vector has fewer.
    pub(crate) fn shortened(self, row: &[f32], normalises: bool) -> Result<Cow<'_, [f32]>, String> {
        let Some(dimensions) = self.dimensions else {
            return Ok(Cow::Borrowed(row));
        };
        let Some(first) = row.get(..dimensions as usize) else {
            return Err(format!(
                "has vectors of {} dimensions, too few for the form `{self}`",
                row.len()
            ));
        };
        let length = first.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        if !normalises || length == 0.0 {
            return Ok(Cow::Borrowed(first));
        }
        #[allow(clippy::cast_possible_truncation)]
        let scaled = first.iter().map(|value| (f64::from(*value) / length) as f32);
        Ok(Cow::Owned(scaled.collect()))
    }

    /// The stored numbers of a shortened vector. `ranges` are those of this form's vectors, for a
    /// form that needs them.
    ///
    /// # Errors
    /// A number that binary16 cannot hold, or missing ranges.
    pub(crate) fn stored<'a>(self, row: Cow<'a, [f32]>, ranges: Option<&Ranges>) -> Result<Cow<'a, [f32]>, String> {
        let bits = |zero: f32| row.iter().map(|value| if *value > 0.0 { 1.0 } else { zero }).collect();
        Ok(Cow::Owned(match self.numbers {
            Numbers::Float => return Ok(row),
            Numbers::Half => {
                let mut halves = Vec::with_capacity(2 * row.len());
                let written = vectors::halves(&row, &mut halves);
                written.map_err(|value| format!("has the number {value}, which the form `{self}` cannot hold"))?;
                vectors::widened(&halves).collect()
            }
            Numbers::Int8 => {
                let ranges = ranges.ok_or("has a data set without a text to calibrate `int8` on")?;
                ranges.quantised(&row).map(f32::from).collect()
            }
            Numbers::Binary => bits(0.0),
            Numbers::Hamming => bits(-1.0),
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn form(text: &str) -> StoredForm {
        text.parse().unwrap()
    }

    fn stored(text: &str, row: &[f32], normalises: bool) -> Vec<f32> {
        let form = form(text);
        let ranges = Ranges::of_rows([[-1.0, 0.0, 0.0], [1.0, 255.0, 0.0]].iter());
        let short = form.shortened(row, normalises).unwrap();
        form.stored(short, ranges.as_ref()).unwrap().into_owned()
    }

    #[test]
    fn forms_are_written_as_they_are_read_and_others_name_what_is_allowed() {
        for text in [
            "f16",
            "int8",
            "binary",
            "hamming",
            "256",
            "int8:64",
            "f16:64",
            "binary:256",
        ] {
            assert_eq!(form(text).to_string(), text);
        }
        assert_eq!(form("float:256").to_string(), "256");
        for (text, part) in [
            ("int4", "did you mean `int8`?"),
            ("", "binary:256"),
            ("float", "the form of the encoder itself"),
            ("0", "no valid number of dimensions"),
            ("int8:", "no valid number of dimensions"),
            ("int8:-3", "no valid number of dimensions"),
            ("256:int8", "an unknown form"),
            ("99999999999", "no valid number of dimensions"),
        ] {
            let refused = text.parse::<StoredForm>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }

    #[test]
    fn numbers_are_stored_as_the_form_says() {
        let row = [0.5, 100.6, -3.0];
        assert_eq!(stored("binary", &row, false), [1.0, 1.0, 0.0]);
        assert_eq!(stored("hamming", &row, false), [1.0, 1.0, -1.0]);
        assert_eq!(stored("f16", &row, false), [0.5, 100.625, -3.0]);
        // 191.25 and 100.6 whole steps above the start, less 128; the last dimension has no spread.
        assert_eq!(stored("int8", &row, false), [63.0, -28.0, -128.0]);
        assert_eq!(stored("2", &row, false), [0.5, 100.6]);
        assert_eq!(stored("2", &[3.0, 4.0, 9.0], true), [0.6, 0.8]);
        assert_eq!(
            stored("2", &[0.0, 0.0, 1.0], true),
            [0.0, 0.0],
            "a length of 0 is not scaled"
        );
        assert!(form("4").shortened(&row, false).unwrap_err().contains("3 dimensions"));
        let large = form("f16").stored(Cow::Borrowed(&[1e6]), None);
        assert!(large.unwrap_err().contains("1000000"));
        assert!(form("int8").stored(Cow::Borrowed(&[1.0]), None).is_err());
    }

    #[test]
    fn stored_numbers_are_those_of_mteb() {
        #[derive(serde::Deserialize)]
        struct Golden {
            vectors: Vec<Vec<f32>>,
            int8: Vec<Vec<f32>>,
            binary: Vec<Vec<f32>>,
            f16: Vec<Vec<f32>>,
        }
        let golden: Golden = serde_json::from_str(include_str!("../fixtures/stored_forms.json")).unwrap();
        let ranges = Ranges::of_rows(golden.vectors.iter());
        for (name, expected) in [("int8", &golden.int8), ("binary", &golden.binary), ("f16", &golden.f16)] {
            let stored = |row: &Vec<f32>| form(name).stored(row.into(), ranges.as_ref()).unwrap().into_owned();
            assert_eq!(
                &golden.vectors.iter().map(stored).collect::<Vec<_>>(),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn the_cosine_of_signs_is_the_hamming_distance() {
        let (a, b) = ([0.3, -0.2, 0.0, 5.0], [0.1, 0.2, 0.3, -1.0]);
        let (a, b) = (stored("hamming", &a, false), stored("hamming", &b, false));
        let dot: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
        // Three of four bits differ.
        assert_eq!(dot / 4.0, 1.0 - 2.0 * 3.0 / 4.0);
    }

    #[test]
    fn every_form_is_an_encoder_and_a_space_of_its_own() {
        let space = VectorSpace {
            digest: "d".into(),
            dimensions: 384,
            normalised: true,
            ..VectorSpace::default()
        };
        let source = Encoder {
            id: "e".into(),
            dimensions: 384,
            normalises: true,
            vector_space: Some(space.clone()),
            ..Encoder::default()
        };
        let texts = [
            "f16",
            "int8",
            "binary",
            "hamming",
            "256",
            "int8:256",
            "binary:256",
            "hamming:256",
        ];
        let mut digests: Vec<String> = texts.map(|text| form(text).space(&space, "data").digest).to_vec();
        digests.push(space.digest.clone());
        digests.push(form("int8").space(&space, "other data").digest);
        let distinct: std::collections::HashSet<&String> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
        let binary = form("binary");
        assert_eq!(binary.space(&space, "data"), binary.space(&space, "other data"));

        let binary = form("binary:256").encoder(&source).unwrap();
        assert_eq!(
            (binary.id.as_str(), binary.dimensions, binary.normalises),
            ("e+binary:256", 256, false)
        );
        assert_eq!(form("binary:256").bytes(256), 32);
        assert_eq!(form("binary:9").bytes(9), 2);
        assert!(form("384").encoder(&source).unwrap_err().contains("ask for fewer"));
        let trained = Encoder {
            matryoshka_dimensions: vec![128, 256],
            ..source
        };
        assert!(form("int8:256").encoder(&trained).is_ok());
        assert!(form("64").encoder(&trained).unwrap_err().contains("allowed: 128, 256"));
    }
}
