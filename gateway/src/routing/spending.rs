//! The usage of one attempt at a provider.
//!
//! Many providers bill an attempt that was cut off without an answer, e.g. one that lost against
//! its hedge: it counts by an estimate of its inputs. An attempt that the provider refused counts
//! nothing.

use isomer_access::nano;
use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{EncodeRequest, RerankRequest},
};
use isomer_service_kit::Fault;
use isomer_usage::Open;
use tonic::Code;

use super::replica::Replica;

/// Bytes of text that count as one token where nothing was counted.
const BYTES_PER_TOKEN: u64 = 4;

fn estimate(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Largest usage per text and per estimated token that a provider is believed: byte by byte a text
/// has four times the estimate, and a provider's own prompt comes on top.
const MOST_PER_TEXT: u64 = 8192;
const MOST_PER_ESTIMATED: u64 = 16;

/// The usage that a provider reports, bounded by what it was sent: its number enters budgets.
pub(super) fn believed(replica: &Replica, sent: &Usage, told: Usage) -> Usage {
    let per_text = sent.texts.saturating_mul(MOST_PER_TEXT);
    let most = sent.tokens.saturating_mul(MOST_PER_ESTIMATED).saturating_add(per_text);
    if told.tokens <= most {
        return told;
    }
    tracing::warn!(provider = %replica.peer.name, told = told.tokens, most, "the provider reports more tokens than it was sent");
    Usage {
        tokens: most,
        tokens_estimated: true,
        ..told
    }
}

pub(super) fn of_encode(replica: &Replica, request: &EncodeRequest) -> Usage {
    priced(replica, isomer_encoder_client::client::estimate(request))
}

pub(super) fn of_rerank(replica: &Replica, request: &RerankRequest) -> Usage {
    let query = request.query.len() as u64;
    let of = |document: &String| estimate((document.len() as u64).saturating_add(query));
    let usage = Usage {
        texts: request.documents.len() as u64,
        tokens: request.documents.iter().map(of).fold(0, u64::saturating_add),
        tokens_estimated: true,
        ..Usage::default()
    };
    priced(replica, usage)
}

/// Ends an attempt by its result.
pub(super) fn end(open: Open, replica: &Replica, answer: Result<Option<Usage>, &Fault>) {
    match answer {
        Ok(usage) => open.end(&priced(replica, usage.unwrap_or_default())),
        // The attempt was cut off: dropping it counts its estimate.
        Err(fault) if matches!(fault.code, Code::DeadlineExceeded | Code::Cancelled) => drop(open),
        Err(_) => open.nothing(),
    }
}

/// Usage at the price in the registry, whatever the provider reports.
fn priced(replica: &Replica, usage: Usage) -> Usage {
    Usage {
        cost_nano_usd: nano(usage.tokens as f64 * replica.price_per_million_tokens / 1e6),
        ..usage
    }
}
