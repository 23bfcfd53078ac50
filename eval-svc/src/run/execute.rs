//! The stages, one after the other; with a sequential gate, round by round.

use std::{collections::BTreeMap, time::Instant};

use super::{
    RunContext, RunError,
    facts::Counts,
    items,
    judge::{self, Judged},
    live::Live,
    measure::{self, Carried, Measured},
    plan::Plan,
    progress::Meter,
    ratings,
    record::{GateOutcome, Stage},
    rounds::{self, Round},
    separation,
    store::RunStore,
    summary,
    transform::{self, Transformed},
    units::UnitStore,
};
use crate::{
    gate,
    report::{self, GateReport},
};

/// Executes a plan to its report.
pub(super) async fn execute(
    context: &RunContext,
    store: &RunStore,
    mut plan: Plan,
    live: &Live,
) -> Result<(), RunError> {
    let mut durations = BTreeMap::new();
    announce(&plan, live);
    live.step(Stage::Plan, 1, "inputs checked");

    let rounds = rounds::rounds(&plan);
    let mut meter = Meter::new(Stage::Transform, 0, Instant::now());
    let mut transformed = Transformed::new(&plan);
    let (mut carried, mut measured) = (Carried::new(&plan), Measured::default());
    let mut verdicts: Option<GateReport> = None;
    let mut taken = 0;
    for (i, round) in rounds.iter().enumerate() {
        let last = i + 1 == rounds.len();
        let clock = Instant::now();
        transform::transform(context, &mut plan, round, &mut transformed, live, &mut meter).await?;
        separation::copy(context, &mut plan, round, &mut transformed, live, &mut meter).await?;
        let middle = Instant::now();
        measure::measure(
            context,
            &plan,
            &transformed,
            round,
            last,
            &mut carried,
            &mut measured,
            live,
        )
        .await?;
        let spent = [("transform", middle - clock), ("encode_and_score", middle.elapsed())];
        for (stage, time) in spent {
            *durations.entry(stage.to_owned()).or_default() += time.as_secs_f64();
        }
        taken = round.number;
        // One look at everything can ask how the rewrites are rated; rounds need no rating.
        if rounds.len() == 1 {
            measured.judged = rated(context, &plan, &transformed, live, &mut durations).await?;
        }
        if plan.gate.is_some() {
            let (look_at, units, earlier) = (round.clone(), context.units.clone(), verdicts.take());
            // On a thread of its own: bounds over resampled items take their time. What it reads is lent to it.
            let lent = tokio::task::spawn_blocking(move || {
                let report = look(&plan, &transformed, &measured, &units, &look_at, earlier);
                (plan, transformed, measured, report)
            });
            let report;
            (plan, transformed, measured, report) =
                lent.await.map_err(|error| RunError::Internal(error.to_string()))?;
            let Some(report) = report else { continue };
            let (decided, all) = rounds::decided(&report);
            if rounds.len() > 1 {
                live.message(format!(
                    "round {} of {}: {} data sets, {} seeds; {decided} of {all} decisions made",
                    round.number,
                    rounds.len(),
                    round.tables.len(),
                    round.seeds
                ));
            }
            verdicts = Some(report);
            if decided == all {
                break;
            }
        }
    }
    drop(carried);
    if let (Some(bound), Some(verdicts)) = (&plan.gate, &mut verdicts) {
        verdicts.sequential = rounds::told(&plan, bound, &rounds, taken, &transformed, &measured.scored);
    }
    let mut places: Vec<Option<usize>> = (0..plan.tables.len()).map(Some).collect();
    if let Some(round) = rounds.get(taken.saturating_sub(1)).filter(|_| taken < rounds.len()) {
        places = plan.narrow(&round.tables, round.seeds);
        let tables = measured.scored.iter_mut().map(|one| &mut one.table);
        let tables = tables.chain(measured.separated.iter_mut().map(|one| &mut one.table));
        for table in tables.chain(measured.drifted.iter_mut().map(|one| &mut one.table)) {
            *table = places.get(*table).copied().flatten().unwrap_or(*table);
        }
    }
    // Only what the report speaks of is rated, so rounds come first.
    if rounds.len() > 1 {
        measured.judged = rated(context, &plan, &transformed, live, &mut durations).await?;
        if let (Some(bound), Some(verdicts)) = (&plan.gate, &mut verdicts) {
            let counts = Counts::new(&plan, &transformed, &measured);
            let grid = summary::grid(&plan, &measured.scored);
            let seeds = plan.suite.seeds.len();
            gate::apply_ratings(bound, &grid, verdicts, &counts.facts(), (&places, seeds));
        }
    }
    if let Some(verdicts) = &mut verdicts {
        let refused = plan.judge.as_ref().zip(measured.judged.as_ref());
        verdicts.ratings_refused = refused.and_then(|(judge, judged)| ratings::refused(judge, judged));
        verdicts.rewrites_rated = plan
            .transformations
            .iter()
            .any(|planned| planned.needs_generator)
            .then_some(refused.is_some() && verdicts.ratings_refused.is_none());
    }

    live.step(Stage::Report, 0, "profile, statistics, pages");
    let outcome = verdicts.as_ref().map(|verdicts| GateOutcome {
        verdict: verdicts.verdict,
        blocked: verdicts.blocked,
        undecided: verdicts.undecided,
    });
    let record = live.record();
    let (examples, store, id) = (context.config.examples, store.clone(), record.id.clone());
    let units = context.units.clone();
    tokio::task::spawn_blocking(move || {
        let report = summary::report(
            &plan,
            &transformed,
            &measured,
            &units,
            &record,
            durations,
            verdicts,
            examples,
        );
        for (name, content) in report::files(&report).map_err(RunError::Report)? {
            store.write_file(&id, name, &content)?;
        }
        Ok::<_, RunError>(())
    })
    .await
    .map_err(|error| RunError::Internal(error.to_string()))??;
    live.change(|record| record.gate = outcome);
    live.step(Stage::Report, 1, "report written");
    Ok(())
}

/// The judge's stage; nothing without a judge.
async fn rated(
    context: &RunContext,
    plan: &Plan,
    transformed: &Transformed,
    live: &Live,
    durations: &mut BTreeMap<String, f64>,
) -> Result<Option<Judged>, RunError> {
    let clock = Instant::now();
    let judged = judge::judge(context, plan, transformed, live).await?;
    if judged.is_some() {
        durations.insert("judge".to_owned(), clock.elapsed().as_secs_f64());
    }
    Ok(judged)
}

/// Looks at what is in; `None` without a gate.
fn look(
    plan: &Plan,
    transformed: &Transformed,
    measured: &Measured,
    units: &UnitStore,
    round: &Round,
    earlier: Option<GateReport>,
) -> Option<GateReport> {
    let bound = plan.gate.as_ref()?;
    let counts = Counts::new(plan, transformed, measured);
    let look = gate::Look {
        datasets: &round.tables,
        seeds: round.seeds,
        alpha: round.alpha,
        round: round.number,
        facts: counts.facts(),
        subsets: &items::subsets_of_rules(plan, bound, transformed, measured, units),
        separation: &separation::of_rules(plan, bound, &measured.separated, round),
        items: &items::of_rules(plan, bound, transformed, measured, units),
    };
    Some(gate::look(
        bound,
        &summary::grid(plan, &measured.scored),
        &look,
        earlier,
    ))
}

/// Says what the plan comes to.
fn announce(plan: &Plan, live: &Live) {
    let count = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    live.message(format!(
        "suite {}: {} x {} x {}; {} to transform once for all encoders, {} in all; {}",
        plan.suite.name,
        count(plan.tables.len(), "dataset", "datasets"),
        count(plan.transformations.len(), "transformation", "transformations"),
        count(plan.suite.seeds.len(), "seed", "seeds"),
        count(plan.requests.distinct.len(), "distinct text", "distinct texts"),
        count(
            plan.texts_planned(),
            "transformation of a text",
            "transformations of texts"
        ),
        count(plan.encoders.len(), "encoder", "encoders"),
    ));
    for table in &plan.tables {
        for note in table.dataset.notes() {
            live.message(format!("{}: {note}", table.dataset.name()));
        }
    }
    for warning in plan.judge.iter().flat_map(|judge| &judge.warnings) {
        live.message(warning.as_str());
    }
}
