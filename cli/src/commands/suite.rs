//! `isomer suite`: the shipped suites, and the keys of a suite file.

use std::{io::Write, process::ExitCode};

use isomer_eval::suite::{BUILTIN, KEYS, Suite};
use serde_json::json;

use super::stdout_failure;
use crate::{
    args::{Format, suite::SuiteCommand},
    connect::Session,
    exit::Failure,
    table::{Table, TextTable},
};

pub(super) fn run(session: &Session, command: &SuiteCommand) -> Result<ExitCode, Failure> {
    let text = match command {
        SuiteCommand::Keys => KEYS.to_owned(),
        SuiteCommand::Show { name } => {
            Suite::builtin(name).map_err(|error| Failure::usage(error.to_string()))?;
            let own = BUILTIN.into_iter().find(|(known, _)| known == name);
            own.map(|(_, text)| text.to_owned()).unwrap_or_default()
        }
        SuiteCommand::List => list(session.global.format)?,
    };
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn list(format: Format) -> Result<String, Failure> {
    let mut suites = Vec::new();
    for (name, _) in BUILTIN {
        suites.push(Suite::builtin(name).map_err(|error| Failure::dependency(error.to_string()))?);
    }
    Ok(match format {
        Format::Json => {
            let one = |suite: &Suite| {
                json!({
                    "name": suite.name,
                    "description": suite.description,
                    "datasets": suite.datasets.len(),
                    "transformations": suite.transformations.len(),
                    "seeds": suite.seeds,
                })
            };
            suites.iter().map(|suite| format!("{}\n", one(suite))).collect()
        }
        Format::Text => {
            let shown: Table = TextTable::of(&suites)
                .words("suite", |suite| suite.name.clone())
                .words("data sets", |suite| suite.datasets.len().to_string())
                .words("transformations", |suite| suite.transformations.len().to_string())
                .words("seeds", |suite| suite.seeds.len().to_string())
                .words("description", |suite| suite.description.clone())
                .into();
            format!("{shown}\n")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_suite_is_listed() {
        let Ok(text) = list(Format::Text) else {
            panic!("the shipped suites are valid")
        };
        let Ok(json) = list(Format::Json) else {
            panic!("the shipped suites are valid")
        };
        for (name, _) in BUILTIN {
            assert!(
                text.contains(name) && json.contains(&format!("\"name\":\"{name}\"")),
                "{name} in {text}"
            );
        }
        assert_eq!(json.lines().count(), BUILTIN.len());
    }
}
