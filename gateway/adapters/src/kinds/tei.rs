//! The common part of text-embeddings-inference's two interfaces.
//!
//! A server has one pooling (version 1.9). With SPLADE's it gives sparse vectors and refuses dense
//! ones of unit length; with any other it refuses sparse ones.

use isomer_service_kit::Fault;

use crate::{
    foreign::Facts,
    limits::BatchLimit,
    params::{AT_ONCE, Abilities, Cut, InputTypes},
};

pub(super) const ABILITIES: Abilities = Abilities {
    kind: "tei",
    input_types: InputTypes::Optional,
    cuts: &[Cut::Refuse, Cut::Head, Cut::Tail],
    dimensions: true,
    // The server accepts token ids, but converts them to text and tokenizes the text again.
    token_ids: false,
    counts: true,
    sparse: true,
    reranks: true,
    most_items: BatchLimit::UNKNOWN,
    most_tokens: BatchLimit::UNKNOWN,
    most_documents: BatchLimit::UNKNOWN,
    at_once: AT_ONCE,
};

/// The side that is truncated.
pub(super) fn side(cut: Cut) -> &'static str {
    if cut == Cut::Head { "Left" } else { "Right" }
}

/// A server's description of its one model.
pub(super) struct Info {
    pub(super) model: String,
    pub(super) served_as: String,
    pub(super) revision: String,
    pub(super) dtype: String,
    pub(super) reranks: bool,
    pub(super) classifies: bool,
    /// Whether it pools as SPLADE does; `None` if it does not say.
    pub(super) splade: Option<bool>,
    pub(super) max_tokens: u32,
    pub(super) max_items: u32,
}

impl Info {
    /// # Errors
    /// If the server does not run the model that the provider's record names. Otherwise its vectors
    /// would be taken for those of the named model.
    pub(super) fn facts(self, id: &str, model: &str) -> Result<Facts, Fault> {
        if self.model != model && self.served_as != model {
            return Err(Fault::precondition(
                "PROVIDER_OTHER_MODEL",
                format!("provider `{id}` runs `{}`, not `{model}`", self.model),
            )
            .field("provider.encoders")
            .hint("write the model that the server runs, or correct the address")
            .with("provider", id));
        }
        if self.classifies {
            return Err(
                Fault::precondition("PROVIDER_OTHER_MODEL", format!("provider `{id}` runs a classifier"))
                    .hint("start the server with an embedding or reranking model"),
            );
        }
        Ok(Facts {
            revision: self.revision,
            arithmetic: match self.dtype.to_ascii_lowercase().as_str() {
                "float32" => String::new(),
                other => other.to_owned(),
            },
            max_tokens: self.max_tokens,
            max_items: self.max_items,
            reranks: Some(self.reranks),
            sparse: self.splade,
            normalises_as_asked: true,
            ..Facts::default()
        })
    }
}
