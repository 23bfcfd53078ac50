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
            prepare,
            rounds::{Round, rows, sizes},
        },
        score::EncodingState,
        transform::TextResults,
    },
};

/// Runs all stages up to the gate, round by round. `full` has the layout of the last round, and no
/// results.
pub(crate) async fn in_portions(stages: &mut Stages<'_>, full: RunResults) -> Result<RoundResults, RunError> {
    let most = rows(&full.layout);
    let (sizes, request) = (sizes(most), stages.live.record().request);
    let sequential = stages.gate.as_deref().map(|gate| {
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
        // The last round uses the layout that was validated. All rounds use the stage plans of the
        // full run, because the rules are the same and the producers were queried once.
        let mut results = match full.take_if(|_| last) {
            Some(full) => full,
            None => {
                let mut plan = prepare::lay_out(stages.context, &request, Some(size)).await?;
                stages.versions.apply(&mut plan.layout, &plan.encoders);
                RunResults::new(plan.layout, plan.encoders, plan.manifest)
            }
        };
        if let Some(earlier) = before.take() {
            results.text_results = TextResults::reused(&mut results.layout, &earlier.layout, earlier.text_results);
        }
        let mut state = EncodingState::new(&results.encoders);
        let round = Round {
            number: i + 1,
            ..Round::whole(&results.layout, stages.gate.as_deref())
        };
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
        results.complete(sequential, i + 1);
        let positions = (0..results.layout.tables.len()).map(Some).collect();
        return Ok(RoundResults {
            results,
            positions,
            several: true,
        });
    }
    Err(RunError::Internal("a run in rounds over items has no round".to_owned()))
}
