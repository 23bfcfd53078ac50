//! Prompts of a run: the vector of each text of a data set under each encoder. Pure.

use std::collections::BTreeMap;

use isomer_proto::{common::v1::VectorSpace, encoder::v1::Encoder};

use super::{
    RunError,
    plan::{Plan, Table},
};
use crate::{
    prompts::{self, Chosen, DatasetPrompts, GivenPrompt, Layers, Part, Sent, unknown_role},
    report::{PromptUse, UnusedPrompt},
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

/// Chooses the prompts of every data set under every encoder and writes them into the tables.
///
/// # Errors
/// If a prompt is for an encoder that the run does not have, or for texts that no data set can
/// have.
pub(super) fn choose(
    encoders: &[Encoder],
    tables: &mut [Table],
    request: &[GivenPrompt],
    suite: &BTreeMap<String, BTreeMap<String, String>>,
) -> Result<Vec<Prompting>, RunError> {
    let names: Vec<&str> = tables
        .iter()
        .flat_map(|table| [table.dataset.name(), table.dataset.prompt_name()])
        .collect();
    for (i, given) in request.iter().enumerate() {
        if let Some(id) = given
            .encoder
            .as_ref()
            .filter(|id| encoders.iter().all(|one| one.id != **id))
        {
            return Err(RunError::Invalid {
                field: format!("spec.prompts[{i}].encoder_id"),
                message: format!("the run has no encoder `{id}`"),
            });
        }
        if let Some((message, hint)) = unknown_role(&given.role, &names) {
            return Err(RunError::Invalid {
                field: format!("spec.prompts[{i}].role"),
                message: format!("{message}; {hint}"),
            });
        }
    }
    for (id, prompts) in suite {
        for role in prompts.keys() {
            if let Some((message, hint)) = unknown_role(role, &names) {
                return Err(RunError::Invalid {
                    field: "spec.suite".to_owned(),
                    message: format!("encoder.\"{id}\".prompts: {message}; {hint}"),
                });
            }
        }
    }
    let mut all = Vec::with_capacity(encoders.len());
    for encoder in encoders {
        let mut prompting = Prompting {
            layers: Layers::new(encoder, request, suite.get(&encoder.id)),
            sent: Vec::new(),
        };
        for table in tables.iter_mut() {
            let own = table_prompts(encoder, &mut prompting, table);
            table.prompts.push(own);
        }
        all.push(prompting);
    }
    Ok(all)
}

fn table_prompts(encoder: &Encoder, prompting: &mut Prompting, table: &Table) -> TablePrompts {
    let dataset = &table.dataset;
    let chosen = DatasetPrompts::choose(&prompting.layers, dataset.task(), dataset.prompt_name());
    let slots: Vec<(Part, Slot)> = chosen
        .parts()
        .map(|(part, chosen)| (part, prompting.slot(chosen)))
        .collect();
    let none = VectorSpace::default();
    let described = encoder.vector_space.as_ref().unwrap_or(&none);
    let sent = || {
        chosen
            .parts()
            .map(|(part, chosen)| (part, chosen.map(|chosen| &chosen.sent)))
    };
    TablePrompts {
        space: prompts::key(described, sent()),
        // A text's vector does not depend on the name of its part.
        varied_space: prompts::key(described, sent().take(1).map(|(_, sent)| (Part::Text, sent))),
        slots,
        prompts: chosen,
    }
}

/// The prompts that were used for an encoder's texts, with the data sets of each, and the prompts
/// that were not used.
pub(super) fn told(plan: &Plan, encoder: usize) -> (Vec<PromptUse>, Vec<UnusedPrompt>) {
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
