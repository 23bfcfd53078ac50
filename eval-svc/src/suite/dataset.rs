//! The data sets of a suite file.

use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use super::{
    DatasetSource, DatasetSpec, DeclaredLeak, SuiteError,
    fields::{filled, language_tags, within},
    reader::{Document, Section},
};
use crate::{
    dataset::{HubRef, catalogue},
    task::TaskType,
};

pub(super) const FIELDS: [&str; 21] = [
    "task",
    "builtin",
    "path",
    "catalogue",
    "hub",
    "fields",
    "name",
    "split",
    "language",
    "languages",
    "group",
    "limit",
    "train_limit",
    "sample_seed",
    "ignore_identical_ids",
    "samples_per_label",
    "max_fraction",
    "legacy_clustering",
    "sets",
    "max_leak",
    "leak",
];
/// Fields that name a source.
const SOURCES: [&str; 4] = ["builtin", "path", "catalogue", "hub"];

pub(super) fn datasets(top: &Section<'_>, base_dir: Option<&Path>) -> Result<Vec<DatasetSpec>, SuiteError> {
    let Some(items) = top.list("dataset")?.filter(|items| !items.is_empty()) else {
        return Err(top.missing(
            "dataset",
            "add at least one [[dataset]] with a task and a path or builtin",
        ));
    };
    items
        .into_iter()
        .map(|(field, item)| dataset(top.document, &field, item, base_dir))
        .collect()
}

fn dataset(
    document: &Document<'_>,
    field: &str,
    item: &Spanned<DeValue<'_>>,
    base_dir: Option<&Path>,
) -> Result<DatasetSpec, SuiteError> {
    let DeValue::Table(table) = item.get_ref() else {
        return Err(document.wrong_type(item, field.to_owned(), "a table: [[dataset]]"));
    };
    let section = Section {
        document,
        prefix: format!("{field}."),
        table,
        span: item.span(),
    };
    section.only(&FIELDS)?;
    let source = source(&section, base_dir)?;
    let kind = task(&section, &source)?;
    let only_for = |key: &str, needed: TaskType| match section.get(key) {
        Some(value) if kind != needed => {
            let message = format!("applies only to {needed}, not to {kind}");
            Err(document.invalid(&value.span(), section.path(key), message))
        }
        _ => Ok(()),
    };
    only_for("samples_per_label", TaskType::Classification)?;
    only_for("train_limit", TaskType::Classification)?;
    only_for("max_fraction", TaskType::Clustering)?;
    only_for("legacy_clustering", TaskType::Clustering)?;
    only_for("sets", TaskType::Clustering)?;
    Ok(DatasetSpec {
        task: kind,
        source,
        name: filled(document, section.string("name")?)?,
        split: filled(document, section.string("split")?)?,
        language: filled(document, section.string("language")?)?,
        languages: language_tags(&section, "languages")?,
        group: filled(document, section.string("group")?)?,
        limit: at_least_one(&section, "limit", "leave it out to take all rows")?,
        train_limit: at_least_one(&section, "train_limit", "leave it out to take all rows")?,
        sample_seed: section.integer("sample_seed")?.map(|found| found.value),
        fields: fields(&section)?,
        ignore_identical_ids: ignore_identical_ids(&section, kind)?,
        samples_per_label: at_least_one(&section, "samples_per_label", "leave it out for 8")?,
        max_fraction: match section.number("max_fraction")? {
            None => None,
            found => Some(within(document, found, f64::MIN_POSITIVE, 1.0, 1.0)?),
        },
        legacy_clustering: section.truth("legacy_clustering")?.is_some_and(|found| found.value),
        sets: at_least_one(&section, "sets", "leave it out for the catalogue's number, or 1")?,
        leak: leak(&section)?,
        origin: format!("{}:{}", document.file, document.line(item.span().start)),
    })
}

/// `max_leak` and its reason `leak`: both or none.
fn leak(section: &Section<'_>) -> Result<Option<DeclaredLeak>, SuiteError> {
    let document = section.document;
    let reason = filled(document, section.string("leak")?)?;
    match (section.number("max_leak")?, reason) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(section.missing(
            "max_leak",
            "the largest share of its rows that may leak, e.g. max_leak = 0.35",
        )),
        (Some(_), None) => Err(section.missing("leak", "the reason why its rows may leak")),
        (found, Some(reason)) => Ok(Some(DeclaredLeak {
            share: within(document, found, 0.0, 1.0, 0.0)?,
            reason,
        })),
    }
}

/// The task that is named, else the catalogue's.
fn task(section: &Section<'_>, source: &DatasetSource) -> Result<TaskType, SuiteError> {
    let document = section.document;
    let known = match source {
        DatasetSource::Catalogue(name) => catalogue::find(name).map(|entry| entry.task),
        _ => None,
    };
    let Some(named) = section.string("task")? else {
        return known.ok_or_else(|| section.missing("task", "the kind of task, e.g. task = \"sts\""));
    };
    let names: Vec<&str> = TaskType::ALL.iter().map(|task| task.name()).collect();
    let Some(kind) = TaskType::named(&named.value) else {
        return Err(document.unknown_name(named, "task type", &names));
    };
    match known.filter(|known| *known != kind) {
        Some(known) => {
            let message = format!("is {kind}, and the data set is for {known}; leave the line out");
            Err(document.invalid(&named.span, named.field, message))
        }
        None => Ok(kind),
    }
}

pub(super) fn at_least_one(section: &Section<'_>, key: &str, hint: &str) -> Result<Option<usize>, SuiteError> {
    match section.integer(key)? {
        Some(found) if found.value == 0 => {
            Err(section
                .document
                .invalid(&found.span, found.field, format!("is 0; {hint}")))
        }
        found => Ok(found.map(|found| usize::try_from(found.value).unwrap_or(usize::MAX))),
    }
}

/// `fields = { sentence1 = "text_a" }`.
fn fields(section: &Section<'_>) -> Result<Vec<(String, String)>, SuiteError> {
    let Some(value) = section.get("fields") else {
        return Ok(Vec::new());
    };
    let DeValue::Table(table) = value.get_ref() else {
        let wanted = "a table of Isomer's names to the data's, e.g. { sentence1 = \"text_a\" }";
        return Err(section.document.wrong_type(value, section.path("fields"), wanted));
    };
    let pair = |(ours, theirs): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let field = format!("{}.{}", section.path("fields"), ours.get_ref());
        let theirs = filled(section.document, Some(section.document.string(theirs, field)?))?;
        Ok((ours.get_ref().to_string(), theirs.unwrap_or_default()))
    };
    table.iter().map(pair).collect()
}

fn ignore_identical_ids(section: &Section<'_>, task: TaskType) -> Result<bool, SuiteError> {
    let Some(found) = section.truth("ignore_identical_ids")? else {
        return Ok(false);
    };
    if found.value && task != TaskType::Retrieval {
        return Err(section.document.invalid(
            &found.span,
            found.field,
            "only retrieval has queries and documents with ids",
        ));
    }
    Ok(found.value)
}

fn source(section: &Section<'_>, base_dir: Option<&Path>) -> Result<DatasetSource, SuiteError> {
    let document = section.document;
    let mut named = Vec::new();
    for key in SOURCES {
        named.extend(section.string(key)?.map(|found| (key, found)));
    }
    let mut named = named.into_iter();
    let Some((key, found)) = named.next() else {
        let hint = "where the data is: path = \"…\", catalogue = \"STSBenchmark\", hub = \"org/name\" or builtin = \"quick/sts\"";
        return Err(section.missing("path", hint));
    };
    if let Some((_, second)) = named.next() {
        let message = format!("names a second source beside `{key}`; keep one");
        return Err(document.invalid(&second.span, second.field, message));
    }
    match key {
        "builtin" => Ok(DatasetSource::Builtin(found.value)),
        "catalogue" => match catalogue::find(&found.value) {
            Some(entry) => Ok(DatasetSource::Catalogue(entry.name.clone())),
            None => {
                let names: Vec<&str> = catalogue::entries().iter().map(|entry| entry.name.as_str()).collect();
                Err(document.unknown_name(found, "data set", &names))
            }
        },
        "hub" => HubRef::parse(&found.value).map(DatasetSource::Hub).ok_or_else(|| {
            let message = format!(
                "`{}` is not an id on the hub; write org/name, or org/name:configuration@revision",
                found.value
            );
            document.invalid(&found.span, found.field, message)
        }),
        _ => {
            let path = Path::new(&found.value);
            match base_dir {
                _ if path.is_absolute() => Ok(DatasetSource::Path(path.to_owned())),
                Some(base) => Ok(DatasetSource::Path(base.join(path))),
                None => Err(document.invalid(
                    &found.span,
                    found.field,
                    "is relative, and the folder of the suite file is not known; write an absolute path",
                )),
            }
        }
    }
}
