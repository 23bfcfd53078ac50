use std::time::{Duration, Instant};

use isomer_service_kit::{
    client,
    server::{self, ServerConfig},
};
use tokio::net::TcpStream;

use crate::support::{Obedient, Running, StreamKind, eventually, get, open, services};

fn grace(seconds: u64) -> ServerConfig {
    ServerConfig {
        shutdown_grace_seconds: seconds,
        ..ServerConfig::default()
    }
}

#[tokio::test]
async fn a_request_in_flight_is_answered_and_a_new_connection_refused() {
    let service = Obedient::default();
    let mut running = Running::start(services(&service), grace(20)).await;
    let channel = running.connect().await;
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let channel = channel.clone();
            tokio::spawn(async move { get(&channel, format!("held:{n}")).await })
        })
        .collect();
    service.seen.begun(20).await;

    running.stop();
    let mut refused = false;
    for _ in 0..400 {
        refused = TcpStream::connect(running.address).await.is_err();
        if refused {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(refused, "the port still takes connections");
    assert!(!running.task.is_finished(), "the server ended with requests in flight");

    service.seen.release.notify_waiters();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), format!("held:{n}"));
    }
    let begun = Instant::now();
    running.ended(Duration::from_secs(10)).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "it waited for the grace period though nothing was left"
    );
}

#[tokio::test]
async fn the_end_comes_when_the_grace_is_over_whatever_is_in_flight() {
    let service = Obedient::default();
    let mut running = Running::start(services(&service), grace(1)).await;
    let channel = running.connect().await;
    let mut stream = open(&channel, StreamKind::ONE_THEN_SILENCE).await.unwrap();
    stream.message().await.unwrap().unwrap();
    let held = tokio::spawn(async move { get(&channel, "held").await });
    service.seen.begun(2).await;

    let begun = Instant::now();
    running.stop();
    running.ended(Duration::from_secs(10)).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(900),
        "the grace period was cut short"
    );
    held.await.unwrap().unwrap_err();
    stream.message().await.unwrap_err();
    let seen = &service.seen;
    eventually("the work is dropped", || {
        seen.dropped.load(std::sync::atomic::Ordering::SeqCst) == 2
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_the_end() {
    let mut running = Running::start(services(&Obedient::default()), grace(20)).await;
    let channel = running.connect().await;
    get(&channel, "x").await.unwrap();
    let silent = TcpStream::connect(running.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.stop();
    running.ended(Duration::from_secs(5)).await.unwrap();
    drop((channel, silent));
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_hands_its_port_over_to_the_next_one() {
    let shared = ServerConfig {
        reuse_port: true,
        ..grace(20)
    };
    let (before, after) = (Obedient::default(), Obedient::default());
    let mut first = Running::start(services(&before), shared.clone()).await;
    let address = first.address;
    server::bind(&ServerConfig::at(address)).unwrap_err();
    let channel = first.connect().await;
    let held = tokio::spawn(async move { get(&channel, "held").await });
    before.seen.begun(1).await;

    let listen = ServerConfig {
        listen: address,
        ..shared
    };
    let _second = Running::listen(services(&after), listen).await;
    first.stop();
    // Until the first has closed its listener some connections are still its own; they are answered too. What the kernel had queued for it
    // when it closed is reset, and the client connects again.
    let mut resets = 0;
    for _ in 0..50 {
        let channel = loop {
            match client::connect(&client::ClientConfig::plain(address.to_string())).await {
                Ok(channel) => break channel,
                Err(fault) => {
                    resets += 1;
                    assert!(resets < 10, "{fault}");
                }
            }
        };
        get(&channel, "x").await.unwrap();
    }
    assert!(!first.task.is_finished(), "it left a request behind");
    before.seen.release.notify_waiters();
    assert_eq!(held.await.unwrap().unwrap(), "held");
    first.ended(Duration::from_secs(10)).await.unwrap();
    assert!(after.seen.begun.load(std::sync::atomic::Ordering::SeqCst) > 40);
}

#[cfg(unix)]
#[tokio::test]
async fn sigterm_completes_the_signal() {
    let signal = tokio::spawn(isomer_service_kit::shutdown::signal());
    // The handler is installed at the first poll.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let me = std::process::id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &me])
            .status()
            .unwrap()
            .success()
    );
    tokio::time::timeout(Duration::from_secs(5), signal)
        .await
        .unwrap()
        .unwrap();
}
