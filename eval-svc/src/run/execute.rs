//! The stages, one after the other.

use std::{collections::BTreeMap, time::Instant};

use super::{
    RunContext, RunError, live::Live, measure, plan::Plan, record::GateOutcome, record::Stage, store::RunStore,
    summary, transform,
};
use crate::{gate, report};

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

    let clock = Instant::now();
    let transformed = transform::transform(context, &mut plan, live).await?;
    durations.insert("transform".to_owned(), clock.elapsed().as_secs_f64());

    let clock = Instant::now();
    let measured = measure::measure(context, &plan, &transformed, live).await?;
    durations.insert("encode_and_score".to_owned(), clock.elapsed().as_secs_f64());

    live.step(Stage::Report, 0, "profile, statistics, pages");
    let record = live.record();
    let (examples, store, id) = (context.config.examples, store.clone(), record.id.clone());
    let outcome = tokio::task::spawn_blocking(move || {
        let verdicts = plan.gate.as_ref().map(|bound| {
            let datasets: Vec<usize> = (0..plan.tables.len()).collect();
            let look = gate::Look {
                datasets: &datasets,
                seeds: plan.suite.seeds.len(),
                alpha: bound.alpha,
                round: 1,
            };
            gate::look(bound, &summary::grid(&plan, &measured.scored), &look, None)
        });
        let outcome = verdicts.as_ref().map(|verdicts| GateOutcome {
            verdict: verdicts.verdict,
            blocked: verdicts.blocked,
        });
        let report = summary::report(&plan, &transformed, &measured, &record, durations, verdicts, examples);
        for (name, content) in report::files(&report).map_err(RunError::Report)? {
            store.write_file(&id, name, &content)?;
        }
        Ok::<_, RunError>(outcome)
    })
    .await
    .map_err(|error| RunError::Internal(error.to_string()))??;
    live.change(|record| record.gate = outcome);
    live.step(Stage::Report, 1, "report written");
    Ok(())
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
}
