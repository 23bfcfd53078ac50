//! Rounds over items: `sequential = "betting"`. The run starts with a few rows of each data set and
//! doubles their number until every rule is decided.
//!
//! Rows are drawn individually, so each round's rows are the first rows of the next round. The next
//! round reuses their transformed texts. Each round has its own plan, so the report of a run that
//! ended early is that of a run on this number of rows.

use super::stages::Stages;
use crate::{
    report::RoundReport,
    run::{
        RunError, decide,
        decide::results::{RoundResults, RunResults},
        plan::{
            Plan, prepare,
            rounds::{Round, rows, sizes},
        },
        score::EncodingState,
        transform::TextResults,
    },
};

/// Runs all stages up to the gate, round by round.
pub(crate) async fn in_portions(stages: &mut Stages<'_>, full: Plan) -> Result<RoundResults, RunError> {
    let most = rows(&full.layout);
    let (sizes, request) = (sizes(most), stages.live.record().request);
    let transform = full.transform.clone();
    let sequential = full.decide.gate.as_ref().map(|gate| {
        let round = |size: &usize| RoundReport {
            datasets: full.layout.tables.len(),
            seeds: full.layout.suite.seeds.len(),
            items: Some(*size as u64),
            fraction: *size as f64 / most.max(1) as f64,
            alpha: gate.alpha,
        };
        decide::sequential(&full.layout, &full.encoders, gate, sizes.iter().map(round).collect())
    });
    let mut full = Some(full);
    let mut before: Option<RunResults> = None;
    for (i, &size) in sizes.iter().enumerate() {
        let last = i + 1 == sizes.len();
        // The last round uses the plan that was validated.
        let whole = if last { full.take() } else { None };
        let mut plan = match whole {
            Some(plan) => plan,
            None => prepare::lay_out(stages.context, &request, Some(size)).await?,
        };
        // The producers were queried once, before anything was generated.
        plan.transform.clone_from(&transform);
        let text_results = match before.take() {
            Some(earlier) => TextResults::reused(&mut plan.layout, &earlier.plan.layout, earlier.text_results),
            None => TextResults::new(&plan.layout),
        };
        let mut state = EncodingState::new(&plan.encoders);
        let round = Round {
            number: i + 1,
            ..Round::whole(&plan)
        };
        let mut results = RunResults::new(plan, text_results);
        stages.run(&mut results, &mut state, &round, true).await?;
        results = stages.look(results, round, sizes.len()).await?;
        let Some(verdicts) = &results.verdicts else {
            return Err(RunError::Internal("a run in rounds over items has no gate".to_owned()));
        };
        let (decided, all) = decide::decided(verdicts);
        stages.live.progress.message(format!(
            "round {} of {}: {size} rows of each data set; {decided} of {all} decisions made",
            i + 1,
            sizes.len()
        ));
        if !last && decided < all {
            before = Some(results);
            continue;
        }
        if let Some(full) = full.as_mut() {
            // The judge was tested once, before anything was generated.
            results.plan.judge = full.judge.take();
        }
        results.complete(sequential, i + 1);
        let positions = (0..results.plan.layout.tables.len()).map(Some).collect();
        return Ok(RoundResults {
            results,
            positions,
            several: true,
        });
    }
    Err(RunError::Internal("a run in rounds over items has no round".to_owned()))
}
