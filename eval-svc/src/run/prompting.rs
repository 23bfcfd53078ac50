//! Prompts of a run: the vector of each text of a data set under each encoder. Pure.

use std::collections::BTreeMap;

use isomer_proto::encoder::v1::Encoder;

use super::{
    RunError,
    error::invalid,
    plan::{EncoderVariant, Plan, Table, served},
};
use crate::{
    form::Form,
    prompts::{
        self, Chosen, DatasetPrompts, GivenPrompt, Layers, Part, Sent, unknown_role,
        variant::{PromptVariant, Wording},
    },
    report::{PromptUse, UnusedPrompt},
    search_form::{SearchForm, analysis},
};

/// Number of a prompt among those of an encoder; 0 is the encoder's default.
pub(super) type Slot = usize;
/// A vector of an encoder: a text under a prompt.
pub(super) type Key = (Slot, u32);

/// The prompts of one encoder.
#[derive(Debug, Default)]
pub(super) struct Prompting {
    layers: Layers,
    /// Distinct prompts; slot 1 is the first.
    sent: Vec<Sent>,
}

impl Prompting {
    /// The prompt sent for a slot; `None`: the encoder's default.
    pub(super) fn sent(&self, slot: Slot) -> Option<&Sent> {
        self.sent.get(slot.checked_sub(1)?)
    }

    fn slot(&mut self, chosen: Option<&Chosen>) -> Slot {
        let Some(chosen) = chosen else { return 0 };
        let known = self.sent.iter().position(|sent| *sent == chosen.sent);
        known.unwrap_or_else(|| {
            self.sent.push(chosen.sent.clone());
            self.sent.len() - 1
        }) + 1
    }
}

/// The prompts of one data set's texts under one encoder.
#[derive(Debug, Default)]
pub(super) struct TablePrompts {
    prompts: DatasetPrompts,
    slots: Vec<(Part, Slot)>,
    /// Name of the vectors of the whole data set: the vector space with the prompt of each part.
    pub(super) space: String,
    /// The same for the texts that are transformed.
    pub(super) varied_space: String,
}

impl TablePrompts {
    fn slot(&self, part: Part) -> Slot {
        let found = self.slots.iter().find(|(own, _)| *own == part);
        found.map_or(0, |(_, slot)| *slot)
    }

    /// The slot of documents.
    pub(super) fn of_documents(&self) -> Slot {
        self.slot(Part::Document)
    }

    /// The slot of the texts that are transformed, which are the first part of their task.
    pub(super) fn varied(&self) -> Slot {
        self.slots.first().map_or(0, |(_, slot)| *slot)
    }
}

/// Whether two variants of an encoder have the same prompts on all data sets.
pub(super) fn same_prompts(tables: &[Table], one: usize, other: usize) -> bool {
    let mut tables = tables.iter();
    tables.all(|table| table.prompts[one].space == table.prompts[other].space)
}

/// Keys of the vectors of a table's texts, in the order of the data set.
pub(super) fn keys(table: &Table, encoder: usize, texts: &[u32]) -> Vec<Key> {
    let Some(prompts) = table.prompts.get(encoder) else {
        return texts.iter().map(|text| (0, *text)).collect();
    };
    let task = table.dataset.task();
    let roles = table.dataset.texts().iter().map(|text| text.role);
    texts
        .iter()
        .zip(roles)
        .map(|(text, role)| (prompts.slot(Part::of(task, role)), *text))
        .collect()
}

/// Chooses the prompts of every data set under every encoder and writes them into the tables. A
/// stored form has the prompts of its encoder.
///
/// # Errors
/// If a prompt is for an encoder that the run does not have, or for texts that no data set can
/// have.
pub(super) fn choose(
    encoders: &[Encoder],
    variants: &[EncoderVariant],
    tables: &mut [Table],
    request: &[GivenPrompt],
    suite: &BTreeMap<String, BTreeMap<String, String>>,
) -> Result<Vec<Prompting>, RunError> {
    let names: Vec<&str> = tables
        .iter()
        .flat_map(|table| [table.dataset.name(), table.dataset.prompt_name()])
        .collect();
    for (i, given) in request.iter().enumerate() {
        let is_served = |id: &String| {
            let mut all = encoders.iter().zip(variants);
            all.any(|(one, variant)| *variant == EncoderVariant::Plain && one.id == *id)
        };
        if let Some(id) = given.encoder.as_ref().filter(|id| !is_served(id)) {
            return Err(invalid(
                format!("spec.prompts[{i}].encoder_id"),
                format!("the run has no encoder `{id}`; variants have the prompts of their encoder"),
            ));
        }
        if let Some((message, hint)) = unknown_role(&given.role, &names) {
            return Err(invalid(format!("spec.prompts[{i}].role"), format!("{message}; {hint}")));
        }
    }
    for (id, prompts) in suite {
        for role in prompts.keys() {
            if let Some((message, hint)) = unknown_role(role, &names) {
                return Err(invalid(
                    "spec.suite",
                    format!("encoder.\"{id}\".prompts: {message}; {hint}"),
                ));
            }
        }
    }
    for variant in variants {
        let EncoderVariant::Prompts(PromptVariant {
            name,
            wording: Wording::Given(prompts),
        }) = variant
        else {
            continue;
        };
        for role in prompts.keys() {
            if let Some((message, hint)) = unknown_role(role, &names) {
                return Err(invalid(
                    "spec.suite",
                    format!("prompt_variant.{name}: {message}; {hint}"),
                ));
            }
        }
    }
    let mut all = Vec::with_capacity(encoders.len());
    for position in 0..encoders.len() {
        let encoder = &encoders[served(variants, position)];
        let layers = Layers::new(encoder, request, suite.get(&encoder.id));
        let mut prompting = Prompting {
            layers: match &variants[position] {
                EncoderVariant::Prompts(variant) => layers.varied(encoder, &variant.wording),
                _ => layers,
            },
            sent: Vec::new(),
        };
        for table in tables.iter_mut() {
            let own = table_prompts(encoder, &variants[position], &mut prompting, table);
            table.prompts.push(own);
        }
        all.push(prompting);
    }
    Ok(all)
}

fn table_prompts(
    encoder: &Encoder,
    variant: &EncoderVariant,
    prompting: &mut Prompting,
    table: &Table,
) -> TablePrompts {
    let dataset = &table.dataset;
    let chosen = DatasetPrompts::choose(&prompting.layers, dataset.task(), dataset.prompt_name());
    let slots: Vec<(Part, Slot)> = chosen
        .parts()
        .map(|(part, chosen)| (part, prompting.slot(chosen)))
        .collect();
    let described = encoder.vector_space.clone().unwrap_or_default();
    let described = &match variant {
        EncoderVariant::Form(Form::Stored(form)) => form.space(&described, dataset.digest()),
        EncoderVariant::Form(Form::Search(form)) => form.space(&described, Some(&analysis(dataset))),
        _ => described,
    };
    let sent = || {
        chosen
            .parts()
            .map(|(part, chosen)| (part, chosen.map(|chosen| &chosen.sent)))
    };
    let space = match variant {
        // Terms have no prompt.
        EncoderVariant::Form(Form::Search(SearchForm::Lexical)) => described.digest.clone(),
        _ => prompts::key(described, sent()),
    };
    TablePrompts {
        varied_space: match variant {
            // The ranges may rest on texts of another part, under its prompt.
            EncoderVariant::Form(Form::Stored(form)) if form.needs_ranges() => space.clone(),
            // A text's vector does not depend on the name of its part.
            _ => prompts::key(described, sent().take(1).map(|(_, sent)| (Part::Text, sent))),
        },
        space,
        slots,
        prompts: chosen,
    }
}

/// The prompts that were used for an encoder's texts, with the data sets of each, and the prompts
/// that were not used.
pub(super) fn told(plan: &Plan, encoder: usize) -> (Vec<PromptUse>, Vec<UnusedPrompt>) {
    if plan.search(encoder) == Some(SearchForm::Lexical) {
        return Default::default();
    }
    let mut uses: Vec<PromptUse> = Vec::new();
    let mut all: Vec<&Chosen> = Vec::new();
    for table in &plan.tables {
        let Some(own) = table.prompts.get(encoder) else {
            continue;
        };
        for (part, chosen) in own.prompts.parts() {
            let Some(chosen) = chosen else { continue };
            all.push(chosen);
            let dataset = table.dataset.name().to_owned();
            let known = uses
                .iter_mut()
                .find(|one| one.part == part && one.source == chosen.source && one.role == chosen.role);
            match known {
                Some(known) => known.datasets.push(dataset),
                None => uses.push(PromptUse {
                    part,
                    source: chosen.source,
                    role: chosen.role.clone(),
                    text: chosen.sent.text().map(str::to_owned),
                    datasets: vec![dataset],
                }),
            }
        }
    }
    let unused = plan
        .prompting
        .get(encoder)
        .map(|own| prompts::unused(&own.layers, &all));
    let unused = unused
        .into_iter()
        .flatten()
        .map(|(source, role)| UnusedPrompt { source, role });
    (uses, unused.collect())
}
