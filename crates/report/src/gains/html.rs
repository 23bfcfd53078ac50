//! `gains.html`: one file that fetches nothing and has no script, in the style of the report.

use minijinja::{Value, context, value::Serde};

use super::{Gains, tables};
use crate::{
    html::{STYLE, chain, environment},
    text_table,
};

const PAGE: &str = include_str!("../page/gains.html");

pub(super) fn render(gains: &Gains) -> Result<String, String> {
    page(gains).map_err(|error| format!("gains.html: {}", chain(&error)))
}

fn page(gains: &Gains) -> Result<String, minijinja::Error> {
    let mut environment = environment();
    let (name, part) = text_table::PART;
    environment.add_template(name, part)?;
    environment.add_template("gains.html", PAGE)?;
    environment.get_template("gains.html")?.render(context! {
        gains => Value::from(Serde(gains)),
        tables => Value::from(Serde(tables(gains))),
        style => Value::from_safe_string(STYLE.to_owned()),
    })
}
