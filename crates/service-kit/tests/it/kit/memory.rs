use std::sync::{Arc, atomic::Ordering};

use futures::future::join_all;
use isomer_service_kit::{LimitsConfig, Services, memory};
use tonic::Code;

use crate::support::{ScriptedEncoder, StreamKind, eventually, get, in_memory, open, services};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_concurrent_calls_each_get_their_own_answer() {
    let channel = in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
    let calls = (0..200).map(|n| {
        let channel = channel.clone();
        tokio::spawn(async move {
            let id = format!("{n}-{}", "y".repeat(20_000 + n));
            assert_eq!(get(&channel, id.clone()).await.unwrap(), id);
        })
    });
    for call in join_all(calls).await {
        call.unwrap();
    }
}

#[tokio::test]
async fn a_large_message_goes_both_ways() {
    let channel = in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
    let id = "z".repeat(30 << 20);
    assert_eq!(get(&channel, id.clone()).await.unwrap().len(), id.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_dropped_calls_are_cancelled_and_the_others_go_on() {
    let limits = LimitsConfig {
        max_concurrent_requests: 5000,
        ..LimitsConfig::default()
    };
    let service = ScriptedEncoder::default();
    let channel = in_memory(&service, &limits).await;
    let held = |n: usize| {
        let channel = channel.clone();
        tokio::spawn(async move { get(&channel, format!("held:{n}")).await })
    };
    let survivors: Vec<_> = (0..10).map(held).collect();
    service.seen.begun(10).await;
    let doomed: Vec<_> = (0..2000).map(held).collect();
    service.seen.begun(2010).await;
    for call in &doomed {
        call.abort();
    }
    eventually("every dropped call is cancelled", || {
        service.seen.dropped.load(Ordering::SeqCst) == 2000
    })
    .await;
    assert_eq!(get(&channel, "after").await.unwrap(), "after");
    service.seen.release.notify_waiters();
    for call in survivors {
        assert!(call.await.unwrap().unwrap().starts_with("held:"));
    }
}

#[tokio::test]
async fn a_dropped_stream_is_cancelled_though_its_request_side_is_open() {
    for kind in [StreamKind::ENDLESS, StreamKind::ONE_THEN_SILENCE] {
        let service = ScriptedEncoder::default();
        let channel = in_memory(&service, &LimitsConfig::default()).await;
        let mut stream = open(&channel, kind).await.unwrap();
        stream.message().await.unwrap().unwrap();
        drop(stream);
        eventually("the stream is cancelled", || {
            service.seen.dropped.load(Ordering::SeqCst) == 1
        })
        .await;
    }
}

#[tokio::test]
async fn thousands_of_small_messages_may_wait_to_be_read() {
    let service = ScriptedEncoder::default();
    let channel = in_memory(&service, &LimitsConfig::default()).await;
    let mut stream = open(&channel, StreamKind::BURST).await.unwrap();
    // This stream is not read while other calls start and end on the same connection.
    for n in 0..500 {
        get(&channel, format!("{n}")).await.unwrap();
    }
    for n in 0..StreamKind::BURST_LENGTH {
        assert_eq!(stream.message().await.unwrap().unwrap().client_index, n);
    }
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test]
async fn the_services_end_with_the_last_channel() {
    let service = ScriptedEncoder::default();
    let channel = in_memory(&service, &LimitsConfig::default()).await;
    let second = channel.clone();
    get(&channel, "x").await.unwrap();
    drop(channel);
    get(&second, "x").await.unwrap();
    assert!(Arc::strong_count(&service.seen) > 1);
    drop(second);
    eventually("the services are dropped", || Arc::strong_count(&service.seen) == 1).await;
}

#[tokio::test]
async fn what_is_not_served_is_unimplemented() {
    let channel = memory::channel(Services::new(), &LimitsConfig::default())
        .await
        .unwrap();
    let status = get(&channel, "x").await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(
        status
            .message()
            .contains("/isomer.encoder.v1.EncoderService/GetEncoder"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn of_two_services_of_one_name_the_later_serves() {
    let (behind, before) = (ScriptedEncoder::default(), ScriptedEncoder::default());
    let merged = services(&behind).merge(services(&before));
    assert_eq!(merged.names(), ["isomer.encoder.v1.EncoderService"]);
    let channel = memory::channel(merged, &LimitsConfig::default()).await.unwrap();
    get(&channel, "x").await.unwrap();
    assert_eq!(before.seen.begun.load(Ordering::SeqCst), 1);
    assert_eq!(behind.seen.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_slow_call_does_not_hold_up_a_quick_one() {
    let service = ScriptedEncoder::default();
    let channel = in_memory(&service, &LimitsConfig::default()).await;
    let slow = tokio::spawn({
        let channel = channel.clone();
        async move { get(&channel, "held").await }
    });
    service.seen.begun(1).await;
    get(&channel, "quick").await.unwrap();
    assert!(!slow.is_finished());
    slow.abort();
}
