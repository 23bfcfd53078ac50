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

/// The encoder of requests that name none: the configured one, or the only installed one with a
/// capability.
///
/// # Errors
/// If none is configured, and no encoder or several encoders have the capability.
pub(super) async fn unnamed(router: &Router, capability: Capability) -> Result<String, Fault> {
    if let Some(configured) = router.default_encoder(capability) {
        return Ok(configured.to_owned());
    }
    let (what, key) = match capability {
        Capability::Rerank => ("cross-encoder", "routing.default_reranker"),
        _ => ("encoder", "routing.default_encoder"),
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
        // A cross-encoder that has not been loaded may not have reported that it is one.
        [] => Err(
            Fault::precondition("NO_ENCODER", format!("this server knows no {what} yet")).hint(format!(
                "name one in the address (/tei/NAME before the path), or in the configuration: {key}"
            )),
        ),
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|encoder| encoder.id.as_str()).collect();
            Err(Fault::invalid(
                "model",
                format!("is not named, and this server has {} {what}s", several.len()),
            )
            .hint(format!(
                "put the name into the address: /tei/NAME before the path, or ?model=NAME after it, e.g. {}; or name \
                 one in the configuration: {key}",
                names.join(", ")
            )))
        }
    }
}

/// Checks that limits on tokens change nothing: each is at least the encoder's maximum.
///
/// # Errors
/// If the encoder is unknown, or a limit is lower or cannot be compared.
pub(crate) async fn check_lengths(
    backends: &Backends,
    model: &str,
    deadline: Option<Instant>,
    lengths: Vec<(&'static str, u64)>,
) -> Result<(), Fault> {
    if lengths.is_empty() {
        return Ok(());
    }
    let encoder = backends.router.get(backends.encoder_of(model), deadline).await?;
    let most = encoder.max_tokens;
    for (field, given) in lengths {
        if most == 0 {
            let message = "cannot be checked, because the encoder does not report its maximum number of tokens";
            return Err(Fault::invalid(field, message).hint("leave it out"));
        }
        if given < u64::from(most) {
            let message = format!("is {given}, but texts are cut at the encoder's maximum of {most} tokens only");
            return Err(Fault::invalid(field, message).hint(format!("leave it out, or give at least {most}")));
        }
    }
    Ok(())
}
