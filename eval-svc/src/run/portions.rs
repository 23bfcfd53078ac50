//! Rounds over items: `sequential = "betting"`. The run starts with a few rows of each data set and
//! doubles their number until every rule is decided.
//!
//! Rows are drawn individually, so each round's rows are the first rows of the next round. The next
//! round reuses their transformed texts. Each round has its own plan, so the report of a run that
//! ended early is that of a run on this number of rows.

use std::time::Instant;

use super::{
    RunContext, RunError,
    execute::{Durations, Looked, Stages, look_at},
    live::Live,
    measure::{Carried, Measured},
    plan::Plan,
    prepare,
    progress::Meter,
    record::Stage,
    rounds::{self, Round},
    transform::Transformed,
};
use crate::{
    gate::Sequential,
    report::{GateReport, RoundReport, SequentialReport},
};

/// Rows of each data set in the first round.
const FIRST: usize = 100;

/// Whether the plan runs in rounds over items.
pub(super) fn bets(plan: &Plan) -> bool {
    plan.gate
        .as_ref()
        .is_some_and(|gate| gate.sequential == Sequential::Betting)
}

/// Rows of the largest data set.
fn rows(plan: &Plan) -> usize {
    plan.tables.iter().map(|table| table.dataset.items()).max().unwrap_or(0)
}

/// Maximum rows of each data set, round by round: doubled until the largest data set is complete.
fn sizes(rows: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(FIRST), |size| size.checked_mul(2));
    let mut sizes: Vec<usize> = doubled.take_while(|size| *size < rows).collect();
    sizes.push(rows);
    sizes
}

/// The maximum number of looks of the plan.
pub(super) fn looks(plan: &Plan) -> usize {
    if bets(plan) { sizes(rows(plan)).len() } else { 1 }
}

/// Runs all stages up to the gate, round by round.
pub(super) async fn in_portions(
    context: &RunContext,
    full: Plan,
    live: &Live,
    durations: &mut Durations,
) -> Result<Looked, RunError> {
    let (sizes, request) = (sizes(rows(&full)), live.record().request);
    let (producers, ceiling) = (full.producers.clone(), full.ceiling);
    let planned = Planned::of(&full, &sizes);
    let mut meter = Meter::new(Stage::Transform, 0, Instant::now());
    let mut full = Some(full);
    let mut before: Option<(Plan, Transformed)> = None;
    for (i, &size) in sizes.iter().enumerate() {
        let last = i + 1 == sizes.len();
        // The last round uses the plan that was validated.
        let whole = if last { full.take() } else { None };
        let mut plan = match whole {
            Some(plan) => plan,
            None => prepare::lay_out(context, &request, Some(size)).await?,
        };
        // The producers were queried once, before anything was generated.
        plan.producers.clone_from(&producers);
        plan.ceiling = ceiling;
        let mut transformed = match before.take() {
            Some((earlier, made)) => Transformed::carried(&mut plan, &earlier, made),
            None => Transformed::new(&plan),
        };
        let (mut carried, mut measured) = (Carried::new(&plan), Measured::default());
        let round = Round {
            number: i + 1,
            ..Round::whole(&plan)
        };
        let mut stages = Stages {
            plan: &mut plan,
            transformed: &mut transformed,
            carried: &mut carried,
            measured: &mut measured,
            meter: &mut meter,
        };
        stages.run(context, &round, false, live, durations).await?;
        let report;
        (plan, transformed, measured, report) =
            look_at((context, live), (plan, transformed, measured), round, sizes.len(), None).await?;
        let mut verdicts =
            report.ok_or_else(|| RunError::Internal("a run in rounds over items has no gate".to_owned()))?;
        let (decided, all) = rounds::decided(&verdicts);
        live.message(format!(
            "round {} of {}: {size} rows of each data set; {decided} of {all} decisions made",
            i + 1,
            sizes.len()
        ));
        if !last && decided < all {
            before = Some((plan, transformed));
            continue;
        }
        if let Some(full) = full.as_mut() {
            // The judge was tested once, before anything was generated.
            plan.judge = full.judge.take();
        }
        verdicts.sequential = Some(planned.told(i + 1, &transformed, &measured, &verdicts));
        let places = (0..plan.tables.len()).map(Some).collect();
        return Ok(Looked {
            plan,
            transformed,
            measured,
            verdicts: Some(verdicts),
            places,
            several: true,
        });
    }
    Err(RunError::Internal("a run in rounds over items has no round".to_owned()))
}

/// The size of the full run.
struct Planned<'a> {
    sizes: &'a [usize],
    datasets: usize,
    seeds: usize,
    texts: u64,
    scores: u64,
}

impl<'a> Planned<'a> {
    fn of(plan: &Plan, sizes: &'a [usize]) -> Self {
        Self {
            sizes,
            datasets: plan.tables.len(),
            seeds: plan.suite.seeds.len(),
            texts: plan.texts_planned() as u64,
            scores: (plan.tables.len() * plan.variants().len() * plan.encoders.len()) as u64,
        }
    }

    /// The report on the rounds.
    fn told(
        &self,
        taken: usize,
        transformed: &Transformed,
        measured: &Measured,
        verdicts: &GateReport,
    ) -> SequentialReport {
        let all = self.sizes.last().copied().unwrap_or(1).max(1);
        let round = |size: &usize| RoundReport {
            datasets: self.datasets,
            seeds: self.seeds,
            items: Some(*size as u64),
            fraction: *size as f64 / all as f64,
            alpha: verdicts.alpha,
        };
        SequentialReport {
            spending: Sequential::Betting.name().to_owned(),
            rounds: self.sizes.iter().map(round).collect(),
            taken,
            texts_planned: self.texts,
            texts_asked: transformed.count() as u64,
            scores_planned: self.scores,
            scores_made: measured.scored.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sizes;

    #[test]
    fn rounds_double_until_everything_is_in() {
        assert_eq!(sizes(1000), [100, 200, 400, 800, 1000]);
        assert_eq!(sizes(800), [100, 200, 400, 800]);
        assert_eq!(sizes(100), [100]);
        assert_eq!(sizes(7), [7]);
    }
}
