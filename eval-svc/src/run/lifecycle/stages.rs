//! The stages of a round: transform, encode, score, separate, judge and decide.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use jiff::Timestamp;

use super::live::LiveRun;
use crate::{
    gate::BoundGate,
    report::Attempts,
    run::{
        RunContext, RunError, decide,
        decide::{attempts, results::RunResults},
        encode::{EncoderVectors, inputs::Inputs, provider_versions::ProviderVersions},
        judge,
        plan::{JudgePlan, StagePlans, rounds::Round, transform::TransformPlan},
        progress::Meter,
        record::{RecordedLook, Stage},
        score::{EncodingState, RoundSets, measure},
        separate,
        separate::SeparationEntry,
        transform::{self, copies, sender::RequestSender},
    },
};

/// Runs the stages of the rounds of a run.
pub(crate) struct Stages<'a> {
    pub context: &'a RunContext,
    pub live: &'a LiveRun,
    pub versions: &'a ProviderVersions,
    transform: TransformPlan,
    /// Absent after its stage.
    judge: Option<JudgePlan>,
    pub gate: Option<Arc<BoundGate>>,
    /// Durations of the stages, in seconds.
    pub durations: BTreeMap<String, f64>,
    /// Progress of the transform stage.
    meter: Meter,
    /// The attempts of the judged encoders, once the first look was made.
    attempts: Option<Vec<Attempts>>,
}

impl<'a> Stages<'a> {
    pub(crate) fn new(
        context: &'a RunContext,
        live: &'a LiveRun,
        versions: &'a ProviderVersions,
        plans: StagePlans,
    ) -> Self {
        Self {
            context,
            live,
            versions,
            transform: plans.transform,
            judge: plans.judge,
            gate: plans.gate.map(Arc::new),
            durations: BTreeMap::new(),
            meter: Meter::new(Stage::Transform, 0, Instant::now()),
            attempts: None,
        }
    }

    /// Transforms, encodes and scores the texts that a round adds, and compares their rewrites with
    /// changes of meaning while the vectors of an encoder are in memory. Unless it is the `last`
    /// round, the vectors of the originals are kept.
    pub(crate) async fn run(
        &mut self,
        results: &mut RunResults,
        state: &mut EncodingState,
        round: &Round,
        last: bool,
    ) -> Result<(), RunError> {
        let RunResults {
            layout,
            encoders,
            text_results,
            scores,
            drifts,
            separations,
            ..
        } = results;
        let clock = Instant::now();
        let mut sender = RequestSender {
            context: self.context,
            plan: &self.transform,
            progress: &self.live.progress,
            meter: &mut self.meter,
        };
        transform::transform(&mut sender, layout, round, text_results).await?;
        copies::copy(&mut sender, layout, round, text_results).await?;
        let middle = Instant::now();
        let inputs = Inputs {
            context: self.context,
            layout,
            encoders,
            text_results,
            progress: &self.live.progress,
        };
        let sets = RoundSets::new(inputs, round, scores, &mut state.meters);
        let known = separations.iter().map(SeparationEntry::set).collect();
        let triple_sets = separate::sets(layout, text_results, round, &known);
        for position in 0..encoders.len() {
            let mut vectors = state.take_vectors(encoders, position);
            let mut encoder = EncoderVectors {
                inputs,
                position,
                vectors: &mut vectors,
                meter: &mut state.meters.encode,
            };
            let own = measure::measure(&mut encoder, &sets, &mut state.meters.score).await?;
            scores.extend(own.scores);
            drifts.extend(own.drifts);
            if encoders.search(position).is_none() {
                separations.extend(separate::measure(&mut encoder, &triple_sets).await?);
            }
            state.keep_vectors(inputs, position, last, vectors);
        }
        // The same order as after a single round.
        scores.sort_by_key(|one| (one.encoder, one.table, one.variant));
        drifts.sort_by_key(|one| (one.encoder, one.table, one.transformation, one.seed));
        separations.sort_by_key(SeparationEntry::position);
        let spent = [("transform", middle - clock), ("encode_and_score", middle.elapsed())];
        for (stage, time) in spent {
            *self.durations.entry(stage.to_owned()).or_default() += time.as_secs_f64();
        }
        Ok(())
    }

    /// Runs the judge's stage, if there is a judge.
    pub(crate) async fn judge(&mut self, results: &mut RunResults) -> Result<(), RunError> {
        let Some(judge) = self.judge.take() else {
            return Ok(());
        };
        let clock = Instant::now();
        let inputs = Inputs {
            context: self.context,
            layout: &results.layout,
            encoders: &results.encoders,
            text_results: &results.text_results,
            progress: &self.live.progress,
        };
        results.ratings = Some(judge::judge(inputs, judge).await?);
        self.durations.insert("judge".to_owned(), clock.elapsed().as_secs_f64());
        Ok(())
    }

    /// Makes a look and records it, or uses the look recorded by an earlier leader of the run. It
    /// runs on a thread of runs, since bounds over resampled items take long.
    pub(crate) async fn look(
        &mut self,
        mut results: RunResults,
        mut round: Round,
        shared_by: usize,
    ) -> Result<RunResults, RunError> {
        let Some(gate) = self.gate.clone() else {
            return Ok(results);
        };
        let (number, inputs) = (round.number, decide::inputs(&round, &results.scores));
        if let Some(look) = self.live.look(number).await? {
            let report = decide::recorded(look, number, &inputs)?;
            let attempts = report.encoders.iter().filter_map(|own| own.attempts.clone());
            self.attempts.get_or_insert_with(|| attempts.collect());
            results.verdicts = Some(report);
            return Ok(results);
        }
        let attempts = match self.attempts.take() {
            Some(attempts) => attempts,
            None => self.record_attempts(&gate, &results).await?,
        };
        let policy = results.layout.suite.gate.attempts.unwrap_or_default();
        round.alpha =
            attempts::alpha(policy, round.alpha, &attempts).map_err(|error| RunError::Internal(error.to_string()))?;
        let units = self.context.units.clone();
        let results = self.context.compute.batch(move || {
            results.verdicts = Some(decide::look(&mut results, &gate, &units, &round, shared_by));
            results
        });
        let mut results = results.await?;
        for (own, attempts) in results
            .verdicts
            .iter_mut()
            .flat_map(|report| &mut report.encoders)
            .zip(&attempts)
        {
            own.attempts = Some(attempts.clone());
        }
        self.attempts = Some(attempts);
        if let Some(report) = results.verdicts.clone() {
            self.live.record_look(number, &RecordedLook { inputs, report }).await?;
        }
        Ok(results)
    }

    /// Records the attempts of the first look. A replica that takes the run over finds them
    /// recorded.
    async fn record_attempts(&self, gate: &BoundGate, results: &RunResults) -> Result<Vec<Attempts>, RunError> {
        let mut places = Vec::new();
        for own in attempts::of_look(gate, results, &self.live.record(), Timestamp::now()) {
            let all = self.live.attempt(&own).await?;
            places.push(attempts::place(&own, &all));
        }
        Ok(places)
    }
}
