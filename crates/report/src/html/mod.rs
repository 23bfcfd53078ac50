//! `report.html`: one file that fetches nothing and has no script; style rules filter the examples.
//! The templates escape every value; only our own charts are inserted unescaped.

mod tables;

use minijinja::{Environment, Value, context, value::Serde};

use super::{
    Example, Report, charts,
    format::{count, duration, fine, fine3, p_value, percent, place, points, share, signed, signed_fine},
    gate_view, judge_view, noise_view, overview, separation_view, subsets_view, variant_view,
};
use crate::profile::{Axis, Scope, ScopeProfile};

const PAGE: &str = include_str!("../page/report.html");
/// Parts of the page, under the names by which it includes them.
const PARTS: [(&str, &str); 9] = [
    ("overview.html", include_str!("../page/overview.html")),
    ("gate.html", gate_view::TEMPLATE),
    ("judge.html", judge_view::TEMPLATE),
    ("subsets.html", subsets_view::TEMPLATE),
    ("separation.html", separation_view::TEMPLATE),
    ("plain-table.html", include_str!("../page/plain-table.html")),
    ("comparisons.html", include_str!("../page/comparisons.html")),
    ("tables.html", include_str!("../page/tables.html")),
    ("examples.html", include_str!("../page/examples.html")),
];
pub(super) const STYLE: &str = include_str!("../page/style.css");

/// Renders the report.
///
/// # Errors
/// If the template fails: an internal error.
pub(super) fn render(report: &Report) -> Result<String, String> {
    page(report).map_err(|error| format!("report.html: {}", chain(&error)))
}

/// An error with its causes: the error of an included part is otherwise hidden behind the part's
/// name.
pub(super) fn chain(error: &minijinja::Error) -> String {
    let mut told = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    told
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
    environment.add_filter("thousandths", fine3);
    environment.add_filter("tenths", share);
    environment.add_filter("place", place);
    environment.add_filter("count", count);
    environment.add_filter("brief", tables::brief);
    environment.add_function("quantity", quantity);
    environment.add_filter("short", short_digest);
    environment.add_filter("day", day);
    let full = charts::largest_change(report);
    environment.add_filter("heat", move |delta: f64| charts::heat_class(delta, full));
    let shares = report.clone();
    environment.add_function("unchanged", move |transformation: String, dataset: Option<String>| {
        shares.unchanged_share(&transformation, dataset.as_deref())
    });
    let own = report.clone();
    environment.add_function("unchanged_of_axis", move |axis: usize| {
        let axis = own.profile.axes.get(axis);
        axis.map_or(0.0, |axis| own.unchanged_share_of_axis(*axis))
    });
    let own = report.clone();
    environment.add_function("drift_of", move |encoder: String, transformation: String| {
        own.drift_of(&encoder, &transformation)
    });
    let own = report.clone();
    environment.add_function("drift_in_gaps", move |encoder: String, transformation: String| {
        let found = own.drift_in_gaps(&encoder, &transformation);
        found.map(|found| context! { mean => found.mean, datasets => found.datasets, of => found.of })
    });
    let own = report.clone();
    environment.add_function("parallel_gap_of", move |encoder: String| own.parallel_gap_of(&encoder));
    let own = report.clone();
    environment.add_function("cut", move |encoder: String, transformation: Option<String>| {
        own.cut(&encoder, None, transformation.as_deref()).share()
    });
    environment.add_function("spans", |columns: Value| tables::spans(&columns));
    environment.add_function("words", |table: Value| tables::words(&table));
    for (name, part) in PARTS {
        environment.add_template(name, part)?;
    }
    environment.add_template("report.html", PAGE)?;
    let shown = &*noise_view::without_doses(report);
    environment.get_template("report.html")?.render(context! {
        report => Value::from(Serde(shown)),
        transformations => report.suite.transformations.len(),
        style => Value::from_safe_string(STYLE.to_owned()),
        dumbbell => Value::from_safe_string(charts::dumbbell(report)),
        heat_map => Value::from_safe_string(charts::heat_map(shown)),
        axis_titles => report.profile.axes.iter().map(|axis| axis.title()).collect::<Vec<_>>(),
        counted => report.profile.counted(),
        overview => overview::view(report),
        gate => report.gate.as_ref().map(|gate| gate_view::view(report, gate)),
        intervals_drawn => charts::has_intervals(report),
        judge => report.judge.as_ref().map(judge_view::view),
        separation => separation_view::view(report),
        noise => noise_view::view(report),
        variants => variant_view::view(report),
        subsets => subsets_view::view(shown),
        rating_feet => judge_view::feet(report),
        forests => forests(shown),
        rank_flow => rank_flow(report),
        scope_titles => context! {
            all => Scope::All.title(),
            english => Scope::English.title(),
            multilingual => Scope::Multilingual.title(),
            unknown => Scope::Unknown.title(),
        },
        filter_transformations => report.suite.transformations.iter().map(|one| one.label.clone()).collect::<Vec<_>>(),
        filter_datasets => report.datasets.iter().map(|one| one.name.clone()).collect::<Vec<_>>(),
        examples => examples(report),
    })
}

/// A forest plot for each language group if there are two, else a single one.
fn forests(report: &Report) -> Vec<Value> {
    let scopes = &report.profile.scopes;
    let shown = |scope: &&ScopeProfile| scopes.len() == 1 || scope.scope != Scope::All;
    let shown = scopes
        .iter()
        .filter(shown)
        .filter(|scope| !scope.shifts.is_empty())
        .enumerate();
    shown
        .map(|(i, scope)| {
            context! {
                title => scope.scope.title(),
                n => scope.n(),
                rough => scope.shifts.iter().any(|one| one.shift.signed_rank_interval.is_none() && one.shift.interval.is_some()),
                chart => Value::from_safe_string(charts::forest(scope, &format!("forest-{i}"))),
            }
        })
        .collect()
}

fn rank_flow(report: &Report) -> Value {
    let chart = report
        .profile
        .scopes
        .first()
        .and_then(|scope| charts::rank_flow(scope, "flow"));
    chart.map_or(Value::from(()), Value::from_safe_string)
}

/// Examples, largest drift first, with the positions of their transformation and dataset in the
/// filters.
fn examples(report: &Report) -> Vec<Value> {
    let mut sorted: Vec<&Example> = report.examples.iter().collect();
    // The sort is stable, so equal and absent drifts keep the order of the report.
    let drift = |example: &Example| example.drift.unwrap_or(f64::NEG_INFINITY);
    sorted.sort_by(|a, b| drift(b).total_cmp(&drift(a)));
    sorted
        .into_iter()
        .map(|example| {
            let drifts = || example.drift_by_encoder.values().copied();
            let several = example.drift_by_encoder.len() > 1;
            context! {
                example => Value::from(Serde(example)),
                t => report.suite.transformations.iter().position(|one| one.label == example.transformation),
                d => report.datasets.iter().position(|one| one.name == example.dataset),
                low => several.then(|| drifts().fold(f64::INFINITY, f64::min)),
                high => several.then(|| drifts().fold(f64::NEG_INFINITY, f64::max)),
            }
        })
        .collect()
}

/// A quantity as a heading.
fn quantity(name: String) -> String {
    let axis = Axis::SCORED.into_iter().find(|axis| axis.name() == name);
    match (axis, name.as_str()) {
        (Some(axis), _) => axis.title().to_owned(),
        (None, "original") => "Original".to_owned(),
        (None, "total") => "Total".to_owned(),
        (None, _) => name,
    }
}

pub(super) fn short_digest(digest: String) -> String {
    digest.chars().take(12).collect()
}

/// `2026-11-21 04:46 UTC` of an RFC 3339 time.
pub(super) fn day(time: String) -> String {
    match time.get(..16) {
        Some(start) => format!("{} UTC", start.replace('T', " ")),
        None => time,
    }
}
