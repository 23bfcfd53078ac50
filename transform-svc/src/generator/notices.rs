//! Log lines about the answers of a server, each written once.

use std::sync::atomic::{AtomicBool, Ordering};

use isomer_outbound::said::presentable;
use isomer_service_kit::config::Secret;

use super::reply::Reply;

/// The lines that were written.
#[derive(Debug, Default)]
pub(super) struct Notices {
    unknown_finish: AtomicBool,
    reasoning_only: AtomicBool,
}

impl Notices {
    pub(super) fn log(&self, server: &str, reply: &Reply, key: &Secret) {
        if let Some(finish) = reply.unknown_finish() {
            metrics::counter!(crate::metric_names::UNKNOWN_FINISH).increment(1);
            if is_first(&self.unknown_finish) {
                let finish = presentable(finish, key);
                tracing::warn!(
                    server,
                    finish,
                    "the server ends answers for an unknown reason: they count as whole"
                );
            }
        }
        if reply.has_reasoning_only() && is_first(&self.reasoning_only) {
            tracing::warn!(
                server,
                "the model spends all tokens of an answer on reasoning: turn its reasoning off at the server, or allow more \
                 tokens (max_tokens)"
            );
        }
    }
}

fn is_first(written: &AtomicBool) -> bool {
    !written.swap(true, Ordering::Relaxed)
}
