//! Runs the stages in sequence; with a sequential gate, round by round.

use std::{collections::BTreeMap, time::Instant};

use super::{
    RunContext, RunError,
    facts::Counts,
    grid,
    inputs::Inputs,
    items::KnownItems,
    judge::{self, Judged},
    kept_items,
    live::Live,
    looks,
    measure::{self, Carried, Measured},
    plan::Plan,
    portions,
    progress::Meter,
    ratings,
    record::{Counters, GateOutcome, Generation, RecordedLook, Stage},
    rounds::{self, Round},
    separation,
    summary::{self, Results},
    transform::{self, Transformed},
    units::UnitStore,
};
use crate::{
    gate,
    report::{self, GateReport},
};

/// The results of the rounds of a run.
pub(super) struct Looked {
    /// The plan, reduced to the data sets and seeds that were run.
    pub plan: Plan,
    /// The results of its texts.
    pub transformed: Transformed,
    /// The scores of the plan.
    pub measured: Measured,
    /// The gate's report; `None` without a gate.
    pub verdicts: Option<GateReport>,
    /// Position in the plan of each data set of the rules; `None` if it was not run.
    pub places: Vec<Option<usize>>,
    /// Whether there was more than one look.
    pub several: bool,
}

/// Durations of the stages, in seconds.
pub(super) type Durations = BTreeMap<String, f64>;

/// Executes a plan and writes its report.
pub(super) async fn execute(context: &RunContext, plan: Plan, live: &Live) -> Result<(), RunError> {
    let context = &context.for_run(&live.record().id);
    context.hold_vectors(&plan);
    let mut durations = Durations::new();
    announce(&plan, live);
    let workers = context.work.describe_workers().await;
    if let Some(workers) = workers.map_err(|fault| RunError::Fleet(Box::new(fault)))? {
        live.message(workers);
    }
    live.step(Stage::Plan, 1, "inputs checked");
    let looked = if portions::bets(&plan) {
        Box::pin(portions::in_portions(context, plan, live, &mut durations)).await?
    } else {
        Box::pin(in_rounds(context, plan, live, &mut durations)).await?
    };
    let Looked {
        plan,
        transformed,
        mut measured,
        mut verdicts,
        places,
        several,
    } = looked;
    // Only texts that the report covers are rated, so the rounds come first.
    if several {
        let inputs = Inputs {
            context,
            plan: &plan,
            transformed: &transformed,
            live,
        };
        measured.judged = rated(inputs, &mut durations).await?;
        if let (Some(bound), Some(verdicts)) = (&plan.gate, &mut verdicts) {
            // The looks have compared the original scores with chance.
            let counts = Counts::new(&plan, &transformed, &measured, gate::ChanceLevels::new());
            let grid = grid::grid(&plan, &measured.scored);
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
    let generation = generation(&transformed, &live.counters(), &durations);
    live.change(|record| record.generation = generation);
    let record = live.record();
    let (examples, units) = (context.config.examples, context.units.clone());
    let files = context.compute.batch(move || {
        let results = Results {
            plan: &plan,
            transformed: &transformed,
            measured: &measured,
            units: &units,
        };
        let report = summary::report(results, &record, durations, verdicts, examples);
        let mut files = report::files(&report).map_err(RunError::Report)?;
        files.push((kept_items::FILE, kept_items::file(results, &report)?));
        Ok::<_, RunError>(files)
    });
    let files = files.await.map_err(|error| RunError::Internal(error.to_string()))??;
    live.write_files(&files).await?;
    context.units.flush().await;
    live.change(|record| record.gate = outcome);
    live.step(Stage::Report, 1, "report written");
    Ok(())
}

/// Duration of the generation, if one generator did all of it.
fn generation(transformed: &Transformed, counters: &Counters, durations: &Durations) -> Option<Generation> {
    let mut generators = transformed.generators.keys();
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
async fn in_rounds(
    context: &RunContext,
    mut plan: Plan,
    live: &Live,
    durations: &mut Durations,
) -> Result<Looked, RunError> {
    let rounds = rounds::rounds(&plan);
    let mut meter = Meter::new(Stage::Transform, 0, Instant::now());
    let mut transformed = Transformed::new(&plan);
    let (mut carried, mut measured) = (Carried::new(&plan), Measured::default());
    let mut verdicts: Option<GateReport> = None;
    let mut taken = 0;
    for (i, round) in rounds.iter().enumerate() {
        let keep = i + 1 < rounds.len();
        let mut stages = Stages {
            plan: &mut plan,
            transformed: &mut transformed,
            carried: &mut carried,
            measured: &mut measured,
            meter: &mut meter,
        };
        stages.run(context, round, keep, live, durations).await?;
        taken = round.number;
        // A single look at everything can use the ratings; rounds do not use them.
        if rounds.len() == 1 {
            let inputs = Inputs {
                context,
                plan: &plan,
                transformed: &transformed,
                live,
            };
            measured.judged = rated(inputs, durations).await?;
        }
        let report;
        (plan, transformed, measured, report) = look_at(
            (context, live),
            (plan, transformed, measured),
            round.clone(),
            1,
            verdicts.take(),
        )
        .await?;
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
    Ok(Looked {
        plan,
        transformed,
        measured,
        verdicts,
        places,
        several: rounds.len() > 1,
    })
}

/// The data that the stages before the gate work on.
pub(super) struct Stages<'a> {
    /// The plan, which numbers the generated texts.
    pub plan: &'a mut Plan,
    /// The results of the texts.
    pub transformed: &'a mut Transformed,
    /// State that later rounds reuse.
    pub carried: &'a mut Carried,
    /// The scores.
    pub measured: &'a mut Measured,
    /// Progress of the transform stage.
    pub meter: &'a mut Meter,
}

impl Stages<'_> {
    /// Transforms, encodes and scores the texts that a round adds. `keep`: whether to keep the
    /// vectors of the originals for a later round.
    pub(super) async fn run(
        &mut self,
        context: &RunContext,
        round: &Round,
        keep: bool,
        live: &Live,
        durations: &mut Durations,
    ) -> Result<(), RunError> {
        let clock = Instant::now();
        transform::transform(context, self.plan, round, self.transformed, live, self.meter).await?;
        separation::copy(context, self.plan, round, self.transformed, live, self.meter).await?;
        let middle = Instant::now();
        let (carried, measured) = (&mut *self.carried, &mut *self.measured);
        let inputs = Inputs {
            context,
            plan: self.plan,
            transformed: self.transformed,
            live,
        };
        measure::measure(inputs, round, !keep, carried, measured).await?;
        let spent = [("transform", middle - clock), ("encode_and_score", middle.elapsed())];
        for (stage, time) in spent {
            *durations.entry(stage.to_owned()).or_default() += time.as_secs_f64();
        }
        Ok(())
    }
}

/// Makes a look and records it, or uses the look recorded by an earlier leader of the run. It runs
/// on a thread of runs, since bounds over resampled items take long, so it takes ownership of its
/// inputs and returns them. `shared_by`: number of looks that share the error probability of rules
/// on separation.
pub(super) async fn look_at(
    (context, live): (&RunContext, &Live),
    (plan, transformed, measured): (Plan, Transformed, Measured),
    round: Round,
    shared_by: usize,
    earlier: Option<GateReport>,
) -> Result<(Plan, Transformed, Measured, Option<GateReport>), RunError> {
    if plan.gate.is_none() {
        return Ok((plan, transformed, measured, None));
    }
    let (number, inputs) = (round.number, looks::inputs(&round, &measured));
    if let Some(report) = looks::recorded(live, number, &inputs).await? {
        return Ok((plan, transformed, measured, Some(report)));
    }
    let units = context.units.clone();
    let looked = context.compute.batch(move || {
        let report = look(&plan, &transformed, &measured, &units, (&round, shared_by), earlier);
        (plan, transformed, measured, report)
    });
    let looked = looked.await.map_err(|error| RunError::Internal(error.to_string()))?;
    if let Some(report) = &looked.3 {
        let look = RecordedLook {
            inputs,
            report: report.clone(),
        };
        live.record_look(number, &look).await?;
    }
    Ok(looked)
}

/// Runs the judge's stage; `None` without a judge.
async fn rated(inputs: Inputs<'_>, durations: &mut Durations) -> Result<Option<Judged>, RunError> {
    let clock = Instant::now();
    let judged = judge::judge(inputs).await?;
    if judged.is_some() {
        durations.insert("judge".to_owned(), clock.elapsed().as_secs_f64());
    }
    Ok(judged)
}

/// Decides the gate on the scores so far; `None` without a gate.
fn look(
    plan: &Plan,
    transformed: &Transformed,
    measured: &Measured,
    units: &UnitStore,
    (round, shared_by): (&Round, usize),
    earlier: Option<GateReport>,
) -> Option<GateReport> {
    let bound = plan.gate.as_ref()?;
    let items = KnownItems::new(plan, transformed, measured, units);
    let counts = Counts::new(plan, transformed, measured, items.levels(bound));
    let look = gate::Look {
        datasets: &round.tables,
        seeds: round.seeds,
        alpha: round.alpha,
        round: round.number,
        facts: counts.facts(),
        subsets: &items.subsets_of_rules(bound),
        separation: &separation::of_rules(plan, bound, &measured.separated, round),
        items: &items.of_rules(bound),
        sequences: &items.sequences_of_rules(bound),
        shared_by,
    };
    Some(gate::look(bound, &items.grid, &look, earlier))
}

/// Sends a summary of the plan to the watchers.
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
