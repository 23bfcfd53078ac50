//! The inputs behind the numbers.

use std::fmt::Write;

use super::{Report, plain};
use crate::EncoderInfo;
use crate::format::duration;

/// Writing to a string cannot fail.
macro_rules! line {
    ($page:expr) => { $page.push('\n') };
    ($page:expr, $($part:tt)*) => {{ let _ = writeln!($page, $($part)*); }};
}

/// The prompts used for an encoder's texts, and those that were not used.
fn prompts(page: &mut String, encoder: &EncoderInfo) {
    for one in &encoder.prompts {
        let text = one
            .text
            .as_ref()
            .map_or("its text is the encoder's".to_owned(), |text| {
                format!("\"{}\"", plain(text))
            });
        line!(
            page,
            "  - Prompt of its {} texts ({}), {} as {}: {text}",
            one.part.name(),
            plain(&one.datasets.join(", ")),
            one.source.words(),
            plain(&one.role),
        );
    }
    for one in &encoder.unused_prompts {
        line!(
            page,
            "  - Prompt not used, {}: {}",
            one.source.words(),
            plain(&one.role)
        );
    }
}

/// Models, prompts, data, counts, seeds.
pub(super) fn write(page: &mut String, report: &Report) {
    let counters = &report.counters;
    line!(page, "## Manifest");
    line!(page);
    line!(
        page,
        "- Run `{}`, {}, {}; Isomer {}",
        report.run.id,
        report.run.finished,
        duration(report.run.seconds),
        report.isomer_version
    );
    for encoder in &report.encoders {
        line!(
            page,
            "- Encoder {}: weights `{}`, vector space `{}`",
            plain(&encoder.id),
            encoder.weights_digest,
            encoder.vector_space
        );
        prompts(page, encoder);
    }
    for generator in &report.generators {
        line!(page, "- Generator {}: `{}`", plain(&generator.id), generator.digest);
        for (version, texts) in &generator.versions {
            line!(page, "- Version {}: {texts} texts", plain(version));
        }
    }
    if let Some(judge) = &report.judge {
        line!(
            page,
            "- Judge {}: `{}`; seed {}, {} attempts",
            plain(&judge.id),
            judge.digest,
            judge.seed,
            judge.attempts
        );
        for (version, ratings) in &judge.versions {
            line!(page, "- Version {} of the judge: {ratings} ratings", plain(version));
        }
        for one in &judge.scales {
            line!(page, "- Prompt {}: `{}`", plain(&one.prompt_version), one.prompt_digest);
        }
    }
    for one in report
        .suite
        .transformations
        .iter()
        .filter(|t| !t.prompt_version.is_empty())
    {
        line!(page, "- Prompt {}: `{}`", plain(&one.prompt_version), one.prompt_digest);
    }
    for dataset in &report.datasets {
        line!(
            page,
            "- Dataset {} ({}, {} rows): `{}`",
            plain(&dataset.name),
            dataset.task,
            match &dataset.sample {
                Some(sample) => format!("{} of {}", sample.rows, sample.of),
                None => dataset.items.to_string(),
            },
            dataset.digest
        );
    }
    line!(
        page,
        "- Texts planned {}: generated {}, from the cache {}, by rule {}; generator calls {}",
        counters.texts_planned,
        counters.texts_generated,
        counters.texts_cached,
        counters.texts_by_rule,
        counters.generator_calls
    );
    line!(
        page,
        "- Generators read {} tokens and wrote {}{}; what that costs depends on the generator",
        counters.generator_tokens,
        counters.generated_tokens,
        if counters.tokens_estimated {
            " (partly estimated)"
        } else {
            ""
        }
    );
    if let Some(judge) = &counters.judge {
        line!(
            page,
            "- Ratings planned {}: asked {}, from the cache {}, without a rating {}; judge calls {}, which read {} tokens and wrote \
             {}{}",
            judge.ratings_planned,
            judge.ratings_made,
            judge.ratings_cached,
            judge.ratings_missing,
            judge.calls,
            judge.tokens,
            judge.generated_tokens,
            if judge.tokens_estimated {
                " (partly estimated)"
            } else {
                ""
            }
        );
    }
    line!(
        page,
        "- Texts encoded {} ({} tokens); scores computed {}, found {}",
        counters.texts_encoded,
        counters.tokens_encoded,
        counters.scores_computed,
        counters.scores_cached
    );
    if counters.cost_nano_usd > 0 {
        line!(
            page,
            "- Encoding cost {:.4} US dollars at the gateway's prices",
            counters.cost_nano_usd as f64 / 1e9
        );
    }
    let seeds: Vec<String> = report.suite.seeds.iter().map(u64::to_string).collect();
    line!(
        page,
        "- Seeds {}; temperature {}, top_p {}{}; {} attempts{}, retries at a temperature of {} or more; on failure: {}",
        seeds.join(", "),
        report.suite.temperature,
        report.suite.top_p,
        report
            .suite
            .top_k
            .map(|most| format!(", top_k {most}"))
            .unwrap_or_default(),
        report.suite.attempts,
        if report.suite.retry_identical {
            ""
        } else {
            " (identical texts are not retried)"
        },
        report.suite.retry_temperature,
        plain(&report.suite.on_failure)
    );
}
