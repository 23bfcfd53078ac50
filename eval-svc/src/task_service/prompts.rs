//! Prompts of a score request: reads, chooses and reports them.

use isomer_proto::{
    encoder::v1::Encoder,
    eval::v1::{self as proto, EncoderPrompt, PromptUse, UnusedPrompt, prompt_use},
};
use isomer_service_kit::Fault;
use serde_json::{Value, json};

use crate::{
    dataset::Dataset,
    prompts::{
        DatasetPrompts, GivenPrompt, Layers, Part, PromptSelection, PromptSource, known_roles, unknown_role, unused,
    },
    truncation::CutCount,
};

/// Reads prompts of a request; `field` is their place in it.
///
/// # Errors
/// If a role is empty, or given twice for the same encoder.
pub(crate) fn read(field: &str, prompts: Vec<EncoderPrompt>) -> Result<Vec<GivenPrompt>, Fault> {
    let mut given: Vec<GivenPrompt> = Vec::with_capacity(prompts.len());
    for (i, prompt) in prompts.into_iter().enumerate() {
        let field = format!("{field}[{i}].role");
        if prompt.role.trim().is_empty() {
            let hint = format!("give one of {}, or the name of a data set", known_roles().join(", "));
            return Err(Fault::invalid(field, "is empty: which texts get the prompt?").hint(hint));
        }
        let prompt = GivenPrompt {
            encoder: Some(prompt.encoder_id).filter(|id| !id.is_empty()),
            role: prompt.role,
            text: prompt.text,
        };
        if given
            .iter()
            .any(|other| other.role == prompt.role && other.encoder == prompt.encoder)
        {
            let message = format!("the role `{}` has two prompts", prompt.role);
            return Err(Fault::invalid(field, message).hint("leave one of them out"));
        }
        given.push(prompt);
    }
    Ok(given)
}

/// Checks the prompts of a request against its data set and its encoder.
pub(super) fn check(given: &[GivenPrompt], encoder_id: &str, dataset: &Dataset) -> Result<(), Fault> {
    let names = [dataset.name(), dataset.prompt_name()];
    for (i, prompt) in given.iter().enumerate() {
        if let Some(id) = prompt.encoder.as_ref().filter(|id| *id != encoder_id) {
            let message = format!("is for `{id}`, the request asks for `{encoder_id}`");
            return Err(Fault::invalid(format!("dataset.prompts[{i}].encoder_id"), message).hint("leave it empty"));
        }
        if let Some((message, hint)) = unknown_role(&prompt.role, &names) {
            return Err(Fault::invalid(format!("dataset.prompts[{i}].role"), message).hint(hint));
        }
    }
    Ok(())
}

/// Prompts of one data set under one encoder: those that are used and the rest.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    pub(super) prompts: DatasetPrompts,
    unused: Vec<(PromptSource, String)>,
}

impl Choice {
    /// Chooses the prompts of a data set.
    pub(super) fn new(encoder: &Encoder, given: &[GivenPrompt], dataset: &Dataset) -> Self {
        let layers = Layers::new(encoder, given, None);
        let prompts = DatasetPrompts::choose(&layers, dataset.task(), dataset.prompt_name());
        let used: Vec<&PromptSelection> = prompts.parts().filter_map(|(_, chosen)| chosen).collect();
        let unused = unused(&layers, &used);
        Self { prompts, unused }
    }

    fn used(&self) -> impl Iterator<Item = (Part, &PromptSelection)> {
        self.prompts.parts().filter_map(|(part, chosen)| Some((part, chosen?)))
    }

    /// The prompts as the response reports them.
    pub(super) fn told(&self) -> (Vec<PromptUse>, Vec<UnusedPrompt>) {
        let used = self.used().map(|(part, chosen)| PromptUse {
            part: part.name().to_owned(),
            source: source(chosen.source).into(),
            role: chosen.role.clone(),
            text: chosen.sent.text().map(str::to_owned),
        });
        let unused = self.unused.iter().map(|(from, role)| UnusedPrompt {
            source: source(*from).into(),
            role: role.clone(),
        });
        (used.collect(), unused.collect())
    }

    /// The prompts for mteb's document, in addition to the scores; `None` without any prompt.
    pub(super) fn remark(&self) -> Option<Value> {
        let used: Vec<Value> = self
            .used()
            .map(|(part, chosen)| {
                json!({"part": part, "source": chosen.source, "role": chosen.role, "text": chosen.sent.text()})
            })
            .collect();
        let unused: Vec<Value> = self
            .unused
            .iter()
            .map(|(source, role)| json!({"source": source, "role": role}))
            .collect();
        (!used.is_empty() || !unused.is_empty()).then(|| json!({"used": used, "unused": unused}))
    }

    /// Notes for a human reader: prompts that were given but not used, and the prompts of an
    /// encoder if none of them was used.
    pub(super) fn notes(&self, encoder: &str, dataset: &Dataset) -> Vec<String> {
        let names = |of: &dyn Fn(PromptSource) -> bool| -> Vec<&str> {
            let left = self.unused.iter().filter(|(source, _)| of(*source));
            left.map(|(_, role)| role.as_str()).collect()
        };
        let mut notes = Vec::new();
        let given = names(&|source| source != PromptSource::Encoder);
        if !given.is_empty() {
            notes.push(format!(
                "no text of {} ({}) gets the prompts given for {}",
                dataset.name(),
                dataset.task(),
                given.join(", ")
            ));
        }
        let own = names(&|source| source == PromptSource::Encoder);
        if self.used().next().is_none() && !own.is_empty() {
            notes.push(format!(
                "{encoder} has prompts ({}), but none for {} ({}): its default was used",
                own.join(", "),
                dataset.name(),
                dataset.task()
            ));
        }
        notes
    }
}

/// Adds the prompts and the truncation to the data set's document and notes.
pub(super) fn remarked(mut dataset: Dataset, choice: &Choice, cut: CutCount, encoder: &str) -> Dataset {
    if let Some(remark) = choice.remark() {
        dataset.remark("isomer_prompts", remark);
    }
    for note in choice.notes(encoder, &dataset) {
        dataset.note(note);
    }
    if cut.cut + cut.unknown > 0 {
        dataset.remark("isomer_truncation", json!(cut));
    }
    if cut.cut > 0 {
        dataset.note(format!(
            "{encoder} cut {} of {} distinct texts at its length: what came after is not part of the score",
            cut.cut, cut.texts
        ));
    }
    dataset
}

fn source(source: PromptSource) -> prompt_use::Source {
    match source {
        PromptSource::Request => prompt_use::Source::Request,
        PromptSource::Suite => prompt_use::Source::Suite,
        PromptSource::Encoder => prompt_use::Source::Encoder,
    }
}

pub(super) fn truncation(count: CutCount) -> proto::TruncationReport {
    proto::TruncationReport {
        texts: count.texts,
        cut: count.cut,
        unknown: count.unknown,
    }
}
