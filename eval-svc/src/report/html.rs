//! `report.html`: one file, nothing fetched, no script. The template escapes every value; only our own charts go in raw.

use minijinja::{Environment, Value, context, value::Serde};

use super::{
    Report, charts,
    format::{duration, fine, p_value, percent, points, signed, signed_fine},
    gate_view,
};

const PAGE: &str = include_str!("page/report.html");
const STYLE: &str = include_str!("page/style.css");

/// Renders the report.
///
/// # Errors
/// When the template refuses: a fault of ours.
pub(super) fn render(report: &Report) -> Result<String, String> {
    page(report).map_err(|error| format!("report.html: {error:#}"))
}

fn page(report: &Report) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.add_filter("points", points);
    environment.add_filter("fine", fine);
    environment.add_filter("signed", signed);
    environment.add_filter("signed_fine", signed_fine);
    environment.add_filter("percent", percent);
    environment.add_filter("p_value", p_value);
    environment.add_filter("duration", duration);
    environment.add_filter("short", short_digest);
    environment.add_filter("day", day);
    let full = charts::largest_change(report);
    environment.add_filter("heat", move |delta: f64| charts::heat_class(delta, full));
    let shares = report.clone();
    environment.add_function("unchanged", move |transformation: String, dataset: Option<String>| {
        shares.unchanged_share(&transformation, dataset.as_deref())
    });
    environment.add_template("gate.html", gate_view::TEMPLATE)?;
    environment.add_template("report.html", PAGE)?;
    environment.get_template("report.html")?.render(context! {
        report => Value::from(Serde(report)),
        style => Value::from_safe_string(STYLE.to_owned()),
        dumbbell => Value::from_safe_string(charts::dumbbell(report)),
        heat_map => Value::from_safe_string(charts::heat_map(report)),
        axis_titles => report.profile.axes.iter().map(|axis| axis.title()).collect::<Vec<_>>(),
        gate => report.gate.as_ref().map(gate_view::view),
        example_groups => groups(report),
    })
}

/// Examples by dataset and transformation.
fn groups(report: &Report) -> Vec<Value> {
    let mut groups: Vec<(String, String, Vec<Value>)> = Vec::new();
    for example in &report.examples {
        let value = Value::from(Serde(example));
        match groups
            .iter_mut()
            .find(|(dataset, label, _)| *dataset == example.dataset && *label == example.transformation)
        {
            Some((_, _, examples)) => examples.push(value),
            None => groups.push((example.dataset.clone(), example.transformation.clone(), vec![value])),
        }
    }
    groups
        .into_iter()
        .map(|(dataset, transformation, examples)| context! { dataset, transformation, examples })
        .collect()
}

fn short_digest(digest: String) -> String {
    digest.chars().take(12).collect()
}

/// `2026-11-21 04:46 UTC` of an RFC 3339 time.
fn day(time: String) -> String {
    match time.get(..16) {
        Some(start) => format!("{} UTC", start.replace('T', " ")),
        None => time,
    }
}
