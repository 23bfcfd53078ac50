//! Upper bounds of the usage of a call, as far as they can be known before it begins.
//!
//! A bound that is too high only makes concurrent calls wait for each other near the end of a
//! budget. A bound that is too low lets them overdraw the budget. So the bounds are on the high
//! side.

use isomer_access::nano;
use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{EncodeRequest, Input, RerankRequest, encode_request, input},
    transform::v1::{
        AugmentRequest, AugmentationMode, AugmentationSpec, EncodeAugmentedRequest, JudgeRequest, TextItem,
        TransformRequest, Transformation,
    },
};
use isomer_transformations::{Mechanism, Parameters, declaration, wire};
use isomer_usage::sum;
use prost::Message;

use crate::routing::Router;

/// Minimum number of bytes of text per token. English has more than four.
const BYTES_PER_TOKEN: u64 = 3;
/// Number of special tokens that an encoder adds to a text.
const MARKS: u64 = 2;
/// Tokens of the prompt around a text.
const PROMPT: u64 = 1000;
/// Tokens of an answer where the request sets no limit.
const ANSWER: u64 = 2048;
/// Tokens of a judge's answer.
const RATING: u64 = 512;
/// Attempts per text if the request does not set them.
const ATTEMPTS: u32 = 3;
/// Calls to a generator in one attempt: a translation and its back-translation.
const CALLS: u64 = 2;

fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN).saturating_add(MARKS)
}

fn encoded(router: &Router, encoder_id: &str, tokens: u64) -> Usage {
    Usage {
        tokens,
        cost_nano_usd: nano(tokens as f64 * router.highest_price(encoder_id) / 1e6),
        ..Usage::default()
    }
}

/// Each attempt may use all of the tokens: an attempt that is cut off without an answer is charged
/// in full.
pub(super) fn of_encode(router: &Router, request: &EncodeRequest) -> Usage {
    let of = |input: &Input| match &input.input {
        Some(input::Input::Text(text)) => tokens(text),
        Some(input::Input::TokenIds(ids)) => ids.ids.len() as u64,
        None => 0,
    };
    let prompt = match &request.prompt {
        Some(encode_request::Prompt::LiteralPrompt(prompt)) => prompt.as_str(),
        _ => "",
    };
    let texts = request.inputs.iter().map(of).fold(0, u64::saturating_add);
    let all = texts.saturating_add(prompts(prompt, request.inputs.len()));
    encoded(router, &request.encoder_id, all.saturating_mul(router.attempts()))
}

/// A literal prompt is encoded again with each text.
fn prompts(prompt: &str, texts: usize) -> u64 {
    (prompt.len() as u64)
        .div_ceil(BYTES_PER_TOKEN)
        .saturating_mul(texts as u64)
}

pub(super) fn of_rerank(router: &Router, request: &RerankRequest) -> Usage {
    let query = tokens(&request.query);
    let of = |document: &String| tokens(document).saturating_add(query);
    let all = request.documents.iter().map(of).fold(0, u64::saturating_add);
    encoded(router, &request.encoder_id, all.saturating_mul(router.attempts()))
}

/// The maximum usage of a proxied call, from its method's path and its message. `None` for methods
/// that use no model.
pub(crate) fn of_passed_on(router: &Router, path: &str, message: &[u8]) -> Usage {
    // The server refuses a message that cannot be decoded, and then uses nothing.
    let read = || -> Result<Usage, prost::DecodeError> {
        Ok(match path {
            // Both methods take the same request.
            "/isomer.transform.v1.TransformService/Transform"
            | "/isomer.transform.v1.TransformService/TransformStream" => {
                of_transform(&TransformRequest::decode(message)?)
            }
            "/isomer.transform.v1.TransformService/Judge" => {
                let JudgeRequest {
                    pairs, max_attempts, ..
                } = JudgeRequest::decode(message)?;
                let of = |pair: &isomer_proto::transform::v1::judge_request::Pair| {
                    let read = tokens(&pair.original).saturating_add(tokens(&pair.transformed));
                    Usage {
                        tokens: read.saturating_add(PROMPT),
                        generated_tokens: RATING,
                        ..Usage::default()
                    }
                };
                let one: Vec<Usage> = pairs.iter().map(of).collect();
                times(&sum::total(&one), max_attempts.unwrap_or(ATTEMPTS).into())
            }
            "/isomer.transform.v1.AugmentationService/Augment" => of_augment(&AugmentRequest::decode(message)?),
            "/isomer.transform.v1.AugmentationService/EncodeAugmented" => {
                of_augmented(router, &EncodeAugmentedRequest::decode(message)?)
            }
            // The size of the data set is not known yet. Data that is sent with the request is part
            // of the message.
            "/isomer.eval.v1.TaskService/Score" => Usage {
                tokens: (message.len() as u64).div_ceil(BYTES_PER_TOKEN),
                ..Usage::default()
            },
            _ => Usage::default(),
        })
    };
    read().unwrap_or_default()
}

pub(crate) fn of_transform(TransformRequest { spec, items, .. }: &TransformRequest) -> Usage {
    let Some(spec) = spec else { return Usage::default() };
    let answer = spec.sampling.as_ref().and_then(|sampling| sampling.max_tokens);
    generated(spec.transformation.as_ref(), items, answer, spec.max_attempts)
}

/// Usage of the variants, and of the vectors of all texts.
pub(crate) fn of_augmented(router: &Router, request: &EncodeAugmentedRequest) -> Usage {
    let made = variants(request.spec.as_ref(), &request.items);
    let originals = request.items.iter().map(|item| tokens(&item.text));
    let originals = originals.fold(0, u64::saturating_add);
    // A variant made by rule is no longer than its text; a variant from a generator is no longer
    // than the generator's answers.
    let sources = request.spec.as_ref().map_or(0, |spec| spec.sources.len());
    let by_rule = originals.saturating_mul(sources as u64);
    let prompt = request.literal_prompt.as_deref().unwrap_or_default();
    let prompts = prompts(prompt, request.items.len().saturating_mul(sources + 1));
    let read = [made.generated_tokens, originals, by_rule, prompts];
    let read = read.into_iter().fold(0, u64::saturating_add);
    sum::total([&made, &encoded(router, &request.encoder_id, read)])
}

/// Usage of the variants alone.
pub(crate) fn of_augment(request: &AugmentRequest) -> Usage {
    variants(request.spec.as_ref(), &request.items)
}

fn variants(spec: Option<&AugmentationSpec>, items: &[TextItem]) -> Usage {
    let Some(spec) = spec else { return Usage::default() };
    // The call only reads the caches.
    if spec.mode() == AugmentationMode::Cached {
        return Usage::default();
    }
    let answer = spec.sampling.as_ref().and_then(|sampling| sampling.max_tokens);
    let used = spec.sources.iter().take(spec.k.map_or(usize::MAX, |k| k as usize));
    let each: Vec<Usage> = used
        .map(|source| generated(source.transformation.as_ref(), items, answer, spec.max_attempts))
        .collect();
    sum::total(&each)
}

fn generated(
    transformation: Option<&Transformation>,
    items: &[TextItem],
    answer: Option<u32>,
    attempts: Option<u32>,
) -> Usage {
    let attempts = u64::from(attempts.unwrap_or(ATTEMPTS));
    let named = transformation.map(wire::read);
    // An unknown name is treated as a transformation that calls a generator.
    if let Some(named) = &named
        && let Some(row) = declaration(&named.name)
    {
        match row.making {
            Mechanism::Rule => return Usage::default(),
            Mechanism::Continuation => {
                let parameters = Parameters::new(row, &named.given);
                return times(&continued(parameters, items), attempts);
            }
            Mechanism::Prompts(_) => {}
        }
    }
    let answer = answer.map_or(ANSWER, u64::from);
    let of = |item: &TextItem| Usage {
        tokens: tokens(&item.text).saturating_add(PROMPT),
        generated_tokens: answer,
        ..Usage::default()
    };
    let once: Vec<Usage> = items.iter().map(of).collect();
    times(&sum::total(&once), CALLS.saturating_mul(attempts))
}

/// Usage of one attempt at continuations. Each cut is one call, whose prompt is the text with the
/// previous cuts.
fn continued(parameters: Parameters<'_>, items: &[TextItem]) -> Usage {
    let [cuts, stride] = ["cuts", "stride"].map(|name| u64::from(parameters.whole(name)));
    let of = |item: &TextItem| Usage {
        tokens: tokens(&item.text)
            .saturating_add(PROMPT)
            .saturating_add(cuts * stride)
            .saturating_mul(cuts),
        generated_tokens: cuts * stride,
        ..Usage::default()
    };
    let once: Vec<Usage> = items.iter().map(of).collect();
    sum::total(&once)
}

fn times(usage: &Usage, times: u64) -> Usage {
    Usage {
        tokens: usage.tokens.saturating_mul(times),
        generated_tokens: usage.generated_tokens.saturating_mul(times),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use isomer_proto::transform::v1::{Continuation, TransformSpec, transformation::Kind};

    use super::*;

    fn reserved(kind: Kind, spec: TransformSpec, text: &str) -> Usage {
        of_transform(&TransformRequest {
            spec: Some(TransformSpec {
                transformation: Some(kind.into()),
                ..spec
            }),
            items: vec![TextItem {
                text: text.to_owned(),
                ..TextItem::default()
            }],
            ..TransformRequest::default()
        })
    }

    fn attempts(attempts: u32) -> TransformSpec {
        TransformSpec {
            max_attempts: Some(attempts),
            ..TransformSpec::default()
        }
    }

    #[test]
    fn a_literal_prompt_is_reserved_for_with_every_text() {
        assert_eq!(prompts("", 5), 0);
        assert_eq!(prompts(&"x".repeat(30), 20), 200);
        assert_eq!(prompts("xxxx", usize::MAX), u64::MAX);
    }

    /// Too much would be reserved for a transformation by rule that is taken for another.
    #[test]
    fn tokens_are_reserved_for_the_transformations_that_need_a_generator() {
        for row in isomer_transformations::CATALOGUE {
            let open = Transformation {
                name: row.name.to_owned(),
                ..Transformation::default()
            };
            for transformation in [Transformation::named(row.name), open] {
                let items = [TextItem {
                    text: "A cat.".to_owned(),
                    ..TextItem::default()
                }];
                let most = generated(Some(&transformation), &items, None, None);
                assert_eq!(most != Usage::default(), row.needs_generator(), "{}", row.name);
            }
        }
        let newer = Transformation::named("of_tomorrow");
        assert_ne!(
            generated(Some(&newer), &[TextItem::default()], None, None),
            Usage::default()
        );
    }

    #[test]
    fn a_continuation_is_reserved_for_with_the_whole_text_at_every_cut() {
        let text = "word ".repeat(4000);
        let continuation = |cuts, stride| Kind::Continuation(Continuation { cuts, stride });
        // A call reads the text (at least one token per word) and the previous cuts.
        for (kind, cuts, stride) in [
            (continuation(Some(16), Some(64)), 16, 64),
            (continuation(None, None), 4, 5),
            // The service refuses a count above its limit, so nothing is reserved for it.
            (continuation(Some(u32::MAX), Some(u32::MAX)), 16, 64),
        ] {
            let most = reserved(kind, attempts(3), &text);
            let read: u64 = (0..cuts).map(|cut| 4000 + cut * stride).sum();
            assert!(most.tokens >= 3 * read, "{} tokens for {}", most.tokens, 3 * read);
            assert_eq!(most.generated_tokens, 3 * cuts * stride);
            assert!(most.tokens < 3 * cuts * 10_000, "{}", most.tokens);
        }
    }
}
