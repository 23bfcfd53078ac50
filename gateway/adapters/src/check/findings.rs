//! The checks of an encoder that returns vectors.

use isomer_proto::{common::v1::VectorSpace, encoder::v1::Encoder};
use isomer_service_kit::Fault;
use tokio::time::Instant;
use tonic::Code;

use super::{
    Probe, fault_text,
    fingerprint::Fingerprint,
    numbers::{Vectors, cosine, length},
    texts,
};

/// Minimum cosine of two answers to the same call. A server of our own gives 1. A server that
/// batches calls of several callers in 16 bits loses their last bits, and hosted servers run on
/// mixed hardware.
const DETERMINISTIC: f64 = 0.9999;
/// Minimum cosine of a text alone and in a batch. Padding and size-dependent kernels change more
/// than a repeated call does. The bound is that of text-embeddings-inference's own tests.
const BATCH: f64 = 0.999;
/// Maximum difference from 1 of the length of a vector described as having unit length. 16-bit
/// arithmetic keeps 8 bits.
const UNIT: f64 = 1e-2;
/// Maximum cosine of two unrelated texts. Encoders with a narrow cone of vectors reach 0.95; an
/// encoder that ignores its input gives 1.
const DISTINCT: f64 = 0.9995;
/// Number of words of the long text: the default if the encoder does not report its limit, and the
/// maximum if it does.
const LONG: (usize, usize) = (10_000, 20_000);
/// Number of calls for the median latency, and number of texts in the batch.
const LATENCY: (usize, usize) = (5, 32);
/// An id that no encoder has.
const NOBODY: &str = "isomer-check-no-such-encoder";

/// Results of the first answer.
pub(super) struct First {
    pub(super) vector_space: Option<VectorSpace>,
    pub(super) fingerprint: Fingerprint,
}

/// Runs all checks; stops if no vectors arrive.
pub(super) async fn look(probe: &mut Probe<'_>, encoder: &Encoder) -> Option<First> {
    let healthy = probe.backend.healthy().await;
    match healthy {
        Ok(()) => probe.note("health", true, "reports that it is healthy"),
        Err(fault) => probe.note("health", false, fault_text(&fault)),
    }
    let (answer, vectors) = match probe.vectors(texts::SAMPLES).await {
        Ok(first) => first,
        Err(fault) => {
            probe.essential("shape", false, fault_text(&fault));
            return None;
        }
    };
    let shape = format!(
        "{} texts, {} × {} finite values",
        vectors.0.len(),
        vectors.0.len(),
        vectors.cols()
    );
    probe.essential("shape", true, shape);
    dimension(probe, encoder, &vectors);
    norm(probe, encoder, answer.vector_space.as_ref(), &vectors);
    distinct(probe, &vectors);
    space(probe, encoder, answer.vector_space.as_ref()).await;
    deterministic(probe, &vectors).await;
    single(probe, &vectors).await;
    order(probe, &vectors).await;
    long(probe, encoder).await;
    empty(probe).await;
    unicode(probe).await;
    latency(probe).await;
    honest(probe).await;
    Some(First {
        vector_space: answer.vector_space,
        fingerprint: Fingerprint::of(&vectors),
    })
}

fn dimension(probe: &mut Probe<'_>, encoder: &Encoder, vectors: &Vectors) {
    let found = vectors.cols();
    let described = encoder.dimensions as usize;
    let detail = match described {
        0 => format!("{found}; the description names none"),
        _ => format!("{found}, described as {described}"),
    };
    probe.essential("dimension", described == 0 || described == found, detail);
}

fn norm(probe: &mut Probe<'_>, encoder: &Encoder, space: Option<&VectorSpace>, vectors: &Vectors) {
    let lengths: Vec<f64> = vectors.0.iter().map(|vector| length(vector)).collect();
    let (least, most) = lengths.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), length| {
        (least.min(*length), most.max(*length))
    });
    let unit = space.map_or(encoder.normalises, |space| space.normalised);
    let said = if unit { "unit length" } else { "any length" };
    let passed = least > 0.0 && (!unit || ((least - 1.0).abs() <= UNIT && (most - 1.0).abs() <= UNIT));
    probe.essential(
        "norm",
        passed,
        format!("lengths {least:.4} to {most:.4}, described as {said}"),
    );
}

fn distinct(probe: &mut Probe<'_>, vectors: &Vectors) {
    let mut most = -1.0_f64;
    for (at, first) in vectors.0.iter().enumerate() {
        for second in &vectors.0[at + 1..] {
            most = most.max(cosine(first, second));
        }
    }
    probe.essential(
        "texts_differ",
        most < DISTINCT,
        format!("texts without anything in common have cosines up to {most:.4}"),
    );
}

async fn space(probe: &mut Probe<'_>, encoder: &Encoder, first: Option<&VectorSpace>) {
    let Some(first) = first.filter(|space| !space.digest.is_empty()) else {
        probe.essential("vector_space", false, "answers name no vector space");
        return;
    };
    // The description covers the default prompt only.
    let described = encoder
        .vector_space
        .as_ref()
        .filter(|_| probe.options.prompt_name.is_none());
    let same = described.is_none_or(|space| space.digest == first.digest);
    let detail = match (described, same) {
        (_, false) => "the description and the answers name different vector spaces".to_owned(),
        (None, _) => format!("{} ({})", first.digest, first.model_id),
        (Some(_), _) => format!("{} ({}), as described", first.digest, first.model_id),
    };
    probe.essential("vector_space", same, detail);
}

async fn deterministic(probe: &mut Probe<'_>, vectors: &Vectors) {
    match probe.vectors(texts::SAMPLES).await {
        Ok((_, again)) => {
            let apart = vectors.apart(&again);
            probe.essential(
                "determinism",
                apart.cosine >= DETERMINISTIC,
                format!("the same call twice: {apart}"),
            );
        }
        Err(fault) => {
            probe.essential("determinism", false, fault_text(&fault));
        }
    }
}

async fn single(probe: &mut Probe<'_>, vectors: &Vectors) {
    let mut alone = Vec::new();
    for text in texts::SAMPLES {
        match probe.vectors(&[text]).await {
            Ok((_, vector)) => alone.extend(vector.0),
            Err(fault) => {
                probe.essential("batch_equals_single", false, fault_text(&fault));
                return;
            }
        }
    }
    let apart = vectors.apart(&Vectors(alone));
    probe.essential(
        "batch_equals_single",
        apart.cosine >= BATCH,
        format!("each text alone and in a batch: {apart}"),
    );
}

async fn order(probe: &mut Probe<'_>, vectors: &Vectors) {
    let backwards: Vec<&str> = texts::SAMPLES.iter().rev().copied().collect();
    match probe.vectors(&backwards).await {
        Ok((_, found)) => {
            let straight = Vectors(found.0.into_iter().rev().collect());
            let apart = vectors.apart(&straight);
            let detail = format!("a batch and the same backwards, each vector with its text's own: {apart}");
            probe.essential("order_preserved", apart.cosine >= BATCH, detail);
        }
        Err(fault) => {
            probe.essential("order_preserved", false, fault_text(&fault));
        }
    }
}

/// Whether a fault is a refusal of the text rather than a server failure.
fn refused(fault: &Fault) -> bool {
    matches!(
        fault.code,
        Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented
    )
}

/// Records the result for a text that may be refused.
fn taken_or_refused(probe: &mut Probe<'_>, name: &'static str, what: &str, answer: Result<(bool, Vectors), Fault>) {
    match answer {
        Ok((true, _)) => probe.note(name, true, format!("{what}: a vector, the text cut")),
        Ok((false, _)) => probe.note(name, true, format!("{what}: a vector")),
        Err(fault) if refused(&fault) => probe.note(name, true, format!("{what}: refused, {}", fault_text(&fault))),
        Err(fault) => probe.note(name, false, format!("{what}: {}", fault_text(&fault))),
    }
}

async fn one(probe: &Probe<'_>, text: &str) -> Result<(bool, Vectors), Fault> {
    let (answer, vectors) = probe.vectors(&[text]).await?;
    Ok((answer.truncated.first().copied().unwrap_or(false), vectors))
}

async fn long(probe: &mut Probe<'_>, encoder: &Encoder) {
    let words = match encoder.max_tokens as usize {
        0 => LONG.0,
        // Every word is at least one token.
        tokens => (tokens + tokens / 4).min(LONG.1),
    };
    let answer = one(probe, &texts::long(words)).await;
    taken_or_refused(probe, "long_input", &format!("{words} words"), answer);
}

async fn empty(probe: &mut Probe<'_>) {
    let answer = one(probe, "").await;
    taken_or_refused(probe, "empty_input", "no text", answer);
}

async fn unicode(probe: &mut Probe<'_>) {
    let all: Vec<&str> = texts::UNICODE.iter().map(|(_, text)| *text).collect();
    let names: Vec<&str> = texts::UNICODE.iter().map(|(name, _)| *name).collect();
    match probe.vectors(&all).await {
        Ok((_, vectors)) => {
            let forms = cosine(&vectors.0[0], &vectors.0[1]);
            let detail = format!("{} are taken; cosine of NFC and NFD {forms:.4}", names.join(", "));
            probe.note("unicode", true, detail);
        }
        Err(fault) => probe.note("unicode", false, fault_text(&fault)),
    }
    let answer = one(probe, texts::NUL).await;
    taken_or_refused(probe, "nul_character", "a text with a NUL", answer);
}

async fn latency(probe: &mut Probe<'_>) {
    let mut times = Vec::with_capacity(LATENCY.0);
    for text in texts::many(LATENCY.0) {
        let start = Instant::now();
        if let Err(fault) = probe.vectors(&[text]).await {
            return probe.note("latency", false, fault_text(&fault));
        }
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let start = Instant::now();
    match probe.vectors(&texts::many(LATENCY.1)).await {
        Ok(_) => {
            let (single, batch) = (times[times.len() / 2], start.elapsed());
            let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            let (single, batch) = (milliseconds(single), milliseconds(batch));
            let detail = format!(
                "one text in {single:.1} ms (median of {}), {} in {batch:.1} ms",
                LATENCY.0, LATENCY.1
            );
            probe.note("latency", true, detail);
        }
        Err(fault) => probe.note("latency", false, fault_text(&fault)),
    }
}

async fn honest(probe: &mut Probe<'_>) {
    let mut request = probe.request(&texts::SAMPLES[..1]);
    NOBODY.clone_into(&mut request.encoder_id);
    match probe.backend.encode(request, probe.deadline()).await {
        Err(fault) if matches!(fault.code, Code::NotFound | Code::InvalidArgument) => {
            probe.note(
                "errors_honest",
                true,
                format!("an encoder that does not exist is refused: {}", fault_text(&fault)),
            );
        }
        Err(fault) => probe.note(
            "errors_honest",
            false,
            format!("an encoder that does not exist: {}", fault_text(&fault)),
        ),
        Ok(_) => probe.note(
            "errors_honest",
            false,
            "an encoder that does not exist is answered with vectors",
        ),
    }
}
