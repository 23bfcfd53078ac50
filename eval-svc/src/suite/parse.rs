//! A suite file, field by field.

use std::{collections::HashSet, path::Path};

use isomer_transformations::{Parameter, Value, ValueExpansion, declaration, scorable};
use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{
    DEFAULT_SEEDS, DatasetSpec, OnFailure, Suite, SuiteError, Transformation, dataset, encoder,
    fields::{filled, language_tag, language_tags, within},
    gate, judge, limits, protocol,
    reader::{Document, Section, SpannedValue},
    separation,
};
use crate::{form, task::Profile};

pub(super) const FIELDS: [&str; 28] = [
    "name",
    "description",
    "seeds",
    "transformations",
    "generator",
    "encoders",
    "forms",
    "prompt_variants",
    "prompt_variant",
    "baseline",
    "temperature",
    "top_p",
    "top_k",
    "attempts",
    "retry_identical",
    "retry_temperature",
    "guards",
    "on_fingerprint_change",
    "prompts",
    "on_failure",
    "profile",
    "dataset",
    "encoder",
    "gate",
    "judge",
    "separation",
    "limits",
    "total_items",
];
const MOST_SEEDS: usize = 100;
/// Maximum length of a suite, in bytes. A run keeps its text, and the parsed form is many times
/// larger.
const LONGEST: usize = 256 << 10;

pub(super) fn suite(text: &str, file: &str, base_dir: Option<&Path>) -> Result<Suite, SuiteError> {
    let document = Document { file, text };
    if text.len() > LONGEST {
        let message = format!(
            "has {} bytes, at most {LONGEST}; move its texts to a data set",
            text.len()
        );
        return Err(document.invalid(&(0..0), "suite", message));
    }
    let parsed = DeTable::parse(text).map_err(|error| SuiteError::Syntax {
        file: file.to_owned(),
        line: document.line(error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let top = Section {
        document: &document,
        prefix: String::new(),
        table: parsed.get_ref(),
        span: 0..0,
    };
    top.only(&FIELDS)?;
    let datasets = dataset::datasets(&top, base_dir)?;
    Ok(Suite {
        name: name(&top)?,
        description: top.string("description")?.map(|found| found.value).unwrap_or_default(),
        seeds: seeds(&top)?,
        transformations: protocol::reworded(&top, transformations(&top)?)?,
        total_items: total_items(&top, &datasets)?,
        generator: filled(&document, top.string("generator")?)?,
        encoders: encoders(&top)?,
        forms: top.parsed("forms", form::parse_all)?,
        prompt_variants: encoder::prompt_variants(&top)?,
        encoder_prompts: encoder::prompts(&top)?,
        baseline: filled(&document, top.string("baseline")?)?,
        temperature: within(&document, top.number("temperature")?, 0.0, 2.0, 0.0)?,
        top_p: within(&document, top.number("top_p")?, f64::MIN_POSITIVE, 1.0, 1.0)?,
        top_k: protocol::top_k(&top)?,
        attempts: attempts(&top)?,
        retry_identical: protocol::retry_identical(&top)?,
        retry_temperature: protocol::retry_temperature(&top)?,
        guards: protocol::guards(&top)?,
        on_fingerprint_change: protocol::on_fingerprint_change(&top)?,
        on_failure: on_failure(&top)?,
        profile: profile(&top)?,
        datasets,
        gate: gate::gate(&top)?,
        judge: judge::judge(&top)?,
        separation: separation::separation(&top)?,
        limits: limits::limits(&top)?,
    })
}

/// The rows of all data sets together, which no data set limits.
fn total_items(top: &Section<'_>, datasets: &[DatasetSpec]) -> Result<Option<usize>, SuiteError> {
    let total = dataset::at_least_one(
        top,
        "total_items",
        "leave it out to take all rows, or give each data set a limit",
    )?;
    let limited = datasets.iter().find(|dataset| dataset.limit.is_some());
    if let (Some(_), Some(limited)) = (total, limited) {
        let span = top.get("total_items").map_or(0..0, Spanned::span);
        let message = format!(
            "is given beside the limit of {}; leave one of them out",
            limited.called()
        );
        return Err(top.document.invalid(&span, "total_items", message));
    }
    Ok(total)
}

fn name(top: &Section<'_>) -> Result<String, SuiteError> {
    let Some(found) = filled(top.document, top.string("name")?)? else {
        return Err(top.missing("name", "write a short name, e.g. name = \"nightly\""));
    };
    Ok(found)
}

fn seeds(top: &Section<'_>) -> Result<Vec<u64>, SuiteError> {
    let Some(items) = top.list("seeds")? else {
        return Ok(DEFAULT_SEEDS.to_vec());
    };
    if items.is_empty() || items.len() > MOST_SEEDS {
        let span = top.get("seeds").map_or(0..0, Spanned::span);
        let message = format!("names {} seeds, should name 1 to {MOST_SEEDS}", items.len());
        return Err(top.document.invalid(&span, "seeds", message));
    }
    let mut seen = HashSet::new();
    let mut seeds = Vec::with_capacity(items.len());
    for (field, item) in items {
        let found = top.document.integer(item, field)?;
        if !seen.insert(found.value) {
            let message = format!("{} is named twice; a repeated seed repeats the same texts", found.value);
            return Err(top.document.invalid(&found.span, found.field, message));
        }
        seeds.push(found.value);
    }
    Ok(seeds)
}

fn encoders(top: &Section<'_>) -> Result<Vec<String>, SuiteError> {
    let mut ids: Vec<String> = Vec::new();
    for found in top.strings("encoders")?.unwrap_or_default() {
        if found.value.trim().is_empty() || ids.contains(&found.value) {
            return Err(top
                .document
                .invalid(&found.span, found.field, "is empty or named twice"));
        }
        ids.push(found.value);
    }
    Ok(ids)
}

fn attempts(top: &Section<'_>) -> Result<u32, SuiteError> {
    match top.integer("attempts")? {
        None => Ok(3),
        Some(found) => match u32::try_from(found.value) {
            Ok(attempts @ 1..=10) => Ok(attempts),
            _ => {
                let message = format!("is {}, should be 1 to 10", found.value);
                Err(top.document.invalid(&found.span, found.field, message))
            }
        },
    }
}

fn on_failure(top: &Section<'_>) -> Result<OnFailure, SuiteError> {
    let Some(found) = top.string("on_failure")? else {
        return Ok(OnFailure::KeepOriginal);
    };
    match found.value.as_str() {
        "keep_original" => Ok(OnFailure::KeepOriginal),
        "fail" => Ok(OnFailure::Fail),
        "drop" => Err(top.document.invalid(
            &found.span,
            found.field,
            "a data set with texts missing cannot be scored against its labels; use `keep_original` or `fail`",
        )),
        _ => Err(top.document.unknown_name(found, "policy", &["keep_original", "fail"])),
    }
}

fn profile(top: &Section<'_>) -> Result<Profile, SuiteError> {
    let Some(found) = top.string("profile")? else {
        return Ok(Profile::default());
    };
    let names: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
    Profile::ALL
        .into_iter()
        .find(|profile| profile.name() == found.value)
        .ok_or_else(|| top.document.unknown_name(found, "metric profile", &names))
}

fn transformations(top: &Section<'_>) -> Result<Vec<Transformation>, SuiteError> {
    let Some(items) = top.list("transformations")?.filter(|items| !items.is_empty()) else {
        return Err(top.missing(
            "transformations",
            "name at least one, e.g. transformations = [\"paraphrase\"]",
        ));
    };
    let mut chosen: Vec<Transformation> = Vec::with_capacity(items.len());
    for (field, item) in items {
        let transformation = transformation(top.document, &field, item)?;
        if chosen.iter().any(|other| other.label() == transformation.label()) {
            let message = format!("`{}` is named twice", transformation.label());
            return Err(top.document.invalid(&item.span(), field, message));
        }
        chosen.push(transformation);
    }
    Ok(chosen)
}

/// Reads a name, or a table with a name and parameters.
fn transformation(
    document: &Document<'_>,
    field: &str,
    item: &Spanned<DeValue<'_>>,
) -> Result<Transformation, SuiteError> {
    match item.get_ref() {
        DeValue::String(_) => named(document, document.string(item, field.to_owned())?),
        DeValue::Table(table) => {
            let section = Section {
                document,
                prefix: format!("{field}."),
                table,
                span: item.span(),
            };
            let Some(name) = section.string("name")? else {
                return Err(section.missing("name", "which transformation, e.g. name = \"translation\""));
            };
            let transformation = named(document, name)?;
            let row = transformation.declaration();
            let parameters = || row.parameters.iter().filter(|parameter| parameter.in_suites());
            let known = ["name", "prompt"].into_iter().chain(parameters().map(|one| one.name));
            section.only(&known.collect::<Vec<_>>())?;
            let mut chosen = transformation;
            for parameter in parameters() {
                if let Some(value) = parameter_value(&section, parameter)? {
                    chosen = chosen.with(parameter.name, value);
                }
            }
            one_or_all(&section, &chosen)?;
            protocol::worded(&section, chosen)
        }
        _ => Err(document.wrong_type(item, field.to_owned(), "a name in quotes, or { name = …, parameters }")),
    }
}

fn named(document: &Document<'_>, found: SpannedValue<String>) -> Result<Transformation, SuiteError> {
    let name = found.value.as_str();
    if declaration(name).is_some_and(|row| row.gives_several) {
        let message = format!(
            "`{name}` makes texts of another meaning, for which a dataset's labels do not hold; \
             it belongs to a clsd or graded-ranking task"
        );
        return Err(document.invalid(&found.span, found.field, message));
    }
    let known: Vec<&str> = scorable().map(|row| row.name).collect();
    Transformation::named(name).ok_or_else(|| document.unknown_name(found, "transformation", &known))
}

/// The value of a parameter, if the table gives it.
fn parameter_value(section: &Section<'_>, parameter: &Parameter) -> Result<Option<Json>, SuiteError> {
    let key = parameter.name;
    let value = match parameter.value {
        Value::Name => section.string(key)?.map(|found| Json::from(found.value)),
        Value::Language => language(section, key)?.map(Json::from),
        Value::Languages => Some(language_tags(section, key)?)
            .filter(|tags| !tags.is_empty())
            .map(Json::from),
        Value::Whole { .. } => section.integer(key)?.map(|found| Json::from(found.value)),
        Value::Share { .. } => section.number(key)?.map(|found| Json::from(found.value)),
        Value::Flag => section
            .truth(key)?
            .filter(|found| found.value)
            .map(|found| Json::from(found.value)),
    };
    if let Some(value) = &value
        && let Err(error) = parameter.check(value)
    {
        let span = section.get(key).map_or_else(|| section.span.clone(), Spanned::span);
        let message = format!("{}; {}", error.problem, error.hint);
        return Err(section.document.invalid(&span, section.path(key), message));
    }
    Ok(value)
}

/// Refuses a parameter that is given together with the flag that requests all its values.
fn one_or_all(section: &Section<'_>, chosen: &Transformation) -> Result<(), SuiteError> {
    for parameter in chosen.declaration().parameters {
        if let ValueExpansion::If(flag) = parameter.each
            && chosen.given().contains_key(parameter.name)
            && chosen.parameters().flag(flag)
        {
            let span = section.get(flag).map_or_else(|| section.span.clone(), Spanned::span);
            let message = format!("`{flag}` and `{}` are both given; keep one of the two", parameter.name);
            return Err(section.document.invalid(&span, section.path(flag), message));
        }
    }
    Ok(())
}

fn language(section: &Section<'_>, key: &str) -> Result<Option<String>, SuiteError> {
    section
        .string(key)?
        .map(|found| language_tag(section.document, found))
        .transpose()
}
