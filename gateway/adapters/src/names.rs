//! Ids that clients use and the provider's names for them.

use std::collections::{BTreeMap, HashMap};

use isomer_service_kit::Fault;

/// Maps an offered encoder id to its name at the provider, ordered by id. If empty, any id is valid
/// and passed on unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// # Errors
    /// If an id or a name is empty.
    pub(crate) fn new(encoders: &HashMap<String, String>) -> Result<Self, Fault> {
        if let Some((id, _)) = encoders.iter().find(|(id, name)| id.is_empty() || name.is_empty()) {
            return Err(Fault::invalid(
                format!("provider.encoders[{id:?}]"),
                "the id and the name at the provider must not be empty",
            )
            .hint("give both, e.g. my-encoder = \"text-embedding-3-small\""));
        }
        Ok(Self(encoders.clone().into_iter().collect()))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Offered ids with their names.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(id, name)| (id.as_str(), name.as_str()))
    }

    /// The name at the provider.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub(crate) fn theirs(&self, encoder_id: &str) -> Result<String, Fault> {
        if encoder_id.is_empty() {
            return Err(Fault::invalid("encoder_id", "is empty").hint("name an encoder; ListEncoders lists them"));
        }
        if self.is_open() {
            return Ok(encoder_id.to_owned());
        }
        self.0.get(encoder_id).cloned().ok_or_else(|| {
            Fault::not_found("UNKNOWN_ENCODER", format!("no encoder `{encoder_id}` here"))
                .field("encoder_id")
                .hint("ListEncoders lists the encoders")
                .with("encoder_id", encoder_id)
        })
    }
}
