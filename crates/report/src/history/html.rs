//! `history.html`: one file that fetches nothing and has no script, in the style of the report.

use minijinja::{Value, context, value::Serde};

use super::{History, tables::sections};
use crate::{
    charts::{Figure, releases},
    html::{FIGURES, STYLE, chain, environment, figure, short_digest},
    text_table,
};

const PAGE: &str = include_str!("../page/history.html");

pub(super) fn render(history: &History) -> Result<String, String> {
    page(history).map_err(|error| format!("history.html: {}", chain(&error)))
}

fn page(history: &History) -> Result<String, minijinja::Error> {
    let mut environment = environment();
    environment.add_filter("short", short_digest);
    text_table::add_to(&mut environment)?;
    environment.add_template("figures.html", FIGURES)?;
    environment.add_template("history.html", PAGE)?;
    environment.get_template("history.html")?.render(context! {
        history => Value::from(Serde(history)),
        style => Value::from_safe_string(STYLE.to_owned()),
        figures => [figure(scores(history))],
        sections => Value::from(Serde(sections(history))),
    })
}

/// The chart with its caption.
fn scores(history: &History) -> Figure {
    Figure {
        title: "Scores of each release.".to_owned(),
        caption: "Green: not worse by the margin. Red: worse by it. Grey: neither is shown, or not tested.".to_owned(),
        marks: &[],
        wide: false,
        svg: releases(history, "releases"),
    }
}
