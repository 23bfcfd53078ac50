//! `isomer check --plan`: the estimated usage of the check.

use isomer_eval::report::TableColumns;
use isomer_proto::{
    eval::v1::{PlanRunRequest, PlannedDataset, PlannedDesign, PlannedRule, RunPlan, RunSpec},
    transform::v1::GenerationEstimate,
};
use isomer_service_kit::Fault;
use serde_json::{Value, json};

use super::{Client, stdout_failure};
use crate::{
    args::Format,
    exit::Failure,
    table::{Table, TextTable},
};

/// Requests the plan and prints it.
///
/// # Errors
/// As for a run; also, after the plan is printed, if its limits would refuse it.
pub(super) async fn show(
    client: &mut Client,
    spec: RunSpec,
    power: Option<f64>,
    format: Format,
) -> Result<(), Failure> {
    let spec = Some(spec);
    let answer = client.plan_run(PlanRunRequest { spec, power }).await?.into_inner();
    let plan = answer
        .plan
        .ok_or_else(|| Failure::dependency("the server answered without a plan"))?;
    let text = match format {
        Format::Json => format!("{:#}\n", as_json(&plan)),
        Format::Text => as_text(&plan, power),
    };
    use std::io::Write;
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| stdout_failure(&error))?;
    if plan.refusal.is_empty() {
        return Ok(());
    }
    Err(Fault::precondition("OVER_LIMIT", plan.refusal).into())
}

fn missing(estimate: &GenerationEstimate) -> u64 {
    estimate
        .texts
        .saturating_sub(estimate.cached_texts.saturating_add(estimate.texts_by_rule))
}

/// An explanation of the numbers of [`estimates`].
pub(in crate::commands) const NOTE: &str = "Calls and tokens: with one attempt for each text, and at most, with every attempt that is allowed; tokens are \
     estimated.\nNothing was generated, encoded or rated.\n";

/// A label and its estimate.
type LabelledEstimate<'a> = (&'a str, &'a GenerationEstimate);

/// The numbers of estimates as columns.
pub(in crate::commands) fn estimates<'a>(
    rows: impl IntoIterator<Item = LabelledEstimate<'a>>,
) -> TableColumns<LabelledEstimate<'a>> {
    let tokens = |one: &GenerationEstimate| {
        between(
            one.prompt_tokens.saturating_add(one.generated_tokens),
            one.most_prompt_tokens.saturating_add(one.most_generated_tokens),
        )
    };
    TextTable::of(rows)
        .words("", |(label, _)| label.to_owned())
        .number("texts", |(_, one)| one.texts.to_string())
        .number("cached", |(_, one)| one.cached_texts.to_string())
        .number("by rule", |(_, one)| one.texts_by_rule.to_string())
        .number("calls", |(_, one)| between(one.calls, one.most_calls))
        .number("tokens", |(_, one)| tokens(one))
}

/// A number and its maximum, if they differ.
fn between(once: u64, most: u64) -> String {
    if once == most {
        once.to_string()
    } else {
        format!("{once}, at most {most}")
    }
}

fn as_text(plan: &RunPlan, power: Option<f64>) -> String {
    let total = plan.total.clone().unwrap_or_default();
    let none = GenerationEstimate::default();
    let each = plan.generations.iter();
    let each = each.map(|one| (one.label.as_str(), one.estimate.as_ref().unwrap_or(&none)));
    let table = Table::from(estimates(each.chain([("in all", &total)])));
    let mut lines = vec![table.to_string(), String::new()];
    let mut line = |name: &str, value: String| lines.push(format!("{:11}{value}", format!("{name}:")));
    if !total.generator_id.is_empty() {
        line("generator", total.generator_id.clone());
    }
    line("price", price(&total));
    line("time", time(plan, &total));
    for one in &plan.encodings {
        line(
            "encoder",
            format!("{}, at most {} texts", one.encoder_id, one.most_texts),
        );
    }
    if plan.most_ratings > 0 {
        line("judge", format!("at most {} ratings", plan.most_ratings));
    }
    lines.push(String::new());
    if !plan.rules.is_empty() {
        lines.push(rules(&plan.rules));
    }
    match &plan.design {
        Some(design) => lines.push(as_sentence(design)),
        None if power.is_some() => {
            lines.push("--power finds nothing: no rule is a max_drop with unit=item on all texts.\n".to_owned());
        }
        None => {}
    }
    lines.push(NOTE.to_owned());
    lines.join("\n")
}

/// The expected decisions of the rules.
fn rules(rules: &[PlannedRule]) -> String {
    let cell = |verdict: &str, chance: Option<f64>| match chance {
        Some(chance) => format!("{verdict} {:.0} %", 100.0 * chance),
        None => "not known".to_owned(),
    };
    let shown: Table = TextTable::of(rules)
        .words("rule", |rule| rule.title.clone())
        .words("no drop", |rule| cell("passes", rule.pass_without_drop))
        .words("half the limit", |rule| cell("passes", rule.pass_at_half))
        .words("twice the limit", |rule| cell("fails", rule.fail_at_twice))
        .into();
    format!(
        "Expected decisions for an encoder that drops as much on every data set, from the spread of\ndrops in \
         earlier runs of other encoders:\n{shown}\n"
    )
}

/// The items for a wanted probability.
fn as_sentence(design: &PlannedDesign) -> String {
    let of = |one: &PlannedDataset| format!("\n  {:6} of {:6} {}", one.items, one.available_items, one.name);
    let items: String = design.datasets.iter().map(of).collect();
    let pass = format!(
        "each of these rules passes an encoder that does not drop with a probability of at least {:.0} %",
        100.0 * design.pass_without_drop
    );
    let cost = format!("about {} rewrites", design.rewrites);
    let total = design.total_items;
    if design.reached {
        return format!("With --total-items {total} {pass}. That takes {cost}.{items}\n");
    }
    let enough = design.datasets.iter().any(|one| one.items > one.available_items);
    let remedy = if enough {
        format!(
            "The wanted probability takes {total} rows of these kinds and {cost}. Add rows, or widen the limit.{items}"
        )
    } else {
        "More rows of these kinds do not help. Widen the limit.".to_owned()
    };
    format!("With all rows (at most 5,000 of a data set) {pass}. {remedy}\n")
}

/// The cost as text.
pub(in crate::commands) fn price(total: &GenerationEstimate) -> String {
    match (total.cost, total.most_cost) {
        _ if total.calls == 0 => "nothing is generated".to_owned(),
        (_, Some(most)) if most <= 0.0 => "0, the generator runs here".to_owned(),
        (Some(cost), Some(most)) => format!("{cost:.4}, at most {most:.4}, in the unit of the generator's prices"),
        _ => "unknown: the generator has no prices (transform.generators.ID.budget.prompt_price)".to_owned(),
    }
}

fn time(plan: &RunPlan, total: &GenerationEstimate) -> String {
    match &plan.generation_time {
        _ if total.calls == 0 => "no call to wait for".to_owned(),
        Some(time) => format!(
            "{} for {} texts, at the rate of {} texts in earlier runs",
            hours(time.seconds.max(0).unsigned_abs()),
            missing(total),
            plan.measured_texts
        ),
        None => "unknown: no earlier run here used this generator".to_owned(),
    }
}

/// A duration in hours, minutes or seconds.
pub(in crate::commands) fn hours(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {minutes} min"),
    }
}

fn estimate_json(one: &GenerationEstimate) -> Value {
    json!({
        "texts": one.texts,
        "cached_texts": one.cached_texts,
        "texts_by_rule": one.texts_by_rule,
        "calls": one.calls,
        "most_calls": one.most_calls,
        "prompt_tokens": one.prompt_tokens,
        "most_prompt_tokens": one.most_prompt_tokens,
        "generated_tokens": one.generated_tokens,
        "most_generated_tokens": one.most_generated_tokens,
        "cost": one.cost,
        "most_cost": one.most_cost,
        "generator": one.generator_id,
    })
}

/// All numbers of the plan; unknown ones are null.
fn as_json(plan: &RunPlan) -> Value {
    let one = |label: &str, estimate: Option<&GenerationEstimate>| {
        let mut value = estimate_json(&estimate.cloned().unwrap_or_default());
        value["label"] = label.into();
        value
    };
    json!({
        "generations": plan.generations.iter().map(|g| one(&g.label, g.estimate.as_ref())).collect::<Vec<_>>(),
        "total": estimate_json(&plan.total.clone().unwrap_or_default()),
        "encoders": plan.encodings.iter()
            .map(|e| json!({ "id": e.encoder_id, "most_texts": e.most_texts }))
            .collect::<Vec<_>>(),
        "most_ratings": plan.most_ratings,
        "generation_seconds": plan.generation_time.as_ref().map(|time| time.seconds as f64 + f64::from(time.nanos) / 1e9),
        "measured_texts": plan.measured_texts,
        "refusal": Some(&plan.refusal).filter(|refusal| !refusal.is_empty()),
        "rules": plan.rules.iter()
            .map(|rule| json!({
                "title": rule.title,
                "limit": rule.limit,
                "pass_without_drop": rule.pass_without_drop,
                "pass_at_half": rule.pass_at_half,
                "fail_at_twice": rule.fail_at_twice,
            }))
            .collect::<Vec<_>>(),
        "design": plan.design.as_ref().map(|design| json!({
            "total_items": design.total_items,
            "datasets": design.datasets.iter()
                .map(|one| json!({ "name": one.name, "items": one.items, "available_items": one.available_items }))
                .collect::<Vec<_>>(),
            "rewrites": design.rewrites,
            "pass_without_drop": design.pass_without_drop,
            "reached": design.reached,
        })),
    })
}

#[cfg(test)]
mod tests {
    use isomer_proto::eval::v1::{PlannedEncoding, PlannedGeneration};

    use super::*;

    fn plan() -> RunPlan {
        let estimate = GenerationEstimate {
            texts: 120_000,
            cached_texts: 20_000,
            texts_by_rule: 1,
            calls: 99_999,
            most_calls: 299_997,
            prompt_tokens: 20_000_000,
            most_prompt_tokens: 60_000_000,
            generated_tokens: 3_000_000,
            most_generated_tokens: 90_000_000,
            prompt_price: Some(0.15),
            generated_price: Some(0.6),
            cost: Some(4.8),
            most_cost: Some(63.0),
            generator_id: "big".to_owned(),
        };
        RunPlan {
            generations: vec![PlannedGeneration {
                label: "summarised_expansion".to_owned(),
                estimate: Some(estimate.clone()),
            }],
            total: Some(estimate),
            encodings: vec![PlannedEncoding {
                encoder_id: "all-MiniLM-L6-v2".to_owned(),
                most_texts: 160_000,
            }],
            most_ratings: 448,
            generation_time: Some(prost_types::Duration {
                seconds: 3 * 3600 + 25 * 60,
                nanos: 0,
            }),
            measured_texts: 4000,
            refusal: String::new(),
            rules: vec![PlannedRule {
                title: "total drops by at most 3 points".to_owned(),
                limit: 3.0,
                pass_without_drop: Some(0.414),
                pass_at_half: Some(0.09),
                fail_at_twice: None,
            }],
            design: Some(PlannedDesign {
                total_items: 620,
                datasets: vec![PlannedDataset {
                    name: "nfcorpus".to_owned(),
                    items: 620,
                    available_items: 3237,
                }],
                rewrites: 1240,
                pass_without_drop: 0.803,
                reached: true,
            }),
        }
    }

    #[test]
    fn a_plan_says_what_is_cached_what_it_costs_and_how_long_it_takes() {
        let text = as_text(&plan(), None);
        for part in [
            "299997",
            "20000",
            "4.8000, at most 63.0000",
            "3 h 25 min for 99999 texts, at the rate of 4000 texts",
            "all-MiniLM-L6-v2, at most 160000 texts",
            "at most 448 ratings",
            "passes 41 %",
            "passes 9 %",
            "not known",
            "With --total-items 620 each of these rules passes",
            "at least 80 %. That takes about 1240 rewrites.",
            "   620 of   3237 nfcorpus",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_said_and_is_null() {
        let mut plan = plan();
        plan.generation_time = None;
        if let Some(total) = &mut plan.total {
            (total.cost, total.most_cost) = (None, None);
        }
        if let Some(design) = &mut plan.design {
            design.reached = false;
            design.datasets[0].items = 4_000;
        }
        let text = as_text(&plan, Some(0.8));
        assert!(text.contains("  4000 of   3237 nfcorpus"), "{text}");
        assert!(
            text.contains("price:     unknown") && text.contains("time:      unknown"),
            "{text}"
        );
        let json = as_json(&plan);
        assert_eq!(json["total"]["cost"], Value::Null);
        assert_eq!(json["generation_seconds"], Value::Null);
        assert_eq!(json["refusal"], Value::Null);
        assert_eq!(json["rules"][0]["fail_at_twice"], Value::Null);
        assert_eq!(json["design"]["datasets"][0]["items"], 4_000);
        plan.design = None;
        assert!(as_text(&plan, Some(0.8)).contains("--power finds nothing"));
        assert!(!as_text(&plan, None).contains("--power"));
        assert_eq!(json["generations"][0]["label"], "summarised_expansion");
        assert_eq!(json["generations"][0]["calls"], 99_999);
    }
}
