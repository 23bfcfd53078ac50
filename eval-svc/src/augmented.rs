//! Encodes texts through the augmentation service (GASE), as [`crate::encoding`] does for plain
//! vectors.

use futures::{StreamExt, TryStreamExt, stream};
use isomer_encoder_client::{batches, retry};
use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{EncodeResponse, Encoder},
    eval::v1::{AugmentationReport, DatasetAugmentation},
    transform::v1::{
        EncodeAugmentedRequest, EncodeAugmentedResponse, TextItem, Variants,
        augmentation_service_client::AugmentationServiceClient,
    },
};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_usage::{report::ReportingChannel, sum};

use crate::{
    config::EvalConfig,
    encoding::{self, EncodedTexts, EncodingError},
    prompts::{self, RequestPrompt},
};

/// Texts per request: generation is slow, and progress is reported per request.
const TEXTS: usize = 64;

/// The inputs for encoding with augmentation.
pub(crate) struct AugmentationContext<'a> {
    pub(crate) transform: &'a GrpcChannel,
    pub(crate) config: &'a EvalConfig,
    pub(crate) encoder: &'a Encoder,
    /// Language of each text, if the dataset names it: the two sides of a pair may differ.
    pub(crate) languages: &'a [Option<&'a str>],
    pub(crate) wanted: &'a DatasetAugmentation,
    /// Prompt of originals and variants; `None`: the encoder's default.
    pub(crate) prompt: Option<&'a RequestPrompt>,
}

impl AugmentationContext<'_> {
    /// Encodes texts, which should be distinct, with several requests in flight. `done` is called
    /// with the number of texts and the usage of each completed request. The last part of the
    /// result states for each text whether it has a variant.
    ///
    /// # Errors
    /// As [`encoding::encode`]; also if a source returned no variant at all, because the score
    /// would be that of plain vectors.
    pub(crate) async fn encode(
        &self,
        texts: &[&str],
        mut done: impl FnMut(u64, &Usage),
    ) -> Result<(EncodedTexts, AugmentationReport, Vec<bool>), EncodingError> {
        let most = self.config.encode_batch_items.min(TEXTS);
        let mut answers = stream::iter(batches::batches(texts, most))
            .map(|batch| async move { Ok((self.ask(texts, &batch).await?, batch)) })
            .buffered(self.config.encode_in_flight);
        let mut encoded = EncodedTexts::default();
        let mut report = AugmentationReport {
            augmented_texts: texts.len() as u64,
            ..AugmentationReport::default()
        };
        let mut complaint = None;
        let mut varied = vec![false; texts.len()];
        while let Some((answer, batch)) = answers.try_next().await? {
            let EncodeAugmentedResponse {
                embeddings,
                used,
                vector_space,
                usage,
                errors,
                truncated,
                ..
            } = answer;
            for item in &used {
                count(&mut report, item, &mut complaint);
                let text = batch.get(item.index as usize).and_then(|text| varied.get_mut(*text));
                if let Some(varied) = text {
                    *varied = !item.sources.is_empty();
                }
            }
            let plain = EncodeResponse {
                embeddings,
                vector_space,
                errors,
                truncated,
                ..EncodeResponse::default()
            };
            if let Some(prompt) = self.prompt {
                // Pooled vectors are in another vector space than the one that the encoder
                // described.
                prompts::check(None, plain.vector_space.as_ref(), prompt).map_err(EncodingError::Unusable)?;
            }
            encoded.take(texts.len(), &plain, &batch)?;
            let usage = usage.unwrap_or_default();
            sum::add(&mut encoded.usage, &usage);
            done(batch.len() as u64, &usage);
        }
        let barren = report.variants.iter().position(|count| *count == 0);
        match barren.filter(|_| !texts.is_empty()) {
            Some(source) => {
                let fault = Fault::precondition(
                    "NO_VARIANTS",
                    format!(
                        "source {source} gave no variant of any text: {}",
                        complaint.unwrap_or_else(|| "it was never asked".to_owned())
                    ),
                );
                Err(EncodingError::Refused(Box::new(
                    fault.hint("fix the generator, raise the budget, or leave the source out"),
                )))
            }
            None => Ok((encoded, report, varied)),
        }
    }

    async fn ask(&self, texts: &[&str], batch: &[usize]) -> Result<EncodeAugmentedResponse, EncodingError> {
        let items = batch.iter().map(|&index| TextItem {
            // The id is empty, so that a draw depends on the text and not on its position.
            id: String::new(),
            text: texts[index].to_owned(),
            language: self.languages.get(index).copied().flatten().map(str::to_owned),
        });
        let wanted = self.wanted;
        let (prompt_name, literal_prompt) = match self.prompt {
            Some(RequestPrompt::Named { name, .. }) => (name.clone(), None),
            Some(RequestPrompt::Literal(text)) => (String::new(), Some(text.clone())),
            None => (String::new(), None),
        };
        let request = EncodeAugmentedRequest {
            spec: wanted.spec.clone(),
            items: items.collect(),
            encoder_id: self.encoder.id.clone(),
            pooling: wanted.pooling,
            original_weight: wanted.original_weight,
            normalise_before: wanted.normalise_before,
            normalise_after: wanted.normalise_after,
            prompt_name,
            literal_prompt,
            ..EncodeAugmentedRequest::default()
        };
        let answer = retry::calls(|| {
            let mut client = AugmentationServiceClient::new(ReportingChannel(self.transform.clone()))
                .max_decoding_message_size(isomer_service_kit::limits::INNER_MESSAGE);
            let request = request.clone();
            async move { client.encode_augmented(request).await }
        });
        answer
            .await
            .map(tonic::Response::into_inner)
            .map_err(|status| encoding::refused(&status))
    }
}

/// Merges the augmentation report of other texts.
pub(crate) fn merge(all: &mut AugmentationReport, more: AugmentationReport) {
    all.augmented_texts += more.augmented_texts;
    all.tokens_estimated |= more.tokens_estimated;
    for (counts, own) in [
        (&mut all.variants, more.variants),
        (&mut all.missing, more.missing),
        (&mut all.generated_tokens, more.generated_tokens),
        (&mut all.prompt_tokens, more.prompt_tokens),
        (&mut all.cached, more.cached),
    ] {
        counts.resize(counts.len().max(own.len()), 0);
        for (count, own) in counts.iter_mut().zip(own) {
            *count += own;
        }
    }
    for (reason, count) in more.missing_reasons {
        *all.missing_reasons.entry(reason).or_default() += count;
    }
}

fn count(report: &mut AugmentationReport, item: &Variants, complaint: &mut Option<String>) {
    let highest = item
        .sources
        .iter()
        .chain(item.missing.iter().map(|missing| &missing.source))
        .max();
    let sources = highest.map_or(0, |source| *source as usize + 1);
    for counts in [
        &mut report.variants,
        &mut report.missing,
        &mut report.generated_tokens,
        &mut report.prompt_tokens,
        &mut report.cached,
    ] {
        counts.resize(counts.len().max(sources), 0);
    }
    for source in &item.sources {
        report.variants[*source as usize] += 1;
    }
    for (source, variant) in item.sources.iter().zip(&item.variants) {
        let source = *source as usize;
        for call in &variant.calls {
            report.generated_tokens[source] += call.generated_tokens;
            report.prompt_tokens[source] += call.prompt_tokens;
            report.tokens_estimated |= call.tokens_estimated;
        }
        let hit = variant.provenance.as_ref().is_some_and(|own| own.cache_hit);
        report.cached[source] += u64::from(hit);
    }
    for missing in &item.missing {
        report.missing[missing.source as usize] += 1;
        let reason = missing.reason().as_str_name().trim_start_matches("MISSING_REASON_");
        *report.missing_reasons.entry(reason.to_lowercase()).or_default() += 1;
        complaint.get_or_insert_with(|| missing.message.clone());
    }
}

/// A fault of the augmentation service, with its fields mapped to the caller's request.
pub(crate) fn fault(error: EncodingError, text: impl FnOnce(usize) -> String) -> Fault {
    let unusable = |problem: String| {
        let message = format!("the augmentation service's answer cannot be used: {problem}");
        Fault::precondition("BAD_VECTORS", message)
    };
    match error {
        EncodingError::Refused(fault) => Fault {
            field: fault.field.as_ref().map(|field| match field.as_str() {
                "encoder_id" => "dataset.encoder_id".to_owned(),
                field => format!("dataset.augmentation.{field}"),
            }),
            ..*fault
        },
        EncodingError::Unusable(problem) => unusable(problem),
        EncodingError::Text { index, message } => unusable(format!("{} could not be encoded: {message}", text(index))),
    }
}
