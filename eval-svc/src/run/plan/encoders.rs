//! The encoders of a run: those that it names, and variants of them.

use std::ops::Deref;

use isomer_proto::encoder::v1::Encoder;

use super::table::{Slot, Table};
use crate::{
    encoding,
    form::Form,
    gate::EncoderForm,
    prompts::{Layers, PromptSelection, RequestPrompt, variant::PromptVariant},
    run::{RunContext, RunError, error::invalid, record::RunRequest},
    search_form::SearchForm,
    stored_form::{StoredForm, form_name},
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

#[derive(Debug)]
pub(crate) struct PlannedEncoder {
    /// As it described itself.
    pub(crate) encoder: Encoder,
    pub(crate) variant: EncoderVariant,
    pub(crate) prompts: EncoderPrompts,
}

/// The prompts of one encoder.
#[derive(Debug, Default)]
pub(crate) struct EncoderPrompts {
    pub(crate) layers: Layers,
    /// Distinct prompts; slot 1 is the first.
    sent: Vec<RequestPrompt>,
}

impl EncoderPrompts {
    pub(crate) fn new(layers: Layers) -> Self {
        let sent = Vec::new();
        Self { layers, sent }
    }

    /// The prompt sent for a slot; `None`: the encoder's default.
    pub(crate) fn sent(&self, slot: Slot) -> Option<&RequestPrompt> {
        self.sent.get(slot.checked_sub(1)?)
    }

    /// The slot of a prompt; 0 without one.
    pub(crate) fn slot(&mut self, chosen: Option<&PromptSelection>) -> Slot {
        let Some(chosen) = chosen else { return 0 };
        let known = self.sent.iter().position(|sent| *sent == chosen.sent);
        known.unwrap_or_else(|| {
            self.sent.push(chosen.sent.clone());
            self.sent.len() - 1
        }) + 1
    }
}

/// The encoders of a run; each is followed by its forms, then by its prompt variants.
#[derive(Debug)]
pub(crate) struct Encoders(pub(super) Vec<PlannedEncoder>);

impl Deref for Encoders {
    type Target = Vec<PlannedEncoder>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Encoders {
    /// The ids, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|one| one.encoder.id.as_str())
    }

    pub(crate) fn id(&self, encoder: usize) -> &str {
        &self[encoder].encoder.id
    }

    /// Whether it is a variant of another encoder.
    pub(crate) fn is_variant(&self, encoder: usize) -> bool {
        self.served(encoder) != encoder
    }

    /// The stored form of an encoder's vectors, if it is one.
    pub(crate) fn form(&self, encoder: usize) -> Option<StoredForm> {
        match self.get(encoder)?.variant {
            EncoderVariant::Form(Form::Stored(form)) => Some(form),
            _ => None,
        }
    }

    /// The search of an encoder, if it is not the one by its vectors alone.
    pub(crate) fn search(&self, encoder: usize) -> Option<SearchForm> {
        match self.get(encoder)?.variant {
            EncoderVariant::Form(Form::Search(form)) => Some(form),
            _ => None,
        }
    }

    /// Position of the encoder whose variant this is. Its service has only that one.
    pub(crate) fn served(&self, encoder: usize) -> usize {
        let is_plain = |position: &usize| {
            self.get(*position)
                .is_some_and(|one| one.variant == EncoderVariant::Plain)
        };
        (0..=encoder).rev().find(is_plain).unwrap_or(encoder)
    }

    /// Whether an encoder's service does not report its settings, so that another model may answer
    /// under its name unnoticed.
    pub(crate) fn is_provider(&self, encoder: usize) -> bool {
        let served = self.get(self.served(encoder));
        served.is_some_and(|one| !encoding::reports_settings(one.encoder.vector_space.as_ref()))
    }

    /// Position of the encoder whose vectors this one has: a form those of its encoder.
    pub(crate) fn source(&self, encoder: usize) -> usize {
        match self.get(encoder).map(|one| &one.variant) {
            Some(EncoderVariant::Form(_)) => self.served(encoder),
            _ => encoder,
        }
    }
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
    let ids = match (request.encoders.as_slice(), suite.encoders.as_slice()) {
        ([], []) => std::slice::from_ref(&context.config.default_encoder),
        ([], own) => own,
        (own, _) => own,
    };
    let mut choices: Vec<EncoderChoice> = Vec::new();
    for id in ids {
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

/// The encoders with their descriptions, and without prompts.
pub(crate) async fn described(context: &RunContext, choices: Vec<EncoderChoice>) -> Result<Encoders, RunError> {
    let mut encoders = Vec::new();
    let mut source: Option<Encoder> = None;
    for choice in choices {
        let described = match source.take().filter(|source| source.id == choice.id) {
            Some(source) => source,
            None => encoder(context, &choice.id).await?,
        };
        let encoder = match &choice.variant {
            EncoderVariant::Form(Form::Stored(form)) => form
                .encoder(&described)
                .map_err(|message| invalid("spec.forms", message))?,
            EncoderVariant::Form(Form::Search(form)) => form.encoder(&described),
            _ => Encoder {
                id: choice.name,
                ..described.clone()
            },
        };
        encoders.push(PlannedEncoder {
            encoder,
            variant: choice.variant,
            prompts: EncoderPrompts::default(),
        });
        source = Some(described);
    }
    Ok(Encoders(encoders))
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
