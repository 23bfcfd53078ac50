//! `ratings.html`: one file that fetches nothing and has no script, in the style of the report.

use minijinja::{Value, context, value::Serde};

use super::{HumanRatings, tables::tables};
use crate::{
    charts,
    html::{STYLE, chain, environment},
    text_table::{self, Section},
};

const PAGE: &str = include_str!("../page/ratings.html");

pub(super) fn render(ratings: &HumanRatings) -> Result<String, String> {
    page(ratings).map_err(|error| format!("ratings.html: {}", chain(&error)))
}

fn page(ratings: &HumanRatings) -> Result<String, minijinja::Error> {
    let mut environment = environment();
    text_table::add_to(&mut environment)?;
    environment.add_template("ratings.html", PAGE)?;
    let rows: Vec<_> = ratings.drift.iter().collect();
    let chart = charts::drift_against_ratings(&rows, "drift");
    let sections: Vec<Section> = tables(ratings).into_iter().map(Section::from).collect();
    environment.get_template("ratings.html")?.render(context! {
        ratings => Value::from(Serde(ratings)),
        scale => ratings.scale.title(),
        sections => Value::from(Serde(sections)),
        style => Value::from_safe_string(STYLE.to_owned()),
        chart => chart.map(Value::from_safe_string),
    })
}
