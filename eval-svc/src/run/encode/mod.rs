//! Stage: the texts of a data set are encoded, each distinct text once under each prompt.

pub(super) mod inputs;
pub(super) mod provider_versions;
pub(super) mod vectors;

use std::{
    collections::{BTreeMap, HashSet},
    time::Instant,
};

use isomer_proto::encoder::v1::Encoder;

use self::{
    inputs::Inputs,
    vectors::{StoredVectors, Vectors, calibration},
};
use crate::{
    encoding::{self, PromptedEncoder},
    run::{
        RunError,
        plan::{
            encoders::PlannedEncoder,
            table::{Key, Slot},
        },
        progress::Meter,
    },
    work::BatchLimits,
};

/// An encoder of the run, with the vectors that it has returned.
pub(crate) struct EncoderVectors<'a> {
    pub inputs: Inputs<'a>,
    /// Position of the encoder.
    pub position: usize,
    pub vectors: &'a mut Vectors,
    /// Progress of encoding.
    pub meter: &'a mut Meter,
}

impl<'a> EncoderVectors<'a> {
    pub(crate) fn planned(&self) -> &'a PlannedEncoder {
        &self.inputs.encoders[self.position]
    }

    /// The encoder whose service returns the vectors.
    pub(crate) fn served(&self) -> &'a Encoder {
        let encoders = self.inputs.encoders;
        &encoders[encoders.served(self.position)].encoder
    }

    /// The vectors for a data set, in the form of the encoder.
    pub(crate) fn stored(&self, table: usize) -> StoredVectors<'_> {
        StoredVectors::new(self.inputs.encoders, self.position, table, self.vectors)
    }

    /// Encodes the texts of a table that do not have a vector yet, prompt by prompt, and the texts
    /// on which a stored form is calibrated.
    pub(crate) async fn fill(&mut self, table: usize, texts: &[Key]) -> Result<(), RunError> {
        let Inputs {
            context,
            layout,
            encoders,
            progress,
            ..
        } = self.inputs;
        let (encoder, own_prompts) = (self.served(), &self.planned().prompts);
        let (vectors, meter) = (&mut *self.vectors, &mut *self.meter);
        let calibrating = calibration(layout, encoders, self.position, table);
        let mut missing: BTreeMap<Slot, Vec<u32>> = BTreeMap::new();
        let mut seen = HashSet::new();
        for key in texts.iter().chain(&calibrating).filter(|key| !vectors.contains(**key)) {
            if seen.insert(*key) {
                missing.entry(key.0).or_default().push(key.1);
            }
        }
        for (slot, missing) in missing {
            let texts: Vec<&str> = missing.iter().map(|text| layout.corpus.get(*text)).collect();
            let prompted = PromptedEncoder {
                work: &*context.work,
                encoder,
                prompt: own_prompts.sent(slot),
            };
            let batching = BatchLimits::of_encoders(&context.config);
            let encoded = encoding::encode(prompted, batching, &texts, |texts, usage| {
                progress.encoded(texts, usage);
                meter.add(texts, 0, Instant::now());
                progress.report(meter);
            });
            let encoded = encoded.await.map_err(|error| {
                RunError::encoding(&encoder.id, error, |index| {
                    format!("the text \"{}\"", excerpt(texts[index]))
                })
            })?;
            vectors.insert(&encoder.id, slot, &missing, encoded)?;
        }
        vectors.calibrate(encoders, self.position, table, &calibrating)
    }
}

pub(crate) fn excerpt(text: &str) -> String {
    if text.trim().is_empty() {
        return "(an empty text)".to_owned();
    }
    let mut excerpt: String = text.chars().take(60).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}
