//! Runs the stages in sequence; with a sequential gate, round by round.

use std::collections::BTreeMap;

use super::{live::LiveRun, portions, stages::Stages};
use crate::{
    gate::{self, BoundGate, spending},
    report::{self, RoundReport},
    run::{
        RunContext, RunError, decide,
        decide::{
            facts::Counts,
            grid,
            results::{RoundResults, RunResults},
        },
        encode::provider_versions::{Probe, ProviderVersions},
        plan::{
            Plan,
            rounds::{self, Round},
        },
        progress::RunProgress,
        record::{Counters, GateOutcome, Generation, Stage},
        report::build_report,
        report::items_file,
        score::EncodingState,
        transform::TextResults,
    },
};

/// Executes a plan and writes its report.
pub(crate) async fn execute(context: &RunContext, mut plan: Plan, live: &LiveRun) -> Result<(), RunError> {
    let mut context = context.for_run(&live.record().id);
    let progress = &live.progress;
    context.hold_vectors(&plan.encoders);
    announce(&plan, progress);
    let recorded = live.record().provider_versions;
    let probe = Probe {
        context: &context,
        layout: &plan.layout,
        encoders: &plan.encoders,
        progress,
    };
    let versions = ProviderVersions::observe(probe, &recorded).await?;
    progress.change(|record| record.provider_versions = (*versions.ids()).clone());
    versions.apply(&mut plan.layout, &plan.encoders);
    context.work = context.work.for_versions(&versions.ids());
    let context = &context;
    let workers = context.work.describe_workers().await;
    if let Some(workers) = workers.map_err(|fault| RunError::Fleet(Box::new(fault)))? {
        progress.message(workers);
    }
    progress.step(Stage::Plan, 1, "inputs checked");
    let portions = plan.stages.gate.as_ref().is_some_and(rounds::over_items);
    let mut stages = Stages::new(context, live, &versions, plan.stages);
    let results = RunResults::new(plan.layout, plan.encoders, plan.manifest);
    let RoundResults {
        mut results,
        positions,
        several,
    } = if portions {
        Box::pin(portions::in_portions(&mut stages, results)).await?
    } else {
        Box::pin(in_rounds(&mut stages, results)).await?
    };
    let probe = Probe {
        context,
        layout: &results.layout,
        encoders: &results.encoders,
        progress,
    };
    versions.confirm(probe).await?;
    // Only texts that the report covers are rated, so the rounds come first.
    if several {
        stages.judge(&mut results).await?;
        if let Some(gate) = &stages.gate {
            apply_ratings(&mut results, gate, &positions);
        }
    }
    let refusal = results.ratings.is_some().then(|| results.ratings_refusal());
    if let Some(verdicts) = &mut results.verdicts {
        let mut transformations = results.layout.transformations.iter();
        verdicts.rewrites_rated = transformations
            .any(|planned| planned.needs_generator)
            .then_some(refusal == Some(None));
        verdicts.ratings_refused = refusal.flatten();
    }

    progress.step(Stage::Report, 0, "profile, statistics, pages");
    let outcome = results.verdicts.as_ref().map(|verdicts| GateOutcome {
        verdict: verdicts.verdict,
        blocked: verdicts.blocked,
        undecided: verdicts.undecided,
    });
    let durations = stages.durations;
    let generation = generation(&results.text_results, &progress.counters(), &durations);
    progress.change(|record| record.generation = generation);
    let record = live.record();
    let (examples, units) = (context.config.examples, context.units.clone());
    let files = context.compute.batch(move || {
        let report = build_report(&results, &units, &record, durations, examples);
        let mut files = report::files(&report).map_err(RunError::Report)?;
        files.push((items_file::FILE, items_file::file(&results, &units, &report)?));
        Ok::<_, RunError>(files)
    });
    let files = files.await??;
    live.write_files(&files).await?;
    context.units.flush().await;
    progress.change(|record| record.gate = outcome);
    progress.step(Stage::Report, 1, "report written");
    Ok(())
}

/// Checks decisions made in rounds against the ratings.
fn apply_ratings(results: &mut RunResults, bound: &BoundGate, positions: &[Option<usize>]) {
    let Some(mut verdicts) = results.verdicts.take() else {
        return;
    };
    // The looks have compared the original scores with chance.
    let counts = Counts::new(results, gate::ChanceLevels::new());
    let rated = gate::RatedRun {
        grid: &grid::grid(&results.layout, &results.encoders, &results.scores),
        facts: &counts.facts(),
        datasets: positions,
        seeds: results.layout.suite.seeds.len(),
    };
    gate::apply_ratings(bound, &mut verdicts, &rated);
    results.verdicts = Some(verdicts);
}

/// Duration of the generation, if one generator did all of it.
fn generation(
    text_results: &TextResults,
    counters: &Counters,
    durations: &BTreeMap<String, f64>,
) -> Option<Generation> {
    let mut generators = text_results.generators.keys();
    let (generator, None) = (generators.next()?, generators.next()) else {
        return None;
    };
    let seconds = durations.get("transform").copied()?;
    (counters.texts_generated > 0).then(|| Generation {
        generator: generator.clone(),
        texts: counters.texts_generated,
        seconds,
    })
}

/// Runs all stages up to the gate, in the rounds of the plan.
async fn in_rounds(stages: &mut Stages<'_>, mut results: RunResults) -> Result<RoundResults, RunError> {
    let rounds = rounds::rounds(&results.layout, stages.gate.as_deref());
    let mut state = EncodingState::new(&results.encoders);
    let mut taken = 0;
    for (i, round) in rounds.iter().enumerate() {
        let last = i + 1 == rounds.len();
        stages.run(&mut results, &mut state, round, last).await?;
        taken = round.number;
        // A single look at everything can use the ratings; rounds do not use them.
        if rounds.len() == 1 {
            stages.judge(&mut results).await?;
        }
        results = stages.look(results, round.clone(), 1).await?;
        let Some(report) = &results.verdicts else { continue };
        let (decided, all) = decide::decided(report);
        if rounds.len() > 1 {
            stages.live.progress.message(format!(
                "round {} of {}: {} data sets, {} seeds; {decided} of {all} decisions made",
                round.number,
                rounds.len(),
                round.tables.len(),
                round.seeds
            ));
        }
        if decided == all {
            break;
        }
    }
    drop(state);
    let gate = stages.gate.as_deref();
    let gate = gate.filter(|gate| spending(gate.sequential).is_some());
    let report = |round: &Round| RoundReport {
        datasets: round.tables.len(),
        seeds: round.seeds,
        items: None,
        fraction: round.fraction,
        alpha: round.alpha,
    };
    let RunResults { layout, encoders, .. } = &results;
    let sequential = gate.map(|gate| decide::sequential(layout, encoders, gate, rounds.iter().map(report).collect()));
    results.complete(sequential, taken);
    let positions = match rounds.get(taken.saturating_sub(1)).filter(|_| taken < rounds.len()) {
        Some(round) => results.narrow(&round.tables, round.seeds),
        None => (0..results.layout.tables.len()).map(Some).collect(),
    };
    Ok(RoundResults {
        results,
        positions,
        several: rounds.len() > 1,
    })
}

/// Sends a summary of the plan to the watchers.
fn announce(plan: &Plan, progress: &RunProgress) {
    let layout = &plan.layout;
    let count = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    progress.message(format!(
        "suite {}: {} x {} x {}; {} to transform once for all encoders, {} in all; {}",
        layout.suite.name,
        count(layout.tables.len(), "dataset", "datasets"),
        count(layout.transformations.len(), "transformation", "transformations"),
        count(layout.suite.seeds.len(), "seed", "seeds"),
        count(layout.requests.distinct.len(), "distinct text", "distinct texts"),
        count(
            layout.texts_planned(),
            "transformation of a text",
            "transformations of texts"
        ),
        count(plan.encoders.len(), "encoder", "encoders"),
    ));
    for table in &layout.tables {
        for note in table.dataset.notes() {
            progress.message(format!("{}: {note}", table.dataset.name()));
        }
    }
    for warning in plan.stages.judge.iter().flat_map(|judge| &judge.warnings) {
        progress.message(warning.as_str());
    }
}
