//! `gains.html`: one file that fetches nothing and has no script, in the style of the report.

use minijinja::{Value, context, value::Serde};

use super::{Gains, chart, tables};
use crate::{
    html::{FIGURES, STYLE, chain, environment, figure},
    text_table::{self, Section},
};

const PAGE: &str = include_str!("../page/gains.html");

pub(super) fn render(gains: &Gains) -> Result<String, String> {
    page(gains).map_err(|error| format!("gains.html: {}", chain(&error)))
}

fn page(gains: &Gains) -> Result<String, minijinja::Error> {
    let mut environment = environment();
    text_table::add_to(&mut environment)?;
    environment.add_template("figures.html", FIGURES)?;
    environment.add_template("gains.html", PAGE)?;
    let sections: Vec<Section> = tables(gains).into_iter().map(Section::from).collect();
    environment.get_template("gains.html")?.render(context! {
        gains => Value::from(Serde(gains)),
        figures => chart::figures(gains).into_iter().map(figure).collect::<Vec<_>>(),
        sections => Value::from(Serde(sections)),
        style => Value::from_safe_string(STYLE.to_owned()),
    })
}
