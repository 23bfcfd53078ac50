//! The texts of a dataset through an encoder.

use std::collections::HashMap;

use isomer_proto::{
    common::v1::{Usage, VectorSpace},
    eval::v1::{AugmentationReport, DatasetAugmentation},
};
use isomer_service_kit::Fault;

use super::text_of;
use crate::{
    augmented::{self, Augmenting},
    config::EvalConfig,
    dataset::Dataset,
    encoding::{self, EncodingError},
    metric::{Similarity, VectorMatrix},
    run::EvalClients,
};

/// A dataset's vectors.
pub(super) struct Encoded {
    /// One row a text of the dataset.
    pub(super) vectors: VectorMatrix,
    /// How the encoder's vectors are meant to be compared.
    pub(super) similarity: Similarity,
    pub(super) vector_space: Option<VectorSpace>,
    pub(super) usage: Usage,
    /// What augmentation came to, where it was asked for.
    pub(super) augmentation: Option<AugmentationReport>,
}

/// Distinct texts, each with the position in the dataset of its first occurrence, for messages. A text in two languages
/// counts as two, where the language matters.
#[derive(Debug, Default)]
struct Distinct<'a> {
    numbers: HashMap<(&'a str, Option<&'a str>), usize>,
    texts: Vec<&'a str>,
    languages: Vec<Option<&'a str>>,
    firsts: Vec<usize>,
}

impl<'a> Distinct<'a> {
    fn add(&mut self, index: usize, text: &'a str, language: Option<&'a str>) -> usize {
        *self.numbers.entry((text, language)).or_insert_with(|| {
            self.texts.push(text);
            self.languages.push(language);
            self.firsts.push(index);
            self.texts.len() - 1
        })
    }
}

/// Encodes the texts of a dataset, equal ones once.
pub(super) async fn texts(
    config: &EvalConfig,
    clients: &EvalClients,
    encoder_id: &str,
    augmentation: Option<&DatasetAugmentation>,
    dataset: &Dataset,
) -> Result<Encoded, Fault> {
    let queries_only = augmentation.is_some_and(|wanted| wanted.queries_only);
    if queries_only && dataset.texts().iter().all(|text| text.transformable) {
        let message = format!("{} has no documents beside its queries", dataset.task());
        return Err(Fault::invalid("dataset.augmentation.queries_only", message)
            .mend("leave it out, or choose a retrieval or reranking task"));
    }
    let encoder = encoding::describe(&clients.encoder, encoder_id)
        .await
        .map_err(|error| fault(error, |index| format!("text {index}")))?;
    let (mut plain, mut augmented) = (Distinct::default(), Distinct::default());
    let mut rows = Vec::with_capacity(dataset.texts().len());
    for (index, text) in dataset.texts().iter().enumerate() {
        let by_augmentation = augmentation.is_some() && (text.transformable || !queries_only);
        let number = if by_augmentation {
            augmented.add(index, &text.text, dataset.language_of(text.role))
        } else {
            plain.add(index, &text.text, None)
        };
        rows.push((by_augmentation, number));
    }
    let total = plain.texts.len() + augmented.texts.len();
    let mut done = 0;
    let mut told = |texts: u64, _: &Usage| {
        done += texts;
        tracing::info!(dataset = dataset.name(), encoder = encoder.id, done, total, "encoding");
    };
    let own = encoding::encode(&clients.encoder, config, &encoder, &plain.texts, &mut told)
        .await
        .map_err(|error| fault(error, |index| text_of(dataset, plain.firsts[index])))?;
    let (pooled, report) = match augmentation {
        None => (encoding::Encoded::default(), None),
        Some(wanted) => {
            let augmenting = Augmenting {
                transform: &clients.transform,
                config,
                encoder: &encoder,
                languages: &augmented.languages,
                wanted,
            };
            let (pooled, mut report) = augmenting
                .encode(&augmented.texts, &mut told)
                .await
                .map_err(|error| augmented::fault(error, |index| text_of(dataset, augmented.firsts[index])))?;
            report.plain_texts = plain.texts.len() as u64;
            (pooled, Some(report))
        }
    };
    let cols = own.cols.max(pooled.cols);
    let mut data = Vec::with_capacity(rows.len() * cols);
    for (by_augmentation, number) in &rows {
        let set = if *by_augmentation { &pooled } else { &own };
        data.extend_from_slice(&set.data[number * cols..(number + 1) * cols]);
    }
    let mut usage = own.usage;
    usage.texts += pooled.usage.texts;
    usage.tokens += pooled.usage.tokens;
    usage.cached_texts += pooled.usage.cached_texts;
    usage.generated_tokens += pooled.usage.generated_tokens;
    usage.generator_calls += pooled.usage.generator_calls;
    usage.tokens_estimated |= pooled.usage.tokens_estimated;
    usage.cost_nano_usd += pooled.usage.cost_nano_usd;
    Ok(Encoded {
        vectors: VectorMatrix::new(rows.len(), cols, data).map_err(|error| unusable(&error.to_string()))?,
        similarity: encoding::similarity(&encoder),
        vector_space: if report.is_some() { pooled.space } else { own.space },
        usage,
        augmentation: report,
    })
}

fn unusable(problem: &str) -> Fault {
    Fault::precondition("BAD_VECTORS", format!("the encoder's answer cannot be used: {problem}"))
}

/// A fault of the encoder, said as such: its field is of its request, not of ours.
fn fault(error: EncodingError, text: impl FnOnce(usize) -> String) -> Fault {
    match error {
        EncodingError::Refused(fault) => Fault {
            message: format!("the encoder answered: {fault}"),
            field: Some("dataset.encoder_id".to_owned()),
            mend: None,
            ..*fault
        },
        EncodingError::Unusable(problem) => unusable(&problem),
        EncodingError::Text { index, message } => unusable(&format!("{} could not be encoded: {message}", text(index))),
    }
}
