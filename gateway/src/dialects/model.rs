//! Selects the encoder of a request, and one of the encoder's prompts.

use isomer_proto::encoder::v1::{Capability, Encoder, encode_request::Prompt};
use isomer_service_kit::Fault;
use tokio::time::Instant;

use crate::{openai::Backends, routing::Router};

/// The purpose of a request's texts, in the terms of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Search queries.
    Query,
    /// Documents to be found.
    Document,
    /// Texts for a classifier.
    Classification,
    /// Texts to be clustered.
    Clustering,
}

impl Purpose {
    /// Names that encoders give their prompts for this purpose, the most common first.
    fn prompts(self) -> &'static [&'static str] {
        match self {
            Self::Query => &["query", "search_query"],
            Self::Document => &["document", "passage", "search_document"],
            Self::Classification => &["classification"],
            Self::Clustering => &["clustering"],
        }
    }

    /// The encoder's own prompt for this purpose; none if the encoder has none.
    fn prompt(self, encoder: &Encoder) -> Option<String> {
        let has =
            |name: &&&str| encoder.prompts.contains_key(**name) || encoder.prompt_names.iter().any(|own| own == **name);
        self.prompts().iter().find(has).map(|name| (*name).to_owned())
    }
}

/// The prompt with which an encoder encodes texts of a purpose.
///
/// # Errors
/// If the encoder is unknown.
pub(crate) async fn prompt(
    backends: &Backends,
    model: &str,
    purpose: Option<Purpose>,
    deadline: Option<Instant>,
) -> Result<Option<Prompt>, Fault> {
    let Some(purpose) = purpose else { return Ok(None) };
    let encoder = backends.router.get(backends.encoder_of(model), deadline).await?;
    Ok(purpose.prompt(&encoder).map(Prompt::PromptName))
}

/// The only installed encoder with a capability. It serves requests that name no encoder.
///
/// # Errors
/// If no encoder or several encoders have the capability.
pub(super) async fn only(router: &Router, capability: Capability) -> Result<String, Fault> {
    let what = match capability {
        Capability::Rerank => "cross-encoder",
        _ => "encoder",
    };
    let mut able = router.list().await;
    able.retain(|encoder| !encoder.not_installed);
    able.retain(|encoder| match capability {
        Capability::Rerank => encoder.capabilities().any(|own| own == Capability::Rerank),
        // An encoder that is not loaded yet may not have reported its capabilities.
        _ => encoder.capabilities().all(|own| own != Capability::Rerank),
    });
    match able.as_mut_slice() {
        [one] => Ok(std::mem::take(&mut one.id)),
        [] => Err(Fault::precondition("NO_ENCODER", format!("this server has no {what}"))
            .hint("name one in its configuration, or register a provider")),
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|encoder| encoder.id.as_str()).collect();
            Err(Fault::invalid(
                "model",
                format!("is not named, and this server has {} {what}s", several.len()),
            )
            .hint(format!(
                "put the name into the address: /tei/NAME before the path, or ?model=NAME after it, e.g. {}",
                names.join(", ")
            )))
        }
    }
}
