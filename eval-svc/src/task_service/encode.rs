//! Encodes the texts of a dataset.

use std::collections::HashMap;

use isomer_proto::{
    common::v1::{Usage, VectorSpace},
    encoder::v1::Encoder,
    eval::v1::{AugmentationReport, DatasetAugmentation},
};
use isomer_service_kit::Fault;
use isomer_usage::sum;
use ndarray::Array2;

use super::text_of;
use crate::{
    augmented::{self, AugmentationContext},
    clients::EvalClients,
    compute::Compute,
    config::EvalConfig,
    dataset::Dataset,
    encoding::{self, EncodingError, PromptedEncoder},
    metric::{Similarity, vector_matrix},
    prompts::{DatasetPrompts, Part, RequestPrompt, same_but_prompt},
    truncation::CutCount,
    work::{BatchLimits, LocalEngine},
};

/// A dataset's vectors.
pub(super) struct DatasetVectors {
    /// One row per text of the dataset.
    pub(super) vectors: Array2<f32>,
    /// The similarity with which the encoder's vectors are compared.
    pub(super) similarity: Similarity,
    pub(super) vector_space: Option<VectorSpace>,
    pub(super) usage: Usage,
    /// Distinct texts that the encoder truncated.
    pub(super) cut: CutCount,
    /// The report on augmentation, if it was requested.
    pub(super) augmentation: Option<AugmentationReport>,
    /// Whether each text of the dataset has a variant.
    pub(super) varied: Vec<bool>,
}

/// Distinct texts, each with the position in the dataset of its first occurrence, for messages. A
/// text in two languages counts as two if the language matters.
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

/// Texts that are encoded in the same way.
struct Group<'a> {
    augmented: bool,
    prompt: Option<&'a RequestPrompt>,
    distinct: Distinct<'a>,
}

pub(super) async fn describe(clients: &EvalClients, encoder_id: &str) -> Result<Encoder, Fault> {
    encoding::describe(&clients.encoder, encoder_id)
        .await
        .map_err(|error| fault(error, |index| format!("text {index}")))
}

/// No vectors, for a search without them.
pub(super) fn nothing() -> DatasetVectors {
    DatasetVectors {
        vectors: Array2::zeros((0, 0)),
        similarity: Similarity::default(),
        vector_space: None,
        usage: Usage::default(),
        cut: CutCount::default(),
        augmentation: None,
        varied: Vec::new(),
    }
}

/// The texts of a dataset, the encoder, and the prompts of the texts.
#[derive(Clone, Copy)]
pub(super) struct EncodingTask<'a> {
    pub(super) config: &'a EvalConfig,
    pub(super) clients: &'a EvalClients,
    pub(super) encoder: &'a Encoder,
    pub(super) prompts: &'a DatasetPrompts,
    pub(super) dataset: &'a Dataset,
}

/// Encodes the texts of a dataset with their prompts; equal texts with the same prompt only once.
pub(super) async fn texts(
    task: EncodingTask<'_>,
    augmentation: Option<&DatasetAugmentation>,
) -> Result<DatasetVectors, Fault> {
    let (config, clients, encoder, dataset) = (task.config, task.clients, task.encoder, task.dataset);
    let queries_only = augmentation.is_some_and(|wanted| wanted.queries_only);
    if queries_only && dataset.texts().iter().all(|text| text.transformable) {
        let message = format!("{} has no documents in addition to its queries", dataset.task());
        return Err(Fault::invalid("dataset.augmentation.queries_only", message)
            .hint("leave it out, or choose a retrieval or reranking task"));
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut rows = Vec::with_capacity(dataset.texts().len());
    for (index, text) in dataset.texts().iter().enumerate() {
        let augmented = augmentation.is_some() && (text.transformable || !queries_only);
        // The language matters only for texts that are augmented.
        let language = dataset.language_of(text.role).filter(|_| augmented);
        let prompt = task
            .prompts
            .of(Part::of(dataset.task(), text.role))
            .map(|chosen| &chosen.sent);
        let position = groups
            .iter()
            .position(|group| group.augmented == augmented && group.prompt == prompt);
        let position = position.unwrap_or_else(|| {
            groups.push(Group {
                augmented,
                prompt,
                distinct: Distinct::default(),
            });
            groups.len() - 1
        });
        rows.push((position, groups[position].distinct.add(index, &text.text, language)));
    }
    let total: usize = groups.iter().map(|group| group.distinct.texts.len()).sum();
    let mut done = 0;
    let mut record_progress = |texts: u64, _: &Usage| {
        done += texts;
        tracing::info!(dataset = dataset.name(), encoder = encoder.id, done, total, "encoding");
    };
    let mut encoded = Vec::with_capacity(groups.len());
    let mut report: Option<AugmentationReport> = None;
    let mut variants: Vec<Vec<bool>> = Vec::with_capacity(groups.len());
    for group in &groups {
        let distinct = &group.distinct;
        let Some(wanted) = augmentation.filter(|_| group.augmented) else {
            let batching = BatchLimits::of_encoders(config);
            let prompted = PromptedEncoder {
                work: &LocalEngine::new(clients.clone(), batching, Compute::default()),
                encoder,
                prompt: group.prompt,
            };
            let plain = encoding::encode(prompted, batching, &distinct.texts, &mut record_progress)
                .await
                .map_err(|error| fault(error, |index| text_of(dataset, distinct.firsts[index])))?;
            encoded.push(plain);
            variants.push(vec![false; distinct.texts.len()]);
            continue;
        };
        let context = AugmentationContext {
            transform: &clients.transform,
            config,
            encoder,
            languages: &distinct.languages,
            wanted,
            prompt: group.prompt,
        };
        let (pooled, own, varied) = context
            .encode(&distinct.texts, &mut record_progress)
            .await
            .map_err(|error| augmented::fault(error, |index| text_of(dataset, distinct.firsts[index])))?;
        encoded.push(pooled);
        variants.push(varied);
        match &mut report {
            None => report = Some(own),
            Some(all) => augmented::merge(all, own),
        }
    }
    if let Some(report) = &mut report {
        let plain = groups.iter().filter(|group| !group.augmented);
        report.plain_texts = plain.map(|group| group.distinct.texts.len() as u64).sum();
    }
    one_space_but_for_prompts(&groups, &encoded)?;
    let cols = encoded.iter().map(|one| one.cols).max().unwrap_or_default();
    let mut data = Vec::with_capacity(rows.len() * cols);
    for (group, number) in &rows {
        let own = &encoded[*group];
        if own.cols != cols {
            return Err(unusable(&format!(
                "vectors of {} and of {cols} columns, which cannot be compared",
                own.cols
            )));
        }
        data.extend_from_slice(&own.data[number * cols..(number + 1) * cols]);
    }
    let usage = sum::total(encoded.iter().map(|one| &one.usage));
    // The queries come first; if only some texts are augmented, the queries' vector space shows it.
    let said = groups
        .iter()
        .position(|group| group.augmented == report.is_some())
        .and_then(|position| encoded[position].space.clone());
    Ok(DatasetVectors {
        vectors: vector_matrix(rows.len(), cols, data).map_err(|error| unusable(&error.to_string()))?,
        similarity: encoding::similarity(encoder),
        vector_space: said,
        usage,
        cut: encoded.iter().flat_map(|one| one.cut.iter().copied()).collect(),
        augmentation: report,
        varied: rows.iter().map(|(group, number)| variants[*group][*number]).collect(),
    })
}

/// Refuses vectors whose spaces differ in more than the prompt. A request may ask for augmented
/// vectors together with plain ones.
fn one_space_but_for_prompts(groups: &[Group<'_>], encoded: &[encoding::EncodedTexts]) -> Result<(), Fault> {
    for (i, first) in groups.iter().enumerate() {
        for (j, second) in groups.iter().enumerate().skip(i + 1) {
            let spaces = (encoded[i].space.as_ref(), encoded[j].space.as_ref());
            if first.augmented == second.augmented
                && let (Some(one), Some(other)) = spaces
                && !same_but_prompt(one, other)
            {
                return Err(unusable(&format!(
                    "the vector spaces of two prompts, `{}` and `{}`, differ in more than the prompt; their vectors cannot be \
                     compared",
                    one.digest, other.digest
                )));
            }
        }
    }
    Ok(())
}

fn unusable(problem: &str) -> Fault {
    Fault::precondition("BAD_VECTORS", format!("the encoder's answer cannot be used: {problem}"))
}

/// A fault of the encoder, marked as such: its field belongs to the encoder's request, not to the
/// caller's.
fn fault(error: EncodingError, text: impl FnOnce(usize) -> String) -> Fault {
    match error {
        EncodingError::Refused(fault) => Fault {
            message: format!("the encoder answered: {}", fault.without_field()),
            field: Some("dataset.encoder_id".to_owned()),
            hint: None,
            ..*fault
        },
        EncodingError::Unusable(problem) => unusable(&problem),
        EncodingError::Text { index, message } => unusable(&format!("{} could not be encoded: {message}", text(index))),
    }
}
