//! Options that only discrimination has: a pivot language, and parts of speech of the words that
//! differ.

use isomer_proto::eval::v1::{DatasetInput, PivotReport, TaskOptions};
use isomer_service_kit::Fault;
use isomer_tagger::Tagger;

use crate::{clients::EvalClients, config::EvalConfig, dataset::Dataset, error::EvalError, pivot, task::TaskType};

/// The language that the tagger supports.
const TAGGED: &str = "en";

/// Refuses options of discrimination for another task, and options that cannot be combined.
pub(super) fn check(task: TaskType, input: &DatasetInput, options: &TaskOptions) -> Result<(), Fault> {
    let other = task != TaskType::Clsd;
    if options.tag_parts_of_speech && other {
        return Err(tags_of_other(task));
    }
    let Some(pivot) = &input.pivot else { return Ok(()) };
    if other {
        return Err(Fault::invalid("dataset.pivot", format!("{task} has no pivot language"))
            .hint("leave it out, or choose a clsd task"));
    }
    if pivot.language.trim().is_empty() {
        return Err(Fault::invalid("dataset.pivot.language", "no language is named").hint("give one, e.g. en"));
    }
    if input.augmentation.is_some() {
        return Err(
            Fault::invalid("dataset.pivot", "texts are translated or augmented, not both")
                .hint("leave dataset.augmentation or dataset.pivot out"),
        );
    }
    Ok(())
}

/// The error for parts of speech in a task that has no words to tag.
pub(super) fn tags_of_other(task: TaskType) -> Fault {
    let message = format!("{task} has no words that differ, or the request has no texts to find them in");
    Fault::invalid("options.tag_parts_of_speech", message).hint("leave it out, or choose a clsd data set")
}

/// The data set with its texts translated and the differing words tagged, as requested.
pub(super) async fn prepare(
    config: &EvalConfig,
    clients: &EvalClients,
    mut dataset: Dataset,
    input: &DatasetInput,
    options: &TaskOptions,
) -> Result<(Dataset, Option<PivotReport>), Fault> {
    let mut report = None;
    if let Some(wanted) = &input.pivot {
        let (texts, found) = pivot::translate(&clients.transform, config, wanted, &dataset).await?;
        dataset = dataset.with_texts(texts).map_err(EvalError::from)?;
        dataset.note(pivot::sentence(&found));
        dataset.remark("isomer_pivot", pivot::entry(&found));
        report = Some(found);
    }
    let (pairs, unknown) = dataset.one_word_pairs();
    if options.tag_parts_of_speech && unknown > 0 {
        let language = match &report {
            Some(report) => Some(report.language.clone()),
            None => dataset.sides().map(|(_, targets)| targets.to_owned()),
        };
        taggable(language.as_deref())?;
        let tagger = Tagger::english().map_err(|error| Fault::internal(error.to_string()))?;
        let tagged = dataset.tag_one_word_pairs(tagger);
        dataset.note(format!(
            "parts of speech of {tagged} words that differ are those of isomer-tagger"
        ));
    } else if unknown > 0 && pairs > 0 {
        dataset.note(format!(
            "{pairs} distractors differ from their target in one word; of {unknown} of the words no part of speech is known \
             (distractor_pos in the data, or tag_parts_of_speech for English targets)"
        ));
    }
    Ok((dataset, report))
}

/// Checks that the tagger supports the targets' language.
fn taggable(language: Option<&str>) -> Result<(), Fault> {
    let field = "options.tag_parts_of_speech";
    match language {
        Some(language) if pivot::is_in(language, TAGGED) => Ok(()),
        Some(language) => Err(Fault::invalid(
            field,
            format!("the targets are in `{language}`, and the tagger supports only English"),
        )
        .hint("give distractor_pos in the data, put the texts into English (pivot), or leave it out")),
        None => Err(
            Fault::invalid(field, "the data does not say what language the targets are in")
                .hint("name the file by its languages, e.g. test.de-en.jsonl, or give distractor_pos in the data"),
        ),
    }
}
