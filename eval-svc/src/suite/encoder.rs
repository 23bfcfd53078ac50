//! Settings of single encoders in a suite file: `[encoder."ID".prompts]`.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::{
    SuiteError,
    fields::table,
    reader::{Document, Section},
};

const FIELDS: [&str; 1] = ["prompts"];
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
