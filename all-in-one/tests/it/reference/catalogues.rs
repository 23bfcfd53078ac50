//! The tables of transformations, checks, guards, charts and scores in pages that are otherwise
//! written by hand.

use std::fmt::Write;

use isomer_eval::{report::CHARTS, run::units::VERSION};
use isomer_proto::ProtoEnum;
use isomer_transform::{checks::Check, guards::GUARDS};
use isomer_transformations::{CATALOGUE, Making};

use super::{cell, compare_part, protos, read};

/// A table of these columns.
pub(super) fn table<const N: usize>(columns: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(N));
    for row in rows {
        writeln!(table, "| {} |", row.map(|content| cell(&content)).join(" | ")).unwrap();
    }
    table
}

/// One test, because two would write the page at the same time.
#[test]
fn the_tables_of_transformations_and_checks_are_up_to_date() {
    let rows = CATALOGUE.iter().map(|row| {
        let calls = match row.making {
            Making::Continuation => "one a cut".to_owned(),
            Making::Rule | Making::Prompts(_) => row.calls().to_string(),
        };
        let parameters = row.parameters.iter().map(|parameter| format!("`{}`", parameter.name));
        let (name, parameters) = (format!("`{}`", row.name), parameters.collect::<Vec<_>>().join(" "));
        [
            name,
            calls,
            row.axis.name().to_owned(),
            row.description.to_owned(),
            parameters,
        ]
    });
    let columns = ["name", "calls", "axis", "what it makes", "parameters"];
    compare_part("transformations.md", "transformations", &table(columns, rows));
    let comments = protos::values("isomer/transform/v1/transform.proto", "Check");
    let rows = Check::all().zip(comments).map(|(check, (value, comment))| {
        assert_eq!(value, check.as_str_name());
        [check.name().replace('_', " "), comment]
    });
    compare_part("transformations.md", "checks", &table(["check", "what it finds"], rows));
}

#[test]
fn the_table_of_guards_is_up_to_date() {
    let rows = GUARDS.map(|row| [row.guard.name(), row.facts, row.languages, row.elsewhere].map(str::to_owned));
    compare_part(
        "guards.md",
        "guards",
        &table(["guard", "looks for", "languages", "elsewhere"], rows),
    );
}

#[test]
fn the_table_of_charts_is_up_to_date() {
    let rows = CHARTS.iter().map(|chart| {
        let place = if chart.first { "open" } else { "folded" };
        [chart.title.trim_end_matches('.'), chart.shows, place].map(str::to_owned)
    });
    compare_part(
        "reports.md",
        "charts",
        &table(["chart", "what it shows", "on the page"], rows),
    );
}

/// `eval-svc/tests/it/score_keys.rs` compares the file with the scores of every task.
#[test]
fn the_table_of_scores_is_up_to_date() {
    let file = format!("eval-svc/fixtures/score_keys/{}.txt", VERSION.replace('/', "-"));
    let mut rows: Vec<[String; 3]> = Vec::new();
    for line in read(&file).lines() {
        let (subject, keys) = line.split_once(": ").unwrap();
        let (task, profile) = subject.split_once(", ").unwrap();
        let mut scores: Vec<String> = Vec::new();
        for key in keys.split(' ').map(|key| format!("`{}`", at_k(key))) {
            if !scores.contains(&key) {
                scores.push(key);
            }
        }
        let scores = scores.join(" ");
        match rows.last_mut() {
            Some([last, profiles, same]) if last == task && *same == scores => *profiles += &format!(", {profile}"),
            _ => rows.push([task.to_owned(), profile.to_owned(), scores]),
        }
    }
    compare_part("tasks.md", "scores", &table(["task", "profiles", "scores"], rows));
}

/// A key whose cut-off is `k`.
fn at_k(key: &str) -> String {
    let Some((name, rest)) = key.split_once("_at_") else {
        return key.to_owned();
    };
    format!("{name}_at_k{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}
