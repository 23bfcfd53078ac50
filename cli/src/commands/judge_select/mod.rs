//! `isomer transform judge-select`: judges against gold scores, paraphrasers by judge score, edit
//! distance and time (PTEB, steps 1 and 2). All generated texts are cached, so that an interrupted
//! run resumes.

mod data;
mod tables;

use std::{collections::HashMap, process::ExitCode, time::Instant};

use isomer_eval::selection::{self, GoldSet, JudgeResult, JudgeScore, ParaphraserResult, RatedPair, Report, Settings};
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        JudgeRequest, JudgeScale, OnFailure, TextItem, TransformSpec, TransformStreamRequest, judge_request::Pair,
        transform_stream_response::Event,
    },
};
use isomer_transformations::{Transformation, wire};

use super::{augment::prefetch_generator, judge, stdout_failure, transform::catalogue};
use crate::{
    args::{Format, JudgeSelectArgs},
    connect::{Connection, Session},
    exit::Failure,
    progress::{Display, Step},
};

pub(super) async fn run(session: &Session, args: JudgeSelectArgs) -> Result<ExitCode, Failure> {
    let transformation = catalogue::named("--transformation", &args.transformation)?;
    if !args.word_bins.is_sorted_by(|a, b| a < b) || args.word_bins.first() == Some(&0) {
        return Err(Failure::usage(
            "--word-bins: give rising numbers above 0, e.g. 10,20,50,100",
        ));
    }
    let locator = data::locator(session)?;
    let mut data = Vec::with_capacity(args.data.len());
    for name in &args.data {
        data.push(data::load(name, &args, &locator).await?);
    }
    let context = SelectionContext {
        connection: session.connect_with_prompts(args.prompts_dir.as_deref()).await?,
        display: Display::new(session.global.quiet),
        args: &args,
        settings: Settings {
            seed: args.seed,
            transformation: args.transformation.clone(),
            word_bins: args.word_bins.clone(),
        },
        transformation,
    };
    let mut judges = Vec::new();
    for id in &args.judges {
        judges.push(context.judge(id, &data).await?);
    }
    selection::rank_judges(&mut judges);
    let mut paraphrasers = Vec::new();
    for id in &args.generators {
        paraphrasers.push(context.paraphraser(id, &judges, &data).await?);
    }
    selection::rank_paraphrasers(&mut paraphrasers);
    let report = Report::new(context.settings, &data, judges, paraphrasers);
    let text = match session.global.format {
        Format::Json => serde_json::to_string_pretty(&report.json())
            .map_err(|error| Failure::dependency(format!("cannot write the report: {error}")))?,
        Format::Text => tables::render(&report),
    };
    let mut out = std::io::stdout().lock();
    std::io::Write::write_all(&mut out, format!("{text}\n").as_bytes()).map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// The data shared by the steps.
struct SelectionContext<'a> {
    connection: Connection,
    display: Display,
    args: &'a JudgeSelectArgs,
    settings: Settings,
    transformation: Transformation,
}

/// A paraphrase, in the order of its dataset's distinct texts.
struct Paraphrase {
    original: String,
    text: String,
    edit_distance: f64,
}

impl SelectionContext<'_> {
    fn request(&self, judge: &str) -> JudgeRequest {
        JudgeRequest {
            scale: JudgeScale::Similarity.into(),
            generator_id: judge.to_owned(),
            seed: Some(self.args.seed),
            max_attempts: Some(self.args.attempts),
            priority: Priority::Batch.into(),
            ..JudgeRequest::default()
        }
    }

    /// Step 1: a judge's ratings of the gold pairs.
    async fn judge(&self, id: &str, data: &[GoldSet]) -> Result<JudgeResult, Failure> {
        let mut result = JudgeResult::new(id);
        for set in data {
            let pairs = set.pairs.iter().zip(0..).map(|(pair, index): (_, usize)| Pair {
                id: index.to_string(),
                original: pair.first.clone(),
                transformed: pair.second.clone(),
            });
            let what = format!("{id} rates {}", set.name);
            let began = Instant::now();
            let rated = judge::rate(
                &self.connection,
                &self.request(id),
                pairs.collect(),
                &what,
                &self.display,
            )
            .await?;
            let fresh = set.pairs.len() as u64 - rated.summary.cache_hits.min(set.pairs.len() as u64);
            result.time(began.elapsed(), fresh);
            result.failures += rated.summary.unreadable + rated.summary.generator_errors;
            result.retried += rated.summary.recovered;
            let pairs: Vec<RatedPair> = set
                .pairs
                .iter()
                .zip(&rated.ratings)
                .map(|(pair, rating)| RatedPair {
                    words: pair.words(),
                    gold: pair.gold,
                    rating: rating.score,
                })
                .collect();
            result.add(&set.name, pairs, &self.settings);
        }
        Ok(result)
    }

    /// Step 2: a paraphraser's texts, rated by every judge, the chosen one first.
    async fn paraphraser(
        &self,
        id: &str,
        judges: &[JudgeResult],
        data: &[GoldSet],
    ) -> Result<ParaphraserResult, Failure> {
        prefetch_generator(&self.connection, id, &self.display).await?;
        let mut result = ParaphraserResult::new(id);
        let mut by_set = Vec::new();
        for set in data {
            by_set.push(self.paraphrase(id, set, &mut result).await?);
        }
        for judge in judges {
            let mut score = JudgeScore::new(&judge.id);
            for (set, paraphrases) in data.iter().zip(&by_set) {
                let pairs = paraphrases.iter().zip(0..).map(|(paraphrase, index): (_, usize)| Pair {
                    id: index.to_string(),
                    original: paraphrase.original.clone(),
                    transformed: paraphrase.text.clone(),
                });
                let what = format!("{} rates {id} on {}", judge.id, set.name);
                let request = self.request(&judge.id);
                let rated = judge::rate(&self.connection, &request, pairs.collect(), &what, &self.display).await?;
                let scores: Vec<f64> = rated.ratings.iter().filter_map(|rating| rating.score).collect();
                score.add(&set.name, scores, rated.ratings.len());
            }
            score.finish(self.args.seed);
            result.scores.push(score);
        }
        let distances: Vec<f64> = by_set
            .iter()
            .flatten()
            .map(|paraphrase| paraphrase.edit_distance)
            .collect();
        result.edit_distance = selection::estimate(&distances, self.args.seed);
        Ok(result)
    }

    /// Paraphrases of a dataset's distinct texts; those that failed every check are counted and
    /// omitted.
    async fn paraphrase(
        &self,
        id: &str,
        set: &GoldSet,
        result: &mut ParaphraserResult,
    ) -> Result<Vec<Paraphrase>, Failure> {
        let texts = set.distinct();
        let items = texts
            .iter()
            .zip(0..)
            .map(|((text, language), index): (_, usize)| TextItem {
                id: index.to_string(),
                text: (*text).to_owned(),
                language: language.map(str::to_owned),
            });
        let request = TransformStreamRequest {
            spec: Some(TransformSpec {
                transformation: Some(wire::message(&self.transformation)),
                generator_id: id.to_owned(),
                seed: Some(self.args.seed),
                max_attempts: Some(self.args.attempts),
                on_failure: OnFailure::Drop.into(),
                ..TransformSpec::default()
            }),
            items: items.collect(),
            priority: Priority::Batch.into(),
        };
        let began = Instant::now();
        let mut stream = catalogue::client(&self.connection)
            .transform_stream(request)
            .await?
            .into_inner();
        let mut made: HashMap<u32, Paraphrase> = HashMap::new();
        let (mut done, mut ended) = (0, false);
        while let Some(message) = stream.message().await? {
            match message.event {
                Some(Event::Result(answer)) => {
                    done += 1;
                    let original = texts.get(answer.index as usize).map_or("", |(text, _)| *text);
                    if let Some(measures) = answer.measures {
                        let paraphrase = Paraphrase {
                            original: original.to_owned(),
                            text: answer.text,
                            edit_distance: measures.edit_distance,
                        };
                        made.insert(answer.index, paraphrase);
                    }
                    let what = format!("{id} transforms {}", set.name);
                    let step = Step {
                        done,
                        total: Some(texts.len() as u64),
                        ..Step::default()
                    };
                    self.display.step(&what, &step);
                }
                Some(Event::End(end)) => {
                    ended = true;
                    let cached = end.summary.map_or(0, |summary| summary.cache_hits);
                    result.time(began.elapsed(), (texts.len() as u64).saturating_sub(cached));
                }
                None => {}
            }
        }
        if !ended {
            return Err(Failure::dependency(format!(
                "the service answered {done} of {} texts; run it again to resume from the cache",
                texts.len()
            )));
        }
        result.texts += texts.len();
        result.failed += texts.len() - made.len();
        let mut order: Vec<_> = made.into_iter().collect();
        order.sort_unstable_by_key(|(index, _)| *index);
        Ok(order.into_iter().map(|(_, paraphrase)| paraphrase).collect())
    }
}
