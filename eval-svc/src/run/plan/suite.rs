//! The suite of a run: the suite that a request names, with the request's overrides.

use std::collections::HashSet;

use isomer_config::spelling::suggest;
use isomer_transformations::scorable;

use isomer_proto::{ProtoEnum, transform::v1::OnFingerprintChange};

use crate::{
    form,
    prompts::variant::{self, PromptVariant},
    run::{
        RunError,
        error::invalid,
        record::{RunRequest, SuiteChoice},
    },
    suite::{Suite, Transformation},
};

/// In a request in place of names: none of the suite's variants.
const OFF: &str = "off";

/// The suite of a request with the request's overrides, and the digest of its text.
pub(crate) fn requested(request: &RunRequest) -> Result<(Suite, String), RunError> {
    let (mut suite, digest) = read(&request.suite)?;
    override_settings(&mut suite, request)?;
    override_samples(&mut suite, request)?;
    override_transformations(&mut suite, &request.transformations)?;
    Ok((suite, digest))
}

fn read(choice: &SuiteChoice) -> Result<(Suite, String), RunError> {
    let (suite, text) = match choice {
        SuiteChoice::Builtin { name } => {
            let text = crate::suite::BUILTIN
                .iter()
                .find(|(known, _)| known == name)
                .map_or("", |(_, text)| text);
            (Suite::builtin(name)?, text)
        }
        SuiteChoice::Toml {
            text,
            file_name,
            base_dir,
        } => {
            let file = if file_name.is_empty() { "suite" } else { file_name };
            (Suite::parse(text, file, base_dir.as_deref())?, text.as_str())
        }
    };
    Ok((suite, blake3::hash(text.as_bytes()).to_hex().to_string()))
}

fn override_settings(suite: &mut Suite, request: &RunRequest) -> Result<(), RunError> {
    suite.gate = std::mem::take(&mut suite.gate).overlaid(&request.gate);
    suite.judge = std::mem::take(&mut suite.judge).overlaid(&request.judge);
    suite.limits = suite.limits.overlaid(&request.limits);
    suite.separation = std::mem::take(&mut suite.separation).overlaid(&request.separation);
    if request.baseline.is_some() {
        suite.baseline.clone_from(&request.baseline);
    }
    if request.forms == [OFF] {
        suite.forms.clear();
    } else if !request.forms.is_empty() {
        suite.forms = form::parse_all(&request.forms)
            .map_err(|(position, message)| invalid(format!("spec.forms[{position}]"), message))?;
    }
    if request.prompt_variants == [OFF] {
        suite.prompt_variants.clear();
    } else if !request.prompt_variants.is_empty() {
        let own = suite.prompt_variants.iter().filter(|one| one.is_given());
        let own: Vec<PromptVariant> = own.cloned().collect();
        suite.prompt_variants = variant::parse_all(&request.prompt_variants, &own)
            .map_err(|(position, message)| invalid(format!("spec.prompt_variants[{position}]"), message))?;
    }
    if !request.seeds.is_empty() {
        let distinct: HashSet<u64> = request.seeds.iter().copied().collect();
        if distinct.len() < request.seeds.len() {
            return Err(invalid(
                "spec.seeds",
                "a seed is named twice; a repeated seed repeats the same texts",
            ));
        }
        suite.seeds.clone_from(&request.seeds);
    }
    if let Some(on_change) = &request.on_fingerprint_change {
        let known = OnFingerprintChange::named(on_change);
        suite.on_fingerprint_change =
            known.ok_or_else(|| invalid("spec.on_fingerprint_change", format!("unknown setting `{on_change}`")))?;
    }
    if let Some(temperature) = request.temperature {
        if !(0.0..=2.0).contains(&temperature) {
            return Err(invalid(
                "spec.temperature",
                format!("is {temperature}, should be 0 to 2"),
            ));
        }
        suite.temperature = temperature;
    }
    Ok(())
}

/// Overrides the number and the draw of the rows.
fn override_samples(suite: &mut Suite, request: &RunRequest) -> Result<(), RunError> {
    if request.limit.is_some() && request.total_items.is_some() {
        let message = "is given beside limit, the number of rows of each data set; leave one of them out";
        return Err(invalid("spec.total_items", message));
    }
    if let Some(limit) = request.limit {
        if limit == 0 {
            return Err(invalid("spec.limit", "is 0; leave it out to take all rows"));
        }
        suite.total_items = None;
        for dataset in &mut suite.datasets {
            dataset.limit = Some(limit as usize);
        }
    }
    if let Some(total) = request.total_items {
        suite.total_items = Some(total as usize);
    }
    if let Some(total) = suite.total_items.filter(|total| *total < suite.datasets.len()) {
        let message = format!(
            "total_items is {total}, but there are {} data sets; give at least as many",
            suite.datasets.len()
        );
        let field = match request.total_items {
            Some(_) => "spec.total_items",
            None => "spec.suite",
        };
        return Err(invalid(field, message));
    }
    if let Some(seed) = request.sample_seed {
        for dataset in &mut suite.datasets {
            dataset.sample_seed = Some(seed);
        }
    }
    Ok(())
}

/// Chooses the transformations with these names, if there are any.
fn override_transformations(suite: &mut Suite, names: &[String]) -> Result<(), RunError> {
    if names.is_empty() {
        return Ok(());
    }
    let mut chosen: Vec<Transformation> = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let field = format!("spec.transformations[{i}]");
        // A transformation that the suite also names keeps the suite's parameters.
        let own: Vec<Transformation> = suite
            .transformations
            .iter()
            .filter(|t| t.name() == name || t.label() == *name)
            .cloned()
            .collect();
        let found = if own.is_empty() {
            Transformation::named(name)
                .filter(|named| !named.declaration().gives_several)
                .into_iter()
                .collect()
        } else {
            own
        };
        if found.is_empty() {
            let known: Vec<_> = scorable().map(|row| row.name).collect();
            let hint = suggest(name, &known);
            return Err(invalid(field, format!("unknown transformation `{name}`; {hint}")));
        }
        for transformation in found {
            if !chosen.contains(&transformation) {
                chosen.push(transformation);
            }
        }
    }
    suite.transformations = chosen;
    Ok(())
}
