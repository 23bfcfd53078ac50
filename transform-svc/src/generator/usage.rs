//! Usage of a call, estimated if the server does not report it.

use super::{Completion, Request, reply::Reply};
use crate::words;

/// Maximum plausible number of tokens that a server reports for a prompt or an answer: no model has
/// a larger context.
const MOST_TOKENS: u64 = 1 << 22;

/// Tokens of the prompt and of the answer, and whether they are estimated.
pub(super) fn tokens(request: &Request, reply: &Reply) -> (u64, u64, bool) {
    // A prompt count of zero means that the server does not count prompt tokens.
    let usage = reply.usage.as_ref();
    let prompt = usage.and_then(|usage| usage.prompt_tokens).filter(|tokens| *tokens > 0);
    let generated = usage
        .and_then(|usage| usage.completion_tokens)
        .filter(|_| prompt.is_some());
    let estimated = || reply.content().map_or(0, words::estimated_tokens) as u64;
    (
        prompt.unwrap_or_else(|| estimated_prompt(request)).min(MOST_TOKENS),
        generated.unwrap_or_else(estimated).min(MOST_TOKENS),
        prompt.is_none() || generated.is_none(),
    )
}

/// Tokens of a request's prompt, estimated from its characters.
pub(super) fn estimated_prompt(request: &Request) -> u64 {
    let texts = request
        .messages
        .iter()
        .map(|message| words::estimated_tokens(&message.content));
    texts.sum::<usize>() as u64
}

pub(super) fn completion(request: &Request, reply: &Reply, calls: u32) -> Completion {
    let (prompt_tokens, generated_tokens, tokens_estimated) = tokens(request, reply);
    // A server that does not report why a text ends may still count its tokens.
    let is_full = !tokens_estimated && generated_tokens >= u64::from(request.max_tokens);
    Completion {
        cut: reply.is_cut().unwrap_or(is_full),
        text: reply.content().unwrap_or_default().to_owned(),
        prompt_tokens,
        generated_tokens,
        tokens_estimated,
        calls,
        fingerprint: reply.fingerprint(),
    }
}
