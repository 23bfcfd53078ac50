//! `isomer embed --warm-up`: generates the variants of a query log in advance.

use std::{cmp::Reverse, collections::HashMap, process::ExitCode};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_encoder_client::retry;
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        AugmentationMode, AugmentationSpec, EncodeAugmentedRequest, EncodeAugmentedResponse, EstimateRequest,
        GenerationEstimate, TextItem, TransformSpec, augmentation_service_client::AugmentationServiceClient,
    },
};

use super::{check::plan, stdout_failure, transform::catalogue};
use isomer_transformations::wire;

use crate::{
    args::EmbedArgs,
    connect::{Connection, MAX_MESSAGE_BYTES},
    exit::Failure,
    input::Record,
    progress::{Display, Step},
    reasons::Reasons,
    table::Table,
};

/// Queries per request: few, so that progress is reported often, and a failed request loses little.
const QUERIES: usize = 16;
/// Maximum number of concurrent requests. They are bulk work, so interactive queries take
/// precedence.
const IN_FLIGHT: usize = 4;
/// Queries per request for an estimate.
const ESTIMATED: usize = 1024;

pub(super) async fn run(
    connection: &Connection,
    args: &EmbedArgs,
    records: &[Record],
    display: &Display,
) -> Result<ExitCode, Failure> {
    let log = Log::read(records, args.most_queries);
    let spec = AugmentationSpec {
        mode: AugmentationMode::Always.into(),
        priority: Priority::Batch.into(),
        ..args.augmentation.spec(connection, display).await?
    };
    let summary = log.summary();
    if args.plan {
        let estimates = estimates(connection, &spec, &log).await?;
        let text = format!("{summary}\n\n{}", as_text(&estimates));
        use std::io::Write;
        let written = std::io::stdout().lock().write_all(text.as_bytes());
        written.map_err(|error| stdout_failure(&error))?;
        return Ok(ExitCode::SUCCESS);
    }
    display.message(&summary);
    let variant_counts = make(connection, args, &spec, &log, display).await?;
    display.message(&format!(
        "{} of {} queries have every variant; {} variants were there, {} calls made others, {} are missing",
        variant_counts.whole,
        log.queries.len(),
        variant_counts.cached,
        variant_counts.calls,
        variant_counts.missing
    ));
    variant_counts.reasons.show(display);
    if variant_counts.whole == 0 && variant_counts.missing > 0 {
        let why = variant_counts.reasons.main();
        return Err(Failure::dependency(format!("no query has every variant: {why}")));
    }
    Ok(ExitCode::SUCCESS)
}

/// The distinct queries of a log, the most frequent first.
struct Log {
    queries: Vec<TextItem>,
    /// Number of queries in the log, including repetitions.
    all: usize,
    covered: usize,
    distinct: usize,
}

impl Log {
    fn read(records: &[Record], most: Option<u64>) -> Self {
        // Count and first position: the order is the same for the same log.
        let mut counts: HashMap<(&str, Option<&str>), (usize, usize)> = HashMap::new();
        let texts = records.iter().filter(|record| !record.text.trim().is_empty());
        for (place, record) in texts.enumerate() {
            let query = (record.text.as_str(), record.language.as_deref());
            counts.entry(query).or_insert((0, place)).0 += 1;
        }
        let mut ranked: Vec<_> = counts.into_iter().collect();
        ranked.sort_by_key(|(_, (count, first))| (Reverse(*count), *first));
        let distinct = ranked.len();
        let all = ranked.iter().map(|(_, (count, _))| count).sum();
        ranked.truncate(most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)));
        Self {
            covered: ranked.iter().map(|(_, (count, _))| count).sum(),
            queries: ranked
                .into_iter()
                .map(|((text, language), _)| TextItem {
                    text: text.to_owned(),
                    language: language.map(str::to_owned),
                    ..TextItem::default()
                })
                .collect(),
            all,
            distinct,
        }
    }

    fn summary(&self) -> String {
        let share = 100.0 * self.covered as f64 / self.all.max(1) as f64;
        format!(
            "{} queries, {} distinct; the {} most frequent are {share:.1} % of the log",
            self.all,
            self.distinct,
            self.queries.len()
        )
    }
}

/// Counts of generated variants.
#[derive(Default)]
struct VariantCounts {
    done: u64,
    whole: usize,
    cached: u64,
    calls: u64,
    missing: usize,
    reasons: Reasons,
}

impl VariantCounts {
    fn add(&mut self, answer: &EncodeAugmentedResponse) {
        let usage = answer.usage.unwrap_or_default();
        self.done += answer.used.len() as u64;
        self.cached += usage.cached_texts;
        self.calls += usage.generator_calls;
        for item in &answer.used {
            self.whole += usize::from(item.missing.is_empty());
            self.missing += item.missing.len();
            for missing in &item.missing {
                self.reasons.count(&missing.message);
            }
        }
    }
}

async fn make(
    connection: &Connection,
    args: &EmbedArgs,
    spec: &AugmentationSpec,
    log: &Log,
    display: &Display,
) -> Result<VariantCounts, Failure> {
    let client = AugmentationServiceClient::new(connection.channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let requests = log.queries.chunks(QUERIES).map(|queries| EncodeAugmentedRequest {
        spec: Some(spec.clone()),
        items: queries.to_vec(),
        encoder_id: args.model.clone(),
        prompt_name: args.prompt_name.clone().unwrap_or_default(),
        literal_prompt: args.prompt.clone(),
        dimensions: args.dimensions,
        ..EncodeAugmentedRequest::default()
    });
    let mut answers = stream::iter(requests)
        .map(|request| {
            let client = client.clone();
            retry::calls(move || {
                let (mut client, request) = (client.clone(), request.clone());
                async move { client.encode_augmented(request).await }
            })
        })
        .buffer_unordered(IN_FLIGHT);
    let mut variant_counts = VariantCounts::default();
    while let Some(answer) = answers.try_next().await? {
        variant_counts.add(answer.get_ref());
        display.step(
            "warm up",
            &Step {
                done: variant_counts.done,
                total: Some(log.queries.len() as u64),
                ..Step::default()
            },
        );
    }
    Ok(variant_counts)
}

/// The estimated usage of each source, by its transformation and generator.
async fn estimates(
    connection: &Connection,
    spec: &AugmentationSpec,
    log: &Log,
) -> Result<Vec<(String, GenerationEstimate)>, Failure> {
    let mut estimates = Vec::new();
    for (source, name) in spec.sources.iter().zip(names(spec)) {
        let mut total = GenerationEstimate::default();
        for queries in log.queries.chunks(ESTIMATED) {
            let request = EstimateRequest {
                spec: Some(TransformSpec {
                    transformation: source.transformation.clone(),
                    generator_id: source.generator_id.clone(),
                    seed: spec.seed,
                    max_attempts: spec.max_attempts,
                    sampling: spec.sampling,
                    ..TransformSpec::default()
                }),
                items: queries.to_vec(),
            };
            let answer = catalogue::client(connection).estimate(request).await?.into_inner();
            add(&mut total, answer.estimate.unwrap_or_default());
        }
        estimates.push((name, total));
    }
    Ok(estimates)
}

fn names(spec: &AugmentationSpec) -> impl Iterator<Item = String> + '_ {
    spec.sources.iter().map(|source| {
        let name = source
            .transformation
            .as_ref()
            .map(|wanted| wire::read(wanted).name)
            .unwrap_or_default();
        match source.generator_id.as_str() {
            "" | "none" => name,
            generator => format!("{name} by {generator}"),
        }
    })
}

fn add(total: &mut GenerationEstimate, more: GenerationEstimate) {
    total.texts += more.texts;
    total.cached_texts += more.cached_texts;
    total.texts_by_rule += more.texts_by_rule;
    total.calls += more.calls;
    total.most_calls += more.most_calls;
    total.prompt_tokens += more.prompt_tokens;
    total.most_prompt_tokens += more.most_prompt_tokens;
    total.generated_tokens += more.generated_tokens;
    total.most_generated_tokens += more.most_generated_tokens;
    let sum = |a: Option<f64>, b: Option<f64>| Some(a.unwrap_or_default() + b?);
    total.cost = sum(total.cost, more.cost);
    total.most_cost = sum(total.most_cost, more.most_cost);
    total.generator_id = more.generator_id;
}

fn as_text(estimates: &[(String, GenerationEstimate)]) -> String {
    let rows = estimates.iter().map(|(name, one)| (name.as_str(), one));
    let summary: Table = plan::estimates(rows).words("price", |(_, one)| plan::price(one)).into();
    format!("{summary}\n\n{}", plan::NOTE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(text: &str, language: Option<&str>) -> Record {
        Record {
            text: text.to_owned(),
            id: None,
            language: language.map(str::to_owned),
        }
    }

    #[test]
    fn the_most_frequent_queries_come_first_and_equal_ones_once() {
        let texts = ["b", "a", "b", "c", " ", "a", "b"];
        let records: Vec<Record> = texts.iter().map(|text| record(text, None)).collect();
        let queries = |log: &Log| log.queries.iter().map(|item| item.text.clone()).collect::<Vec<_>>();
        let whole = Log::read(&records, None);
        assert_eq!(queries(&whole), ["b", "a", "c"]);
        let most = Log::read(&records, Some(2));
        assert_eq!(queries(&most), ["b", "a"]);
        assert_eq!(
            most.summary(),
            "6 queries, 3 distinct; the 2 most frequent are 83.3 % of the log"
        );
        // A text in two languages counts as two queries, because their variants may differ.
        let both = Log::read(&[record("a", Some("de")), record("a", Some("en"))], None);
        assert_eq!(both.queries.len(), 2);
        assert_eq!(
            Log::read(&[], None).summary(),
            "0 queries, 0 distinct; the 0 most frequent are 0.0 % of the log"
        );
    }
}
