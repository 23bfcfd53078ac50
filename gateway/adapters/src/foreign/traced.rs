//! Calls of a provider's models, with their spans.

use isomer_service_kit::{
    Fault, code_name,
    telemetry::gen_ai::{ModelCall, Operation},
};
use tracing::Instrument;

use super::Foreign;

impl Foreign {
    /// Runs a call within its span. `tokens` extracts the usage that the provider reports.
    pub(super) async fn traced<T>(
        &self,
        operation: Operation,
        model: &str,
        work: impl Future<Output = Result<T, Fault>>,
        tokens: impl Fn(&T) -> Option<u64>,
    ) -> Result<T, Fault> {
        let call = ModelCall::start(operation, &self.provider, model);
        let outcome = work.instrument(call.span()).await;
        match &outcome {
            Ok(answer) => {
                if let Some(tokens) = tokens(answer) {
                    call.input_tokens(tokens);
                }
            }
            Err(fault) => call.failed(code_name(fault.code)),
        }
        outcome
    }
}
