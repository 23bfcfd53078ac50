//! `report.html`: one file that fetches nothing and has no script; style rules filter the examples.
//! The templates escape every value; only our own charts are inserted unescaped.

mod sections;
mod tables;

use minijinja::{Environment, HtmlEscape, Value, context, value::Serde};

use self::sections::SECTIONS;
use super::{
    Report,
    charts::{self, Figure},
    format::{count, counted, duration, fine, fine3, p_value, percent, place, points, share, signed, signed_fine},
    gate_view, names,
    noise_view::Pages,
    overview, reference,
};
use crate::profile::{Axis, Scope};

/// Parts of the page, under the names by which it includes them. Each of [`SECTIONS`] is included
/// by its id.
const PARTS: [(&str, &str); 7] = [
    ("report.html", include_str!("../page/report.html")),
    ("macros.html", include_str!("../page/macros.html")),
    ("overview.html", include_str!("../page/overview.html")),
    ("cards.html", include_str!("../page/cards.html")),
    ("gate.html", include_str!("../page/gate.html")),
    ("texts.html", include_str!("../page/texts.html")),
    ("figures.html", FIGURES),
];
pub(crate) const FIGURES: &str = include_str!("../page/figures.html");
pub(super) const STYLE: &str = include_str!("../page/style.css");

/// Renders the report.
///
/// # Errors
/// If the template fails: an internal error.
pub(super) fn render(report: &Report) -> Result<String, String> {
    page(&names::short(report), report).map_err(|error| format!("report.html: {}", chain(&error)))
}

/// An error with its causes: the error of an included part is otherwise hidden behind the part's
/// name.
pub(super) fn chain(error: &minijinja::Error) -> String {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}

/// An environment for the templates of a page. Every value is escaped, whatever the template's
/// name, unless it is marked as safe.
pub(crate) fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    environment
}

/// The page of a report with short names of its encoders; `given` has their ids.
fn page(report: &Report, given: &Report) -> Result<String, minijinja::Error> {
    let mut environment = environment();
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
    environment.add_filter("counted", |number: usize, noun: String| counted(number, &noun));
    environment.add_filter("name", name);
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
    for section in &SECTIONS {
        environment.add_template(section.id, section.template)?;
    }
    let pages = Pages::new(report);
    let sections = SECTIONS.iter().filter_map(|section| {
        let view = (section.view)(&pages)?;
        Some(context! { id => section.id, title => section.title, view })
    });
    let ids: Vec<String> = given.encoders.iter().map(|one| one.id.clone()).collect();
    environment.get_template("report.html")?.render(context! {
        report => Value::from(Serde(&*pages.brief)),
        ids,
        transformations => report.suite.transformations.len(),
        style => Value::from_safe_string(STYLE.to_owned()),
        axis_titles => report.profile.axes.iter().map(|axis| axis.title()).collect::<Vec<_>>(),
        overview => overview::view(report),
        known => Value::from(Serde(reference::known(report))),
        gate => report.gate.as_ref().map(|gate| gate_view::view(report, gate)),
        figures => figures(true, &pages),
        texts => sections::moved(report, MOVED),
        sections => sections.collect::<Vec<_>>(),
        scope_titles => context! {
            all => Scope::All.title(),
            english => Scope::English.title(),
            multilingual => Scope::Multilingual.title(),
            unknown => Scope::Unknown.title(),
        },
    })
}

/// Number of texts that the page opens with.
const MOVED: usize = 3;

/// The values of charts for the template.
fn figures(first: bool, pages: &Pages<'_>) -> Vec<Value> {
    charts::figures(first, pages).map(figure).collect()
}

/// A chart for the template.
pub(super) fn figure(figure: Figure) -> Value {
    context! {
        title => figure.title,
        caption => figure.caption,
        marks => Value::from(Serde(figure.marks)),
        wide => figure.wide,
        svg => Value::from_safe_string(figure.svg),
    }
}

/// A name that may be broken after `/`, `_`, `=`, `:` and `@`, as in `models:/enc/3`.
pub(super) fn name(name: String) -> Value {
    let mut html = String::new();
    for part in name.split_inclusive(['/', '_', '=', ':', '@']) {
        html.push_str(&HtmlEscape(part).to_string());
        if part.ends_with(['/', '_', '=', ':', '@']) {
            html.push_str("<wbr>");
        }
    }
    Value::from_safe_string(html)
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
