//! The generation of a suite's texts: retries, guards, prompts.

use isomer_proto::{
    ProtoEnum,
    transform::v1::{GuardMode, OnFingerprintChange},
};
use isomer_transformations::scorable;
use std::collections::BTreeMap;

use toml::de::DeValue;

use super::{
    SuiteError, Transformation,
    fields::{table, within},
    reader::{Section, SpannedValue},
};

/// Default minimum temperature of retries.
const RETRY_TEMPERATURE: f64 = 0.7;

pub(super) fn guards(top: &Section<'_>) -> Result<GuardMode, SuiteError> {
    Ok(named(top, "guards", "guard mode")?.unwrap_or(GuardMode::Warn))
}

pub(super) fn on_fingerprint_change(top: &Section<'_>) -> Result<OnFingerprintChange, SuiteError> {
    let found = named(top, "on_fingerprint_change", "use of other versions")?;
    Ok(found.unwrap_or(OnFingerprintChange::Report))
}

/// The value with the name that a field gives.
fn named<E: ProtoEnum>(top: &Section<'_>, field: &'static str, what: &'static str) -> Result<Option<E>, SuiteError> {
    let Some(found) = top.string(field)? else {
        return Ok(None);
    };
    let value = E::named(&found.value).ok_or_else(|| {
        let known: Vec<_> = E::all().map(ProtoEnum::name).collect();
        top.document.unknown_name(found, what, &known)
    })?;
    Ok(Some(value))
}

pub(super) fn retry_identical(top: &Section<'_>) -> Result<bool, SuiteError> {
    Ok(top.truth("retry_identical")?.is_none_or(|found| found.value))
}

pub(super) fn retry_temperature(top: &Section<'_>) -> Result<f64, SuiteError> {
    within(
        top.document,
        top.number("retry_temperature")?,
        0.0,
        2.0,
        RETRY_TEMPERATURE,
    )
}

pub(super) fn top_k(top: &Section<'_>) -> Result<Option<u32>, SuiteError> {
    let Some(found) = top.integer("top_k")? else {
        return Ok(None);
    };
    match u32::try_from(found.value) {
        Ok(most @ 1..) => Ok(Some(most)),
        _ => {
            let message = format!("is {}, should be 1 or more", found.value);
            Err(top.document.invalid(&found.span, found.field, message))
        }
    }
}

/// A transformation with its own prompt.
pub(super) fn worded(section: &Section<'_>, transformation: Transformation) -> Result<Transformation, SuiteError> {
    Ok(match section.string("prompt")? {
        Some(found) => with_prompt(section, transformation, found)?,
        None => transformation,
    })
}

fn with_prompt(
    section: &Section<'_>,
    transformation: Transformation,
    prompt: SpannedValue<String>,
) -> Result<Transformation, SuiteError> {
    let why = match () {
        () if prompt.value.trim().is_empty() => {
            "is empty; name a prompt, e.g. \"paraphrase-b\", or leave it out".to_owned()
        }
        () if !transformation.declaration().needs_generator() => format!(
            "`{}` is made by rule and has no prompt; leave it out",
            transformation.name()
        ),
        () => {
            return Ok(transformation.worded(prompt.value));
        }
    };
    Err(section.document.invalid(&prompt.span, prompt.field, why))
}

/// Applies `prompts = { NAME = "ID" }` to the transformations that do not name a prompt.
pub(super) fn reworded(top: &Section<'_>, chosen: Vec<Transformation>) -> Result<Vec<Transformation>, SuiteError> {
    let Some(item) = top.get("prompts") else {
        return Ok(chosen);
    };
    let section = table(
        top.document,
        "prompts",
        item,
        "a table such as { paraphrase = \"paraphrase-b\" }",
    )?;
    let DeValue::Table(keys) = item.get_ref() else {
        return Ok(chosen);
    };
    let known: Vec<&str> = scorable().map(|row| row.name).collect();
    section.only(&known)?;
    let mut prompts: BTreeMap<String, SpannedValue<String>> = BTreeMap::new();
    for key in keys.keys() {
        let name = key.get_ref().to_string();
        if !chosen.iter().any(|one| one.name() == name) {
            let message = "is not a transformation of this suite; name one of `transformations`";
            return Err(top.document.invalid(&key.span(), section.path(&name), message));
        }
        if let Some(found) = section.string(&name)? {
            prompts.insert(name, found);
        }
    }
    chosen
        .into_iter()
        .map(|one| match prompts.get(one.name()) {
            Some(found) if one.prompt().is_none() => {
                let found = SpannedValue {
                    value: found.value.clone(),
                    field: found.field.clone(),
                    span: found.span.clone(),
                };
                with_prompt(&section, one, found)
            }
            _ => Ok(one),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::float_cmp)]
    use super::*;
    use crate::suite::Suite;

    fn parse(lines: &str) -> Result<Suite, String> {
        let text = format!("name = \"x\"\n{lines}\n[[dataset]]\ntask = \"sts\"\nbuiltin = \"quick/sts\"\n");
        Suite::parse(&text, "x.toml", None).map_err(|error| error.to_string())
    }

    fn labels(lines: &str) -> Result<Vec<String>, String> {
        Ok(parse(lines)?
            .transformations
            .iter()
            .map(Transformation::label)
            .collect())
    }

    #[test]
    fn a_suite_says_how_texts_are_retried() {
        let plain = parse("transformations = [\"paraphrase\"]").unwrap();
        assert_eq!(
            (plain.retry_identical, plain.retry_temperature, plain.guards),
            (true, 0.7, GuardMode::Warn)
        );
        assert_eq!(plain.on_fingerprint_change, OnFingerprintChange::Report);
        assert_eq!(plain.top_k, None);
        let told = "transformations = [\"paraphrase\"]\nretry_identical = false\nretry_temperature = 0\nguards = \"retry\"\ntop_k = 40\non_fingerprint_change = \"regenerate\"";
        let told = parse(told).unwrap();
        assert_eq!(
            (told.retry_identical, told.retry_temperature, told.guards),
            (false, 0.0, GuardMode::Retry)
        );
        assert_eq!(told.top_k, Some(40));
        assert_eq!(told.on_fingerprint_change, OnFingerprintChange::Regenerate);
        let wrong = parse("transformations = [\"paraphrase\"]\non_fingerprint_change = \"ignored\"").unwrap_err();
        assert!(wrong.contains("did you mean `ignore`"), "{wrong}");
        let wrong = parse("transformations = [\"paraphrase\"]\nguards = \"retri\"").unwrap_err();
        assert!(wrong.contains("did you mean `retry`"), "{wrong}");
        let zero = parse("transformations = [\"paraphrase\"]\ntop_k = 0").unwrap_err();
        assert!(zero.contains("top_k") && zero.contains("1 or more"), "{zero}");
    }

    #[test]
    fn the_suites_of_hteb_keep_its_protocol_and_ptebs_its() {
        for name in ["hteb-english", "hteb-multilingual", "minimal"] {
            let suite = Suite::builtin(name).unwrap();
            assert_eq!((suite.temperature, suite.top_p), (0.0, 1.0), "{name}");
            assert_eq!((suite.retry_identical, suite.retry_temperature), (false, 0.0), "{name}");
        }
        let pteb = Suite::builtin("pteb").unwrap();
        assert_eq!((pteb.temperature, pteb.top_p, pteb.top_k), (0.8, 0.9, Some(40)));
        assert_eq!(pteb.seeds, [1337, 1338, 1339, 1340, 1341, 1342]);
    }

    #[test]
    fn wordings_of_one_transformation_stand_side_by_side() {
        let lines = "transformations = [\"paraphrase\", { name = \"paraphrase\", prompt = \"paraphrase-b\" }, \"expansion\"]\n\
                     prompts = { expansion = \"expansion-short\" }";
        assert_eq!(
            labels(lines).unwrap(),
            ["paraphrase", "paraphrase(paraphrase-b)", "expansion(expansion-short)"]
        );
        let twice = "transformations = [\"paraphrase\", \"paraphrase\"]\nprompts = { paraphrase = \"paraphrase-b\" }";
        let twice = labels(twice).unwrap_err();
        assert!(
            twice.contains("transformations[1]") && twice.contains("named twice"),
            "{twice}"
        );
    }

    #[test]
    fn a_prompt_that_nothing_uses_is_refused() {
        let unused =
            labels("transformations = [\"paraphrase\"]\nprompts = { expansion = \"expansion-short\" }").unwrap_err();
        assert!(
            unused.contains("`prompts.expansion`") && unused.contains("not a transformation of this suite"),
            "{unused}"
        );
        let rule = labels("transformations = [{ name = \"stopword_removal\", prompt = \"x\" }]").unwrap_err();
        assert!(rule.contains("made by rule"), "{rule}");
        let typo =
            labels("transformations = [\"paraphrase\"]\nprompts = { paraphrse = \"paraphrase-b\" }").unwrap_err();
        assert!(typo.contains("paraphrase"), "{typo}");
    }
}
