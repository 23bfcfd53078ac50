//! A GGUF model in this process.

use std::sync::Arc;

use futures::future::BoxFuture;
use isomer_local_llm::{ChatMessage, Finish, GenerateRequest, LoadOptions, LocalModel};
use isomer_models::{ModelKind, Resolver, progress::LogProgress};
use isomer_service_kit::telemetry::gen_ai::{ModelCall, Provider};
use tracing::Instrument;

use super::{AdaptiveLimit, Completion, Generator, GeneratorError, Identity, Prices, Request, Turn, operation};
use crate::error::TransformError;

/// Change this value when equal requests begin to give different texts: old cache entries are then
/// no longer found.
const ENGINE: u32 = 1;

pub(super) struct Local {
    identity: Identity,
    model: LocalModel,
    adaptive_limit: Arc<AdaptiveLimit>,
}

impl Local {
    /// Finds the model, fetches it if necessary, and loads it.
    pub(super) async fn load(
        id: String,
        model: &str,
        options: LoadOptions,
        resolver: &Resolver,
    ) -> Result<Self, TransformError> {
        let resolved = resolver
            .resolve(model, ModelKind::Generator, &LogProgress::default())
            .await?;
        tracing::info!(model, path = %resolved.path.display(), "loading a local generator");
        let unusable = |message: String| TransformError::LocalModel {
            id: id.clone(),
            message,
        };
        let path = resolved.path.clone();
        let loaded = tokio::task::spawn_blocking(move || LocalModel::load(&path, options))
            .await
            .map_err(|error| unusable(format!("loading it was broken off: {error}")))?
            .map_err(|error| unusable(error.to_string()))?;
        let digest = resolved.weights_digest;
        let cache_key = format!("local-{ENGINE}:{digest}:{:?}", options.arithmetic);
        Ok(Self {
            // The number of permits is the number of texts decoded together, so that no call waits
            // in the model's own queue, which has no priorities. No error of a local model counts
            // as overload.
            adaptive_limit: AdaptiveLimit::new(&id, options.max_batch, options.max_batch),
            identity: Identity { id, digest, cache_key },
            model: loaded,
        })
    }
}

impl Generator for Local {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn prices(&self) -> Option<Prices> {
        // The model runs in this process, so its tokens cost no money.
        Some(Prices {
            prompt: 0.0,
            generated: 0.0,
        })
    }

    fn adaptive_limit(&self) -> &Arc<AdaptiveLimit> {
        &self.adaptive_limit
    }

    fn greedy_ignores_seed(&self) -> bool {
        true
    }

    fn generate(&self, request: Request, _turn: Turn) -> BoxFuture<'_, Result<Completion, GeneratorError>> {
        Box::pin(async move {
            let name = self.identity.id.trim_start_matches("local:");
            let call = ModelCall::start(operation(&request), &Provider::HERE, name);
            let messages = request
                .messages
                .into_iter()
                .map(|message| ChatMessage {
                    role: message.role.name().to_owned(),
                    content: message.content,
                })
                .collect();
            let request = GenerateRequest {
                messages,
                temperature: request.temperature,
                top_p: request.top_p,
                top_k: request.top_k.map(|most| most as usize),
                max_tokens: request.max_tokens as usize,
                seed: request.seed,
                stop: Vec::new(),
            };
            match self.model.generate(request).instrument(call.span()).await {
                Ok(generated) => {
                    call.input_tokens(generated.prompt_tokens as u64);
                    call.output_tokens(generated.generated_tokens as u64);
                    Ok(Completion {
                        text: generated.text,
                        prompt_tokens: generated.prompt_tokens as u64,
                        generated_tokens: generated.generated_tokens as u64,
                        tokens_estimated: false,
                        cut: generated.finish == Finish::Length,
                        calls: 1,
                        fingerprint: String::new(),
                    })
                }
                Err(error) => {
                    // A local model reports a failure as a message, without an error type.
                    call.failed("_OTHER");
                    Err(GeneratorError::Failed {
                        message: error.to_string(),
                        calls: 1,
                    })
                }
            }
        })
    }
}
