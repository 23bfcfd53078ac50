//! Settings of single encoders in a suite file: `[encoder."ID".prompts]`.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::{
    SuiteError,
    fields::table,
    reader::{Document, Section},
};
use crate::prompts::variant::{self, PromptVariant, Wording};

pub(super) const FIELDS: [&str; 1] = ["prompts"];
const OWN_SHAPE: &str = "a table: [prompt_variant.NAME], with query = \"…\"";
const SHAPE: &str = "a table: [encoder.\"ID\".prompts], with query = \"…\"";

/// Encoder id to role to prompt.
pub(super) fn prompts(top: &Section<'_>) -> Result<BTreeMap<String, BTreeMap<String, String>>, SuiteError> {
    let Some(item) = top.get("encoder") else {
        return Ok(BTreeMap::new());
    };
    let encoders = table(top.document, "encoder", item, SHAPE)?;
    let mut all = BTreeMap::new();
    for (id, item) in encoders.table {
        let field = format!("encoder.\"{}\"", id.get_ref());
        let section = table(top.document, &field, item, SHAPE)?;
        section.only(&FIELDS)?;
        if let Some(item) = section.get("prompts") {
            let roles = table(top.document, &format!("{field}.prompts"), item, SHAPE)?;
            all.insert(id.get_ref().to_string(), roles_of(top.document, &roles)?);
        }
    }
    Ok(all)
}

/// The variants of `prompt_variants`, then those of `[prompt_variant.NAME]`.
pub(super) fn prompt_variants(top: &Section<'_>) -> Result<Vec<PromptVariant>, SuiteError> {
    let mut all = top.parsed("prompt_variants", |names| variant::parse_all(names, &[]))?;
    let Some(item) = top.get("prompt_variant") else {
        return Ok(all);
    };
    let own = table(top.document, "prompt_variant", item, OWN_SHAPE)?;
    for (name, item) in own.table {
        let field = format!("prompt_variant.{}", name.get_ref());
        let name = name.get_ref().to_string();
        if variant::is_rule(&name) {
            let message = format!("`{name}` is the name of a rule; choose another");
            return Err(top.document.invalid(&item.span(), field, message));
        }
        let roles = table(top.document, &field, item, OWN_SHAPE)?;
        all.push(PromptVariant {
            name,
            wording: Wording::Given(roles_of(top.document, &roles)?),
        });
    }
    Ok(all)
}

/// Roles are validated when the data sets are known.
fn roles_of(document: &Document<'_>, roles: &Section<'_>) -> Result<BTreeMap<String, String>, SuiteError> {
    let mut prompts = BTreeMap::new();
    for (role, item) in roles.table {
        let DeValue::String(text) = item.get_ref() else {
            return Err(document.wrong_type(item, roles.path(role.get_ref()), "text in quotes"));
        };
        prompts.insert(role.get_ref().to_string(), text.to_string());
    }
    Ok(prompts)
}
