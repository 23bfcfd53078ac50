//! Stage: the texts of a data set are encoded, each distinct text once under each prompt.

pub(super) mod inputs;
pub(super) mod vectors;

use std::{
    collections::{BTreeMap, HashSet},
    time::Instant,
};

use self::{
    inputs::Inputs,
    vectors::{Vectors, calibration},
};
use crate::{
    encoding,
    run::{
        RunError,
        plan::table::{Key, Slot},
        progress::Meter,
    },
    work::Batching,
};

/// Encodes the texts of a table that do not have a vector yet, prompt by prompt, and the texts on
/// which a stored form is calibrated.
pub(crate) async fn fill(
    inputs: Inputs<'_>,
    position: usize,
    table: usize,
    texts: &[Key],
    vectors: &mut Vectors,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let (context, plan, progress) = (inputs.context, inputs.plan, inputs.progress);
    let (encoder, prompting) = (&plan.encoders[plan.served(position)], &plan.prompting[position]);
    let calibrating = calibration(plan, position, table);
    let mut lacking: BTreeMap<Slot, Vec<u32>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for key in texts.iter().chain(&calibrating).filter(|key| !vectors.contains(**key)) {
        if seen.insert(*key) {
            lacking.entry(key.0).or_default().push(key.1);
        }
    }
    for (slot, lacking) in lacking {
        let texts: Vec<&str> = lacking.iter().map(|text| plan.corpus.get(*text)).collect();
        let encoded = encoding::encode(
            &*context.work,
            Batching::of_encoders(&context.config),
            encoder,
            prompting.sent(slot),
            &texts,
            |texts, usage| {
                progress.count(|counters| {
                    counters.texts_encoded += texts;
                    counters.tokens_encoded = counters.tokens_encoded.saturating_add(usage.tokens);
                    counters.cost_nano_usd = counters.cost_nano_usd.saturating_add(usage.cost_nano_usd);
                });
                meter.add(texts, 0, Instant::now());
                progress.tell(meter);
            },
        )
        .await
        .map_err(|error| {
            RunError::encoding(&encoder.id, error, |index| {
                format!("the text \"{}\"", excerpt(texts[index]))
            })
        })?;
        vectors.insert(&encoder.id, slot, &lacking, encoded)?;
    }
    vectors.calibrate(plan, position, table, &calibrating)
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
