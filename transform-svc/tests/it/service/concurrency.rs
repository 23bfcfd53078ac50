//! Tests how many calls are in flight at once, which are shared, and which end with their callers.

use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        Outcome, TransformRequest, TransformResponse, TransformStreamRequest, transform_stream_response::Event,
    },
};
use isomer_stubs::{
    openai::{Answer, Stub},
    promise::refusal,
};
use isomer_transform::{
    TransformConfig,
    config::Hedge,
    engine::{Caller, Engine},
};
use tokio::task::JoinHandle;

use super::{TEXT, status};
use crate::support::{Client, client, config, items, paraphrase, resolver, transform};

fn texts(name: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|n| format!("This is text number {n} of the {name} request."))
        .collect()
}

fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn slow(milliseconds: u64, answer: Answer) -> Answer {
    Answer::Slow(Duration::from_millis(milliseconds), Box::new(answer))
}

fn held(answer: Answer) -> Answer {
    Answer::Held(Box::new(answer))
}

fn bounded(stub: &Stub, home: &std::path::Path, concurrency: usize) -> TransformConfig {
    let mut config = config(stub, home);
    config.generators.get_mut("stub").unwrap().concurrency = concurrency;
    config
}

#[tokio::test]
async fn calls_in_flight_reach_the_bound_over_all_requests_and_never_pass_it() {
    for bound in [1, 4] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(slow(30, Answer::Good)).await;
        // Retried calls also keep to the limit.
        stub.script([slow(10, status(500)), slow(10, status(429)), Answer::TruncatedJson]);
        let client = client(bounded(&stub, home.path(), bound), home.path()).await;
        let (first, second) = (texts("first", 12), texts("second", 12));
        let ask = async |texts: &[String]| transform(&mut client.clone(), paraphrase(), &borrowed(texts)).await;
        let (a, b) = tokio::join!(ask(&first), ask(&second));
        assert_eq!(stub.calls(), 24 + 3);
        assert_eq!(stub.most_in_flight(), bound);
        for response in [a, b] {
            assert_eq!(response.summary.unwrap().ok, 12);
            assert!(response.timing.unwrap().queue.unwrap().nanos > 0, "waits are told");
        }
    }
}

/// Two requests for a text while answers are held. The call for the `last` text of the second
/// request shows that it waits for the first text too.
async fn asked_twice(
    client: &Client,
    stub: &Stub,
    text: &'static str,
    last: &'static str,
) -> [JoinHandle<TransformResponse>; 2] {
    let calls = stub.calls();
    let ask = |texts: Vec<&'static str>| {
        let mut client = client.clone();
        tokio::spawn(async move { transform(&mut client, paraphrase(), &texts).await })
    };
    let first = ask(vec![text]);
    stub.wait_for_calls(calls + 1).await;
    let second = ask(vec![text, last]);
    stub.wait_for_calls(calls + 2).await;
    [first, second]
}

/// Calls, cache hits and texts of two answers to the same text.
fn shared(a: &TransformResponse, b: &TransformResponse) -> (u64, u64, u64) {
    assert_eq!(a.results[0].text, b.results[0].text);
    assert_eq!(a.results[0].outcome, b.results[0].outcome);
    let sum = |count: fn(&TransformResponse) -> u64| count(a) + count(b);
    (
        sum(|response| response.usage.as_ref().unwrap().generator_calls),
        sum(|response| response.summary.as_ref().unwrap().generator_calls),
        sum(|response| response.summary.as_ref().unwrap().cache_hits),
    )
}

#[tokio::test]
async fn a_text_asked_twice_at_once_is_generated_once_and_counted_once() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(held(Answer::Good)).await;
    let client = client(config(&stub, home.path()), home.path()).await;
    let [a, b] = asked_twice(&client, &stub, TEXT, "The last text is about a small brown dog.").await;
    stub.release();
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    // One call for each of the two texts.
    assert_eq!(stub.calls(), 2);
    assert_eq!(a.results[0].outcome(), Outcome::Ok);
    assert_eq!(shared(&a, &b), (2, 2, 1));

    // An error is not counted twice either, and is not a cache hit.
    stub.hold();
    stub.mark("poison", [held(status(400))]);
    let poison = "This text holds poison for the server.";
    let [a, b] = asked_twice(&client, &stub, poison, "The last text is about a large grey horse.").await;
    stub.release();
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    assert_eq!(stub.calls(), 4);
    assert_eq!(a.results[0].outcome(), Outcome::KeptOriginal);
    assert_eq!(shared(&a, &b), (2, 2, 0));
    let checks: u64 = [a, b]
        .iter()
        .flat_map(|response| response.summary.as_ref().unwrap().check_counts.values())
        .sum();
    assert_eq!(checks, 1);
}

#[tokio::test]
async fn a_text_twice_in_a_request_is_generated_once_whether_or_not_its_language_is_given() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(slow(50, Answer::Good)).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let mut request = TransformRequest {
        spec: Some(paraphrase()),
        items: items(&[TEXT, TEXT, TEXT]),
        ..Default::default()
    };
    request.items[2].language = None;
    let response = client.transform(request).await.unwrap().into_inner();
    assert_eq!(stub.calls(), 1);
    let summary = response.summary.unwrap();
    assert_eq!((summary.ok, summary.cache_hits, summary.generator_calls), (3, 2, 1));
}

#[tokio::test]
async fn who_waits_for_anothers_text_gets_and_counts_it_when_the_other_goes() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(held(Answer::Good)).await;
    let client = client(config(&stub, home.path()), home.path()).await;
    let [first, second] = asked_twice(&client, &stub, TEXT, "The last text is about a small brown dog.").await;
    first.abort();
    stub.release();
    let response = second.await.unwrap();
    // One call for each of the two texts.
    assert_eq!(stub.calls(), 2);
    let (summary, usage) = (response.summary.unwrap(), response.usage.unwrap());
    assert_eq!((summary.ok, summary.cache_hits), (2, 0));
    assert_eq!(
        (summary.generator_calls, usage.generator_calls, usage.generated_tokens),
        (2, 2, 14)
    );
}

#[tokio::test]
async fn dropping_a_stream_ends_its_calls_and_makes_no_more() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(held(Answer::Good)).await;
    stub.script([Answer::Good]);
    let mut client = client(bounded(&stub, home.path(), 4), home.path()).await;
    let many = texts("dropped", 60);
    let request = TransformStreamRequest {
        spec: Some(paraphrase()),
        items: items(&borrowed(&many)),
        ..Default::default()
    };
    let mut stream = client.transform_stream(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert!(matches!(first.event, Some(Event::Result(result)) if result.outcome() == Outcome::Ok));
    stub.wait_for_calls(5).await;
    drop(stream);
    stub.wait_until_idle().await;
    // Enough time for many calls, if they continued.
    stub.release();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(stub.calls(), 5, "calls after the stream was dropped");
    // Its permits are free again, and its completed texts are cached.
    let response = transform(&mut client, paraphrase(), &borrowed(&many)[..4]).await;
    assert_eq!(response.summary.as_ref().unwrap().ok, 4);
    assert!(response.summary.unwrap().cache_hits >= 1);
}

#[tokio::test]
async fn dropping_a_call_ends_the_one_under_way_at_the_server() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Hang).await;
    let client = client(bounded(&stub, home.path(), 2), home.path()).await;
    for round in 1..=3 {
        let mut client = client.clone();
        let text = format!("This is the text of round {round}.");
        let call = tokio::spawn(async move { transform(&mut client, paraphrase(), &[&text]).await });
        // There are more rounds than permits, so each round must have returned its own.
        stub.wait_for_calls(round).await;
        assert_eq!(stub.in_flight(), 1);
        call.abort();
        stub.wait_until_idle().await;
    }
}

/// If a client stops reading, its stream is no longer polled; it must not block the generator for
/// others.
#[tokio::test]
async fn a_stream_that_nobody_reads_gives_its_places_back() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(slow(50, Answer::Good)).await;
    let engine = std::sync::Arc::new(Engine::new(bounded(&stub, home.path(), 2), resolver(home.path())).unwrap());
    let run = async |name: &str| {
        let items = items(&borrowed(&texts(name, 6)));
        let (plan, jobs) = engine.plan(Caller::default(), Some(paraphrase()), items).await.unwrap();
        std::sync::Arc::clone(&engine).run(std::sync::Arc::new(plan), jobs)
    };
    let mut unread = std::pin::pin!(run("unread").await);
    assert!(unread.next().now_or_never().is_none(), "it has begun");
    let read = run("read").await.collect::<Vec<_>>();
    let done = tokio::time::timeout(Duration::from_secs(60), read)
        .await
        .expect("the others go on");
    assert_eq!(done.len(), 6);
    assert!(
        done.iter()
            .all(|result| result.as_ref().is_ok_and(|(_, done)| done.outcome.made().is_some()))
    );
    assert_eq!(stub.most_in_flight(), 2);
    // Reading continues without loss.
    assert_eq!(unread.count().await, 6);
    assert_eq!(stub.calls(), 12);
}

#[tokio::test]
async fn an_overloaded_server_is_given_fewer_calls_until_it_bears_them() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::AtMost(4, Box::new(slow(10, Answer::Good)))).await;
    let mut config = bounded(&stub, home.path(), 32);
    config.generators.get_mut("stub").unwrap().max_tries = 10;
    let mut client = client(config, home.path()).await;
    let texts = texts("busy", 200);
    let response = transform(&mut client, paraphrase(), &borrowed(&texts)).await;
    assert_eq!(response.summary.unwrap().ok, 200, "every text is done in the end");
    // Without adaptation, 32 concurrent calls would be refused again and again: seven of eight in
    // each round.
    let refused = stub.calls() - 200;
    assert!(refused < 250, "{refused} refusals for 200 texts");
}

#[tokio::test]
async fn a_bound_that_may_not_move_does_not() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(slow(20, Answer::Good)).await;
    stub.script([status(503), status(429)]);
    let mut config = bounded(&stub, home.path(), 6);
    config.generators.get_mut("stub").unwrap().min_concurrency = 6;
    let mut client = client(config, home.path()).await;
    transform(&mut client, paraphrase(), &borrowed(&texts("first", 12))).await;
    assert_eq!(stub.most_in_flight(), 6);
}

#[tokio::test]
async fn a_call_that_takes_long_is_made_a_second_time_and_the_loser_is_cancelled() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(slow(20, Answer::Good)).await;
    stub.script([Answer::Hang]);
    let mut config = bounded(&stub, home.path(), 4);
    let generator = config.generators.get_mut("stub").unwrap();
    generator.hedge = Hedge::Seconds(0.2);
    // The first call does not time out, so nothing is tried again.
    generator.timeout_seconds = 3600.0;
    let mut client = client(config, home.path()).await;
    // The first call never ends.
    let response = transform(&mut client, paraphrase(), &[TEXT]).await;
    assert_eq!(response.results[0].outcome(), Outcome::Ok);
    // Both calls are counted, although only one was useful.
    assert_eq!((stub.calls(), response.usage.unwrap().generator_calls), (2, 2));
    stub.wait_until_idle().await;
}

#[tokio::test]
async fn hedging_takes_no_place_from_those_who_wait_and_is_off_by_default() {
    for hedge in [Hedge::Seconds(0.05), Hedge::Off] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(slow(150, Answer::Good)).await;
        let mut config = bounded(&stub, home.path(), 2);
        config.generators.get_mut("stub").unwrap().hedge = hedge;
        let mut client = client(config, home.path()).await;
        transform(&mut client, paraphrase(), &borrowed(&texts("full", 4))).await;
        assert_eq!(stub.most_in_flight(), 2, "{hedge:?}");
        assert!(hedge != Hedge::Off || stub.calls() == 4);
    }
}

#[tokio::test]
async fn a_stream_brings_results_as_they_come_with_their_ids() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.mark("slow", [held(Answer::Good)]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let request = TransformStreamRequest {
        spec: Some(paraphrase()),
        items: items(&[
            "This text is a slow one of the three texts.",
            "This text is as slow as the first one is.",
            "This text is the quick one of the three.",
        ]),
        ..Default::default()
    };
    let mut stream = client.transform_stream(request).await.unwrap().into_inner();
    let mut came = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        match message.event.unwrap() {
            Event::Result(result) => {
                came.push((result.id, result.index));
                stub.release();
            }
            Event::End(end) => assert_eq!(end.summary.unwrap().ok, 3),
        }
    }
    assert_eq!(
        came[0],
        ("t2".to_owned(), 2),
        "while the answers to the others are held"
    );
    came.sort();
    assert_eq!(came, [("t0".to_owned(), 0), ("t1".to_owned(), 1), ("t2".to_owned(), 2)]);
}

#[tokio::test]
async fn calls_come_at_the_rate_that_the_server_is_said_to_allow() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut config = config(&stub, home.path());
    config.generators.get_mut("stub").unwrap().requests_per_second = 5.0;
    let mut client = client(config, home.path()).await;
    let texts = texts("hurried", 9);
    let began = Instant::now();
    let response = transform(&mut client, paraphrase(), &borrowed(&texts)).await;
    // One second's allowance is sent immediately, and the other four after 200 ms each.
    assert!(began.elapsed() >= Duration::from_millis(750), "{:?}", began.elapsed());
    assert_eq!((response.summary.unwrap().ok, stub.calls()), (9, 9));
}

fn request(texts: &[String], priority: Priority) -> TransformRequest {
    TransformRequest {
        spec: Some(paraphrase()),
        items: items(&borrowed(texts)),
        priority: priority.into(),
    }
}

#[tokio::test]
async fn an_interactive_call_overtakes_a_batch_that_saturates_the_generator() {
    // A request of unspecified priority overtakes the batch; another batch request waits its turn.
    for priority in [Priority::Unspecified, Priority::Batch] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(slow(100, Answer::Good)).await;
        let client = client(bounded(&stub, home.path(), 2), home.path()).await;
        let ask = |texts: Vec<String>, priority| {
            let mut client = client.clone();
            tokio::spawn(async move { client.transform(request(&texts, priority)).await.unwrap() })
        };
        // Several requests: each keeps as many calls waiting as the generator takes at once.
        let batch: Vec<_> = ["one", "two", "three", "four", "five"]
            .into_iter()
            .map(|name| ask(texts(name, 8), Priority::Batch))
            .collect();
        stub.wait_for_calls(4).await;
        ask(texts("urgent", 1), priority).await.unwrap();
        let place = stub
            .seen()
            .iter()
            .position(|seen| seen.user().contains("urgent"))
            .unwrap();
        // Two calls may have started before it arrived.
        let overtook = place <= 7;
        assert_eq!(
            overtook,
            priority == Priority::Unspecified,
            "it was call number {place}"
        );
        for batch in batch {
            assert_eq!(batch.await.unwrap().into_inner().summary.unwrap().ok, 8);
        }
        assert_eq!((stub.calls(), stub.most_in_flight()), (41, 2));
    }
}

#[tokio::test]
async fn a_text_of_a_batch_that_an_interactive_call_wants_too_overtakes_with_it() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(slow(100, Answer::Good)).await;
    let client = client(bounded(&stub, home.path(), 4), home.path()).await;
    let ask = |texts: Vec<String>, priority| {
        let mut client = client.clone();
        tokio::spawn(async move { client.transform(request(&texts, priority)).await.unwrap() })
    };
    let batch: Vec<_> = ["one", "two", "three", "four", "five", "six"]
        .into_iter()
        .map(|name| ask(texts(name, 4), Priority::Batch))
        .collect();
    stub.wait_for_calls(4).await;
    // It is already waiting in the batch.
    let begun: Vec<String> = stub.seen().iter().map(|seen| seen.user().to_owned()).collect();
    let wanted = ["one", "two", "three", "four", "five", "six"]
        .into_iter()
        .rev()
        .map(|name| texts(name, 4).pop().unwrap())
        .find(|text| !begun.iter().any(|user| user.contains(text.as_str())))
        .unwrap();
    ask(vec![wanted.clone()], Priority::Interactive).await.unwrap();
    let place = stub
        .seen()
        .iter()
        .position(|seen| seen.user().contains(&wanted))
        .unwrap();
    assert!(place < 12, "it was call number {place}");
    for batch in batch {
        batch.await.unwrap();
    }
    assert_eq!(stub.calls(), 24, "it was generated once");
}

#[tokio::test]
async fn a_priority_that_is_none_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let request = TransformRequest {
        priority: 7,
        ..request(&texts("odd", 1), Priority::Batch)
    };
    let refused = client.transform(request).await.unwrap_err();
    let refused = isomer_service_kit::Fault::from_status(&refused);
    assert_eq!(refusal(&refused), "INVALID_ARGUMENT priority");
    assert!(refused.message.contains('7'), "{refused}");
    assert_eq!(stub.calls(), 0);
}
