//! The folded parts of the page. Each is declared here once: its place, its title and its values.

use minijinja::{Value, context, value::Serde};

use super::figures;
use crate::{
    Example, Report, judge_view,
    noise_view::{self, Pages},
    search_view, separation_view, subsets_view, variant_view,
};

/// A folded part of the page.
pub(super) struct Section {
    /// Its anchor, and the name of its template.
    pub id: &'static str,
    /// Its heading, and its line in the list of contents.
    pub title: &'static str,
    /// Its template, which reads its values as `view`.
    pub template: &'static str,
    /// Its values; `None` leaves it out.
    pub view: fn(&Pages<'_>) -> Option<Value>,
}

/// A row of [`SECTIONS`]: its template has its id as name, unless it is given.
macro_rules! section {
    ($id:literal, $title:literal, $view:expr) => {
        section!($id, $title, $id, $view)
    };
    ($id:literal, $title:literal, $template:literal, $view:expr) => {
        Section {
            id: $id,
            title: $title,
            template: include_str!(concat!("../page/", $template, ".html")),
            view: $view,
        }
    };
}

/// The parts, in the order of the page.
pub(super) const SECTIONS: [Section; 18] = [
    section!("examples", "Texts that moved furthest", |pages| {
        let report = pages.full;
        (!report.examples.is_empty()).then(|| {
            context! {
                examples => moved(report, usize::MAX),
                transformations => report.suite.transformations.iter().map(|one| one.label.clone()).collect::<Vec<_>>(),
                datasets => report.datasets.iter().map(|one| one.name.clone()).collect::<Vec<_>>(),
            }
        })
    }),
    section!(
        "profile",
        "Scores per axis, and how certain the changes are",
        |_| plain(true)
    ),
    section!("transformations", "Scores per transformation", |pages| plain(
        !pages.brief.suite.transformations.is_empty()
    )),
    section!("datasets", "Scores per data set", |_| plain(true)),
    section!("baseline", "Against the baseline", |pages| plain(
        pages.full.profile.baseline.is_some()
    )),
    section!("noise", "Noise", "plain-table", |pages| noise_view::view(pages.full)),
    section!("variants", "Variants", "plain-table", |pages| variant_view::view(
        pages.full
    )),
    section!("search", "Search by terms", "plain-table", |pages| search_view::view(
        pages.full
    )),
    section!("separation", "Does it see a change of meaning?", |pages| {
        separation_view::view(pages.full)
    }),
    section!("drift", "Drift", |pages| {
        let report = pages.full;
        (!report.drift.is_empty()).then(|| judge_view::feet(report).into())
    }),
    section!("judge", "Judge", |pages| pages
        .full
        .judge
        .as_ref()
        .map(judge_view::view)),
    section!("subsets", "Some of the rewrites", |pages| {
        let subsets = subsets_view::view(&pages.brief);
        (!subsets.is_empty()).then(|| subsets.into())
    }),
    section!("checks", "Outcome of the texts", |pages| Some(
        judge_view::feet(pages.full).into()
    )),
    section!("charts", "More charts", |pages| {
        let charts = figures(false, pages);
        (!charts.is_empty()).then(|| charts.into())
    }),
    section!("rankings", "Rankings", |pages| plain(
        pages
            .brief
            .profile
            .scopes
            .iter()
            .any(|scope| !scope.rank_shifts.is_empty())
    )),
    section!("tables", "The papers’ tables", |pages| plain(
        !pages.full.tables.is_empty()
    )),
    section!("missing", "Not computed", |pages| plain(
        !pages.full.not_computed.is_empty()
    )),
    section!("manifest", "Manifest", |_| plain(true)),
];

/// The values of a part that reads the report alone.
fn plain(shown: bool) -> Option<Value> {
    shown.then(|| Value::from(true))
}

/// Examples, largest drift first, with the positions of their transformation and dataset in the
/// filters.
pub(super) fn moved(report: &Report, most: usize) -> Vec<Value> {
    let mut sorted: Vec<&Example> = report.examples.iter().collect();
    // The sort is stable, so equal and absent drifts keep the order of the report.
    let drift = |example: &Example| example.drift.unwrap_or(f64::NEG_INFINITY);
    sorted.sort_by(|a, b| drift(b).total_cmp(&drift(a)));
    let value = |example: &Example| {
        let drifts = || example.drift_by_encoder.values().copied();
        let several = example.drift_by_encoder.len() > 1;
        context! {
            example => Value::from(Serde(example)),
            t => report.suite.transformations.iter().position(|one| one.label == example.transformation),
            d => report.datasets.iter().position(|one| one.name == example.dataset),
            low => several.then(|| drifts().fold(f64::INFINITY, f64::min)),
            high => several.then(|| drifts().fold(f64::NEG_INFINITY, f64::max)),
        }
    };
    sorted.into_iter().take(most).map(value).collect()
}
