//! Prompts of a run: the vector of each text of a data set under each encoder. Pure.

use std::collections::BTreeMap;

use isomer_proto::encoder::v1::Encoder;

use super::{
    encoders::{EncoderPrompts, EncoderVariant, Encoders},
    table::{Slot, Table, TablePrompts},
};
use crate::{
    form::Form,
    prompts::{
        self, DatasetPrompts, GivenPrompt, Layers, Part, unknown_role,
        variant::{PromptVariant, Wording},
    },
    run::{RunError, error::invalid},
    search_form::{SearchForm, analysis},
};

/// Whether two variants of an encoder have the same prompts on all data sets.
fn same_prompts(tables: &[Table], one: usize, other: usize) -> bool {
    let mut tables = tables.iter();
    tables.all(|table| table.prompts[one].space == table.prompts[other].space)
}

/// Chooses the prompts of every data set under every encoder and writes them into the tables. A
/// stored form has the prompts of its encoder.
///
/// # Errors
/// If a prompt is for an encoder that the run does not have, or for texts that no data set can
/// have.
pub(crate) fn choose(
    encoders: &mut Encoders,
    tables: &mut [Table],
    request: &[GivenPrompt],
    suite: &BTreeMap<String, BTreeMap<String, String>>,
) -> Result<(), RunError> {
    let names: Vec<&str> = tables
        .iter()
        .flat_map(|table| [table.dataset.name(), table.dataset.prompt_name()])
        .collect();
    for (i, given) in request.iter().enumerate() {
        let is_served = |id: &String| {
            let mut all = encoders.iter();
            all.any(|one| one.variant == EncoderVariant::Plain && one.encoder.id == *id)
        };
        if let Some(id) = given.encoder.as_ref().filter(|id| !is_served(id)) {
            return Err(invalid(
                format!("spec.prompts[{i}].encoder_id"),
                format!("the run has no encoder `{id}`; variants have the prompts of their encoder"),
            ));
        }
        check_role(&given.role, &names, format!("spec.prompts[{i}].role"), "")?;
    }
    let mut of_suite: Vec<(&String, String)> = Vec::new();
    for (id, prompts) in suite {
        let place = format!("encoder.\"{id}\".prompts: ");
        of_suite.extend(prompts.keys().map(|role| (role, place.clone())));
    }
    for variant in encoders.iter().map(|one| &one.variant) {
        if let EncoderVariant::Prompts(PromptVariant {
            name,
            wording: Wording::Given(prompts),
        }) = variant
        {
            let place = format!("prompt_variant.{name}: ");
            of_suite.extend(prompts.keys().map(|role| (role, place.clone())));
        }
    }
    for (role, place) in of_suite {
        check_role(role, &names, "spec.suite".to_owned(), &place)?;
    }
    for position in 0..encoders.len() {
        let encoder = &encoders[encoders.served(position)].encoder;
        let variant = &encoders[position].variant;
        let layers = Layers::new(encoder, request, suite.get(&encoder.id));
        let mut own_prompts = EncoderPrompts::new(match variant {
            EncoderVariant::Prompts(variant) => layers.varied(encoder, &variant.wording),
            _ => layers,
        });
        for table in tables.iter_mut() {
            let own = table_prompts(encoder, variant, &mut own_prompts, table);
            table.prompts.push(own);
        }
        encoders.0[position].prompts = own_prompts;
    }
    Ok(())
}

/// Refuses a role that no text of the data sets can have. `place` says where the suite names it.
fn check_role(role: &str, names: &[&str], field: String, place: &str) -> Result<(), RunError> {
    match unknown_role(role, names) {
        Some((message, hint)) => Err(invalid(field, format!("{place}{message}; {hint}"))),
        None => Ok(()),
    }
}

fn table_prompts(
    encoder: &Encoder,
    variant: &EncoderVariant,
    own_prompts: &mut EncoderPrompts,
    table: &Table,
) -> TablePrompts {
    let dataset = &table.dataset;
    let chosen = DatasetPrompts::choose(&own_prompts.layers, dataset.task(), dataset.prompt_name());
    let slots: Vec<(Part, Slot)> = chosen
        .parts()
        .map(|(part, chosen)| (part, own_prompts.slot(chosen)))
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

/// Refuses prompt variants that change no prompt of any encoder.
pub(crate) fn some_effect(encoders: &Encoders, tables: &[Table]) -> Result<(), RunError> {
    let changed = |e: usize| {
        matches!(encoders[e].variant, EncoderVariant::Prompts(_)) && !same_prompts(tables, e, encoders.served(e))
    };
    if (0..encoders.len()).any(changed) {
        return Ok(());
    }
    Err(invalid(
        "spec.prompt_variants",
        "change nothing: no encoder of the run has a prompt for these data sets; give prompts with `spec.prompts` \
         (--prompt), or leave the variants out",
    ))
}
