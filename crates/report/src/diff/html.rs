//! `diff.html`: one file that fetches nothing and has no script, in the style of the report.

use minijinja::{Value, context, value::Serde};

use super::{Diff, chart, tables::sections};
use crate::{
    html::{FIGURES, STYLE, chain, day, environment, figure},
    text_table,
};

const PAGE: &str = include_str!("../page/diff.html");

pub(super) fn render(diff: &Diff) -> Result<String, String> {
    page(diff).map_err(|error| format!("diff.html: {}", chain(&error)))
}

fn page(diff: &Diff) -> Result<String, minijinja::Error> {
    let mut environment = environment();
    environment.add_filter("day", day);
    text_table::add_to(&mut environment)?;
    environment.add_template("figures.html", FIGURES)?;
    environment.add_template("diff.html", PAGE)?;
    environment.get_template("diff.html")?.render(context! {
        diff => Value::from(Serde(diff)),
        style => Value::from_safe_string(STYLE.to_owned()),
        figures => chart::figures(diff).into_iter().map(figure).collect::<Vec<_>>(),
        sections => Value::from(Serde(sections(diff))),
    })
}
