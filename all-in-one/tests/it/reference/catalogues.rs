//! The tables of transformations, checks, guards, charts, scores, forms and architectures in pages
//! that are otherwise written by hand.

use std::fmt::Write;

use isomer_embed::{arch::SERVED, folder::keys::TABLE};
use isomer_eval::{
    metric::fusion::Fusion, prompts::variant::RULES, report::CHARTS, run::units::VERSION, stored_form::stored_numbers,
};
use isomer_noise::Channel;
use isomer_proto::ProtoEnum;
use isomer_transform::{checks::Check, guards::GUARDS};
use isomer_transformations::{CATALOGUE, Mechanism};

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
            Mechanism::Continuation => "one a cut".to_owned(),
            Mechanism::Rule | Mechanism::Prompts(_) => row.calls().to_string(),
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
    let rows = Channel::ALL.iter().map(|channel| {
        let name = format!("`{}`", channel.name());
        [name, channel.unit().to_owned(), channel.languages().to_owned()]
    });
    compare_part(
        "transformations.md",
        "channels",
        &table(["channel", "unit", "languages"], rows),
    );
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

/// One test, because two would write the page at the same time.
#[test]
fn the_tables_of_forms_and_prompt_variants_are_up_to_date() {
    let rows =
        stored_numbers().map(|(name, stored, bytes)| [format!("`{name}`"), stored.to_owned(), bytes.to_string()]);
    let columns = ["form", "stored numbers", "bytes of 384 dimensions"];
    compare_part("suites.md", "stored forms", &table(columns, rows));
    let rows = Fusion::ALL.map(|fusion| [format!("`{}`", fusion.name()), fusion.description().to_owned()]);
    compare_part("suites.md", "fusions", &table(["fusion", "value of a document"], rows));
    let rows = RULES.map(|(name, rule, prompts)| {
        let reworded = rule.reworded("Retrieve relevant passages: ");
        let example = if reworded.is_empty() {
            reworded
        } else {
            format!("`{reworded}`")
        };
        [format!("`{name}`"), prompts.to_owned(), example]
    });
    let columns = ["variant", "prompts", "`Retrieve relevant passages: ` becomes"];
    compare_part("suites.md", "prompt variants", &table(columns, rows));
}

#[test]
fn the_table_of_architectures_is_up_to_date() {
    let rows = SERVED.map(|family| [format!("`{}`", family.model_type), family.models.to_owned()]);
    compare_part("served.md", "architectures", &table(["`model_type`", "encoders"], rows));
}

#[test]
fn the_table_of_folder_keys_is_up_to_date() {
    let rows = TABLE.iter().map(|group| {
        let keys = group.keys().map(|key| format!("`{key}`"));
        [
            format!("`{}`", group.file.name()),
            keys.collect::<Vec<_>>().join(" "),
            group.rule.to_string(),
        ]
    });
    compare_part("models.md", "folder keys", &table(["file", "keys", "rule"], rows));
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
