//! A report with other names for its encoders.

use serde_json::{Map, Value};

use crate::Report;

/// The report with other names for encoders: pairs of the name in the report and the new one. A
/// name is replaced wherever it occurs, including texts about an encoder, so names must be
/// unambiguous, as paths are.
///
/// # Errors
/// If the report cannot be written as JSON, which is an internal error.
pub fn renamed(report: &Report, names: &[(String, String)]) -> Result<Report, String> {
    let mut names: Vec<&(String, String)> = names.iter().filter(|(from, _)| !from.is_empty()).collect();
    // `…/enc-v1` is also part of `…/enc-v10`.
    names.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    let value = serde_json::to_value(report).map_err(|error| error.to_string())?;
    serde_json::from_value(with(value, &names)).map_err(|error| error.to_string())
}

fn with(value: Value, names: &[&(String, String)]) -> Value {
    match value {
        Value::String(text) => Value::String(text_with(text, names)),
        Value::Array(all) => Value::Array(all.into_iter().map(|one| with(one, names)).collect()),
        Value::Object(all) => {
            let all = all
                .into_iter()
                .map(|(key, one)| (text_with(key, names), with(one, names)));
            Value::Object(all.collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn text_with(text: String, names: &[&(String, String)]) -> String {
    names.iter().fold(text, |text, (from, to)| match text.contains(from) {
        true => text.replace(from, to),
        false => text,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn report() -> Report {
        let file = "../../eval-svc/fixtures/report/report.json";
        crate::read(&std::fs::read(file).unwrap()).unwrap()
    }

    #[test]
    fn every_form_has_the_new_names_alone_and_nothing_else_is_changed() {
        let report = report();
        let ids: Vec<String> = report.encoders.iter().map(|one| one.id.clone()).collect();
        let to = |places: [&str; 2]| -> Vec<(String, String)> {
            let both = ids.iter().enumerate();
            both.map(|(n, id)| (id.clone(), format!("{}{n}{}", places[0], places[1])))
                .collect()
        };
        let paths = to(["/tmp/ab/enc-v", ""]);
        let first = renamed(&report, &paths).unwrap();
        assert!(first.encoders.iter().all(|one| one.id.starts_with("/tmp/ab/enc-v")));
        let names: Vec<(String, String)> = paths
            .iter()
            .enumerate()
            .map(|(n, (_, path))| (path.clone(), format!("models:/enc/{n}")))
            .collect();
        let second = renamed(&first, &names).unwrap();
        for (name, content) in crate::files(&second).unwrap() {
            let text = String::from_utf8(content).unwrap();
            assert!(text.contains("models:/enc/0"), "{name}");
            assert!(!text.contains("/tmp/ab"), "{name}");
        }
        let back: Vec<(String, String)> = names
            .iter()
            .zip(&ids)
            .map(|((_, name), id)| (name.clone(), id.clone()))
            .collect();
        let json = |report: &Report| crate::files(report).unwrap().swap_remove(0).1;
        assert_eq!(json(&renamed(&second, &back).unwrap()), json(&report));
    }

    #[test]
    fn a_name_that_begins_as_another_one_is_not_taken_for_it() {
        let mut report = report();
        report.encoders[0].id = "/f/enc-v1".to_owned();
        report.encoders[1].id = "/f/enc-v10".to_owned();
        let names = [("/f/enc-v1", "one"), ("/f/enc-v10", "ten")].map(|(from, to)| (from.to_owned(), to.to_owned()));
        let named = renamed(&report, &names).unwrap();
        assert_eq!(
            (named.encoders[0].id.as_str(), named.encoders[1].id.as_str()),
            ("one", "ten")
        );
    }
}
