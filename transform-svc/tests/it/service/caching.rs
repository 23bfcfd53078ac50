//! A text is not generated again: by the next process, by a concurrent one, after a kill, for
//! another seed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use candle_core::quantized::gguf_file::Value;
use isomer_proto::{
    common::v1::Usage,
    transform::v1::{Outcome, Sampling, TransformResponse, TransformSpec},
};
use isomer_stubs::openai::{Answer, Stub};
use isomer_transform::{TransformConfig, cache::CacheStats};

use super::status;
use crate::{
    support::{Client, client_of, config, paraphrase, service, transform},
    tiny::TinyModel,
};

const TEXTS: [&str; 6] = [
    "The committee meets on the first Monday of every month.",
    "A small dog runs across the wet grass in the park.",
    "Where can I change money on a Sunday afternoon?",
    "The committee meets on the first Monday of every month.",
    "This text is hopeless and never comes back in one piece.",
    "This text is difficult but it comes back after a while.",
];

/// A separate service on the cache below `home`, like another process.
async fn fresh(config: &TransformConfig, home: &Path) -> Client {
    client_of(service(config.clone(), home)).await
}

fn stats(config: &TransformConfig, home: &Path) -> CacheStats {
    service(config.clone(), home).cache_stats()
}

fn calls(response: &TransformResponse) -> (u64, u64) {
    let (summary, usage) = (response.summary.as_ref().unwrap(), response.usage.as_ref().unwrap());
    (summary.generator_calls, usage.generator_calls)
}

fn hits(response: &TransformResponse) -> u64 {
    response.summary.as_ref().unwrap().cache_hits
}

fn texts(response: &TransformResponse) -> Vec<(&str, Outcome)> {
    response
        .results
        .iter()
        .map(|result| (result.text.as_str(), result.outcome()))
        .collect()
}

#[tokio::test]
async fn a_second_run_asks_the_generator_for_nothing_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.mark("hopeless", [Answer::Text("...".into())]);
    stub.mark("difficult", [Answer::Text(String::new()), Answer::Good]);
    let config = config(&stub, home.path());
    let first = transform(&mut fresh(&config, home.path()).await, paraphrase(), &TEXTS).await;
    // Three texts at once: one after a retry, one that never passes, one repetition.
    assert_eq!((stub.calls(), calls(&first), hits(&first)), (8, (8, 8), 1));
    let outcomes: Vec<_> = texts(&first).into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes[..4], [Outcome::Ok; 4]);
    assert_eq!(outcomes[4..], [Outcome::KeptOriginal, Outcome::Recovered]);
    // Each text reports its usage, the repetition none; the sum equals the response's total.
    let told: Vec<_> = first.results.iter().map(|result| result.usage).collect();
    assert_eq!(
        told.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, true, true, false, true, true]
    );
    let sum = |part: fn(&Usage) -> u64| told.iter().flatten().map(part).sum::<u64>();
    let whole = first.usage.unwrap();
    assert_eq!(
        (
            sum(|usage| usage.tokens),
            sum(|usage| usage.generated_tokens),
            sum(|usage| usage.generator_calls)
        ),
        (whole.tokens, whole.generated_tokens, whole.generator_calls)
    );

    let second = transform(&mut fresh(&config, home.path()).await, paraphrase(), &TEXTS).await;
    assert_eq!((stub.calls(), calls(&second), hits(&second)), (8, (0, 0), 6));
    assert_eq!(texts(&second), texts(&first));
    assert!(second.results.iter().all(|result| result.usage.is_none()));
    let usage = second.usage.unwrap();
    assert_eq!((usage.cached_texts, usage.tokens, usage.generated_tokens), (6, 0, 0));
    assert!(
        second.summary.unwrap().check_counts.is_empty(),
        "no attempt was made now"
    );
    for (now, before) in second.results.iter().zip(&first.results) {
        let (now, before) = (now.provenance.as_ref().unwrap(), before.provenance.as_ref().unwrap());
        assert!(now.cache_hit && now.attempts == 0);
        assert_eq!((&now.content_key, now.seed), (&before.content_key, before.seed));
    }
}

#[tokio::test]
async fn an_error_of_the_generator_is_not_kept() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.script([status(400)]);
    let config = config(&stub, home.path());
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let response = transform(&mut fresh(&config, home.path()).await, paraphrase(), &TEXTS[..1]).await;
        outcomes.push(response.results[0].outcome());
    }
    assert_eq!(outcomes, [Outcome::KeptOriginal, Outcome::Ok]);
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range
        .map(|n| format!("The train of hour {n} leaves from another platform today."))
        .collect()
}

async fn run(client: &mut Client, texts: &[String]) -> TransformResponse {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    transform(client, paraphrase(), &texts).await
}

#[tokio::test]
async fn two_services_on_one_cache_lose_nothing_and_use_what_the_other_has_finished() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Slow(
        std::time::Duration::from_millis(5),
        Box::new(Answer::Good),
    ))
    .await;
    let config = config(&stub, home.path());
    let (mut a, mut b) = (fresh(&config, home.path()).await, fresh(&config, home.path()).await);

    // The processes take turns while both are open.
    run(&mut a, &numbered(0..20)).await;
    assert_eq!(stub.calls(), 20);
    let later = run(&mut b, &numbered(0..30)).await;
    assert_eq!((stub.calls(), calls(&later), hits(&later)), (30, (10, 10), 20));
    let back = run(&mut a, &numbered(20..30)).await;
    assert_eq!((stub.calls(), hits(&back)), (30, 10));

    // Both run at once, from either end: each text is generated by one of them, or by both where
    // they meet.
    let (up, down) = (numbered(30..90), numbered(30..90).into_iter().rev().collect::<Vec<_>>());
    let (x, y) = tokio::join!(run(&mut a, &up), run(&mut b, &down));
    assert_eq!(calls(&x).0 + calls(&y).0, stub.calls() as u64 - 30);
    assert!((90..130).contains(&stub.calls()), "{}", stub.calls());
    let reversed: Vec<_> = texts(&y).into_iter().rev().collect();
    assert_eq!(texts(&x), reversed);

    let made = stub.calls();
    let all = run(&mut fresh(&config, home.path()).await, &numbered(0..90)).await;
    assert_eq!((stub.calls(), hits(&all), all.summary.unwrap().ok), (made, 90, 90));
    let stats = stats(&config, home.path());
    assert_eq!((stats.entries, stats.corrupt_lines), (90, 0));
}

fn segments(config: &TransformConfig) -> Vec<PathBuf> {
    fs::read_dir(config.cache_dir.as_ref().unwrap())
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect()
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_write_costs_the_text_being_written_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let config = config(&stub, home.path());
    let first = run(&mut fresh(&config, home.path()).await, &numbered(0..5)).await;
    let [segment] = <[PathBuf; 1]>::try_from(segments(&config)).unwrap();
    let whole = fs::read(&segment).unwrap();
    let last_line = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for cut in [whole.len() - 1, last_line + 200, last_line + 1] {
        let before = stub.calls();
        // This is the state after the kill. The services of earlier rounds have ended, or use
        // another file.
        for other in segments(&config) {
            fs::remove_file(other).unwrap();
        }
        fs::write(&segment, &whole[..cut]).unwrap();
        let again = run(&mut fresh(&config, home.path()).await, &numbered(0..5)).await;
        assert_eq!((stub.calls() - before, hits(&again)), (1, 4), "cut at {cut}");
        assert_eq!(texts(&again), texts(&first));
        let third = run(&mut fresh(&config, home.path()).await, &numbered(0..5)).await;
        assert_eq!((stub.calls() - before, hits(&third)), (1, 5), "cut at {cut}");
        let stats = stats(&config, home.path());
        assert_eq!(
            (stats.entries, stats.segments, stats.corrupt_lines),
            (5, 1, 0),
            "cut at {cut}"
        );
    }
}

/// A service whose generator is a tiny GGUF model that fits our prompts. Its texts are noise, which
/// is cached like any other text.
async fn local(home: &Path) -> Client {
    let mut model = TinyModel::new("llama", 1);
    model.metadata.insert("llama.context_length".into(), Value::U32(4096));
    let path = home.join("tiny.gguf");
    model.write(&path);
    let mut config = TransformConfig {
        default_generator: format!("local:{}", path.display()),
        cache_dir: Some(home.join("cache")),
        ..TransformConfig::default()
    };
    config.local.threads = 1;
    config.local.max_batch = 4;
    client_of(service(config, home)).await
}

#[tokio::test]
async fn seeds_share_one_local_generation_at_temperature_0_and_each_has_its_own_above() {
    let home = tempfile::tempdir().unwrap();
    let mut client = local(home.path()).await;
    for (temperature, shared) in [(0.0, true), (0.9, false)] {
        let mut runs = Vec::new();
        for seed in [1337, 1338, 1339] {
            let spec = TransformSpec {
                seed: Some(seed),
                max_attempts: Some(1),
                sampling: Some(Sampling {
                    temperature: Some(temperature),
                    max_tokens: Some(6),
                    ..Sampling::default()
                }),
                ..paraphrase()
            };
            runs.push(transform(&mut client, spec, &TEXTS[..2]).await);
        }
        let keys = |run: &TransformResponse| -> Vec<String> {
            let provenance = run.results.iter().map(|result| result.provenance.clone().unwrap());
            provenance.map(|provenance| provenance.content_key).collect()
        };
        assert_eq!((calls(&runs[0]), hits(&runs[0])), ((2, 2), 0));
        assert!(
            runs[0].usage.as_ref().unwrap().generated_tokens > 0,
            "the model did speak"
        );
        for later in &runs[1..] {
            if shared {
                assert_eq!((calls(later), hits(later)), ((0, 0), 2));
                assert_eq!((keys(later), texts(later)), (keys(&runs[0]), texts(&runs[0])));
            } else {
                assert_eq!((calls(later), hits(later)), ((2, 2), 0));
                assert_ne!(keys(later), keys(&runs[0]));
            }
        }
    }
}
