//! Calls of a provider's models, with their spans.

use isomer_proto::common::v1::Usage;
use isomer_service_kit::{
    Fault, code_name,
    telemetry::gen_ai::{ModelCall, Operation},
};
use tracing::Instrument;

use super::Foreign;
use crate::metered::billed;

impl Foreign {
    /// Runs a billed request within its span, and returns its answer with its usage. `estimate` is
    /// the usage estimated from the request's texts; `tokens` extracts the provider's number.
    pub(super) async fn traced<T>(
        &self,
        operation: Operation,
        model: &str,
        estimate: Usage,
        request: impl Future<Output = Result<T, Fault>>,
        tokens: impl Fn(&T) -> Option<u64>,
    ) -> Result<(T, Usage), Fault> {
        let call = ModelCall::start(operation, &self.provider, model);
        let reported = |answer: &T| {
            tokens(answer).map(|tokens| Usage {
                tokens,
                tokens_estimated: false,
                ..estimate
            })
        };
        let outcome = billed(&self.id, estimate, request.instrument(call.span()), reported).await;
        match &outcome {
            Ok((_, usage)) if !usage.tokens_estimated => call.input_tokens(usage.tokens),
            Ok(_) => {}
            Err(fault) => call.failed(code_name(fault.code)),
        }
        outcome
    }
}
