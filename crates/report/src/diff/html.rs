//! `diff.html`: one file that fetches nothing and has no script, in the style of the report.

use minijinja::{Value, context, value::Serde};

use super::{Diff, chart, markdown};
use crate::{
    format::{count, fine, p_value, points, share, signed},
    html::{FIGURES, STYLE, chain, day, environment, figure, name, short_digest},
};

const PAGE: &str = include_str!("../page/diff.html");

pub(super) fn render(diff: &Diff) -> Result<String, String> {
    page(diff).map_err(|error| format!("diff.html: {}", chain(&error)))
}

fn page(diff: &Diff) -> Result<String, minijinja::Error> {
    let mut environment = environment();
    environment.add_filter("points", points);
    environment.add_filter("fine", fine);
    environment.add_filter("signed", signed);
    environment.add_filter("p_value", p_value);
    environment.add_filter("share", share);
    environment.add_filter("count", count);
    environment.add_filter("day", day);
    environment.add_filter("short", short_digest);
    environment.add_filter("name", name);
    environment.add_template("figures.html", FIGURES)?;
    environment.add_template("diff.html", PAGE)?;
    let remarks: Vec<Vec<String>> = diff.datasets.iter().map(markdown::remarks).collect();
    environment.get_template("diff.html")?.render(context! {
        diff => Value::from(Serde(diff)),
        style => Value::from_safe_string(STYLE.to_owned()),
        figures => chart::figures(diff).into_iter().map(figure).collect::<Vec<_>>(),
        notes => markdown::notes(diff),
        remarks,
    })
}
