//! The encoders of a run: those that it names, and variants of them.

use isomer_proto::encoder::v1::Encoder;

use super::table::Table;
use crate::{
    encoding,
    form::Form,
    gate::EncoderForm,
    prompts::variant::PromptVariant,
    run::{RunContext, RunError, error::invalid, record::RunRequest},
    stored_form::form_name,
    suite::Suite,
    task::TaskType,
};

/// Maximum number of encoders of one run.
const MOST_ENCODERS: usize = 256;

/// An encoder of a run as its service has it, or a variant of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EncoderVariant {
    /// As the service has it.
    Plain,
    /// With its vectors stored, or its documents searched, in another way.
    Form(Form),
    /// With other prompts.
    Prompts(PromptVariant),
}

/// Position of the encoder whose variant this is.
pub(crate) fn served(variants: &[EncoderVariant], encoder: usize) -> usize {
    (0..=encoder)
        .rev()
        .find(|position| variants.get(*position) == Some(&EncoderVariant::Plain))
        .unwrap_or(encoder)
}

/// An encoder of the run, or a variant of one.
pub(crate) struct EncoderChoice {
    /// Name in the run.
    pub(crate) name: String,
    /// Id of the encoder that returns the vectors.
    id: String,
    variant: EncoderVariant,
}

impl EncoderChoice {
    fn new(id: &str, variant: EncoderVariant) -> Self {
        Self {
            name: match &variant {
                EncoderVariant::Plain => id.to_owned(),
                EncoderVariant::Form(form) => form_name(id, form),
                EncoderVariant::Prompts(variant) => variant.name_of(id),
            },
            id: id.to_owned(),
            variant,
        }
    }

    /// Its form, for the rules of a gate.
    pub(crate) fn form(&self) -> EncoderForm {
        EncoderForm {
            name: match &self.variant {
                EncoderVariant::Plain | EncoderVariant::Prompts(_) => EncoderForm::NONE.to_owned(),
                EncoderVariant::Form(form) => form.to_string(),
            },
            is_search: matches!(self.variant, EncoderVariant::Form(Form::Search(_))),
        }
    }
}

/// The encoders of the request, otherwise the suite's, otherwise the default, each followed by its
/// variants; then the baseline, which has no variants unless it is one of them.
pub(crate) fn choices(
    context: &RunContext,
    suite: &Suite,
    request: &RunRequest,
) -> Result<Vec<EncoderChoice>, RunError> {
    let asked = match (request.encoders.as_slice(), suite.encoders.as_slice()) {
        ([], []) => std::slice::from_ref(&context.config.default_encoder),
        ([], own) => own,
        (own, _) => own,
    };
    let mut choices: Vec<EncoderChoice> = Vec::new();
    for id in asked {
        if id.trim().is_empty() {
            return Err(invalid("spec.encoder_ids", "an encoder id is empty"));
        }
        let forms = suite.forms.iter().copied().map(EncoderVariant::Form);
        let prompts = suite.prompt_variants.iter().cloned().map(EncoderVariant::Prompts);
        for variant in [EncoderVariant::Plain].into_iter().chain(forms).chain(prompts) {
            let choice = EncoderChoice::new(id, variant);
            match choices.iter().find(|other| other.name == choice.name) {
                Some(other) if other.variant != choice.variant => {
                    let message = format!(
                        "names the encoder `{}`, and a variant of another has that name; leave one out",
                        choice.name
                    );
                    return Err(invalid("spec.encoder_ids", message));
                }
                Some(_) => {}
                None => choices.push(choice),
            }
        }
    }
    if suite.baseline.as_ref().is_some_and(|id| id.trim().is_empty()) {
        return Err(invalid("spec.baseline_encoder_id", "is empty"));
    }
    if let Some(baseline) = &suite.baseline
        && !choices.iter().any(|choice| choice.name == *baseline)
    {
        choices.push(EncoderChoice::new(baseline, EncoderVariant::Plain));
    }
    if choices.len() > MOST_ENCODERS {
        return Err(invalid(
            "spec.encoder_ids",
            format!("names {} encoders and variants, at most {MOST_ENCODERS}", choices.len()),
        ));
    }
    Ok(choices)
}

async fn encoder(context: &RunContext, id: &str) -> Result<Encoder, RunError> {
    let encoder = encoding::describe(&context.clients.encoder, id)
        .await
        .map_err(|error| RunError::encoding(id, error, |_| String::new()))?;
    let space = encoder.vector_space.as_ref().map_or("", |space| space.digest.as_str());
    if space.is_empty() {
        return Err(RunError::BadVectors {
            id: id.to_owned(),
            message:
                "its description names no vector space, so its scores could not be distinguished from another encoder's"
                    .to_owned(),
        });
    }
    Ok(encoder)
}

/// Descriptions of the encoders, and the kind of each.
pub(crate) async fn described(
    context: &RunContext,
    choices: Vec<EncoderChoice>,
) -> Result<(Vec<Encoder>, Vec<EncoderVariant>), RunError> {
    let (mut encoders, mut variants) = (Vec::new(), Vec::new());
    let mut source: Option<Encoder> = None;
    for choice in choices {
        let described = match source.take().filter(|source| source.id == choice.id) {
            Some(source) => source,
            None => encoder(context, &choice.id).await?,
        };
        encoders.push(match &choice.variant {
            EncoderVariant::Form(Form::Stored(form)) => form
                .encoder(&described)
                .map_err(|message| invalid("spec.forms", message))?,
            EncoderVariant::Form(Form::Search(form)) => form.encoder(&described),
            _ => Encoder {
                id: choice.name,
                ..described.clone()
            },
        });
        variants.push(choice.variant);
        source = Some(described);
    }
    Ok((encoders, variants))
}

/// Refuses data sets that have no search, if a form is one.
pub(crate) fn searched(suite: &Suite, tables: &[Table]) -> Result<(), RunError> {
    let Some(form) = suite.forms.iter().find(|form| matches!(form, Form::Search(_))) else {
        return Ok(());
    };
    match tables.iter().find(|table| table.dataset.task() != TaskType::Retrieval) {
        None => Ok(()),
        Some(table) => Err(invalid(
            "spec.forms",
            format!(
                "`{form}` is a search, and `{}` is a data set of {}; run the data sets of retrieval by themselves, or \
                 leave the form out",
                table.dataset.name(),
                table.dataset.task()
            ),
        )),
    }
}

/// Refuses corpora that are searched in shards. Their documents' vectors are not kept.
pub(crate) fn whole_corpora(tables: &[Table], shard: usize) -> Result<(), RunError> {
    match tables.iter().find(|table| table.sharded_documents(shard).is_some()) {
        None => Ok(()),
        Some(table) => Err(invalid(
            "spec.forms",
            format!(
                "cannot be measured on `{}`, whose documents are searched in shards of {shard}; raise \
                 `eval.shard_documents`, or leave the data set out",
                table.dataset.name()
            ),
        )),
    }
}
