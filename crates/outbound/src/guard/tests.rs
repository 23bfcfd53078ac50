#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use url::Url;

use super::*;

fn guard(allow: &[&str]) -> AddressGuard {
    AddressGuard::new(&GuardConfig {
        allow: allow.iter().map(ToString::to_string).collect(),
    })
    .unwrap()
}

fn answering(guard: AddressGuard, address: &'static str) -> AddressGuard {
    guard.looking_up(Arc::new(move |_| {
        async move { Ok(vec![address.parse().unwrap()]) }.boxed()
    }))
}

async fn refused(guard: &AddressGuard, host: &str) -> bool {
    match guard.resolve(host, 80).await {
        Ok(_) => false,
        Err(error) => AddressRefusal::behind(error.as_ref()).is_some(),
    }
}

#[test]
fn an_address_is_refused_however_it_is_written() {
    let guard = guard(&[]);
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "0",
        "169.254.169.254",
        "0xA9FEA9FE",
        "2852039166",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "１２７.0.0.1",
    ] {
        let url = Url::parse(&format!("http://{host}/")).unwrap();
        let fault = guard.check_literal(&url.host().unwrap()).unwrap_err();
        assert_eq!(fault.reason, "ADDRESS_REFUSED", "{host}");
        assert_eq!(fault.field.as_deref(), Some("provider.address"));
    }
    let url = Url::parse("http://1.1.1.1/").unwrap();
    guard.check_literal(&url.host().unwrap()).unwrap();
}

#[tokio::test]
async fn a_name_is_refused_for_what_it_resolves_to() {
    assert!(refused(&guard(&[]), "localhost").await);
    let metadata = answering(guard(&[]), "169.254.169.254");
    assert!(refused(&metadata, "innocent.example").await);
    let mapped = answering(guard(&[]), "::ffff:127.0.0.1");
    assert!(refused(&mapped, "innocent.example").await);
    let public = answering(guard(&[]), "93.184.216.34");
    assert!(!refused(&public, "innocent.example").await);
}

#[tokio::test]
async fn a_name_whose_answer_changes_is_looked_at_each_time() {
    let second = Arc::new(AtomicBool::new(false));
    let rebinding = guard(&[]).looking_up(Arc::new(move |_| {
        let address = if second.swap(true, Ordering::SeqCst) {
            "127.0.0.1"
        } else {
            "1.1.1.1"
        };
        async move { Ok(vec![address.parse().unwrap()]) }.boxed()
    }));
    assert!(!refused(&rebinding, "rebinding.example").await);
    assert!(refused(&rebinding, "rebinding.example").await);
}

#[tokio::test]
async fn of_several_addresses_only_those_that_are_allowed_are_connected_to() {
    let both = guard(&[]).looking_up(Arc::new(|_| {
        async { Ok(vec!["10.0.0.1".parse().unwrap(), "1.1.1.1".parse().unwrap()]) }.boxed()
    }));
    let found = both.resolve("both.example", 443).await.unwrap();
    assert_eq!(found, ["1.1.1.1:443".parse().unwrap()]);
}

#[tokio::test]
async fn what_the_configuration_allows_is_let_through() {
    assert!(!refused(&guard(&["localhost"]), "localhost").await);
    assert!(!refused(&guard(&["LOCALHOST"]), "LocalHost.").await);
    assert!(!refused(&guard(&["127.0.0.0/8", "::1"]), "localhost").await);
    assert!(!refused(&guard(&["127.0.0.1"]), "[::ffff:127.0.0.1]").await);
    assert!(!refused(&guard(&["::ffff:127.0.0.0/104"]), "127.0.0.1").await);
    assert!(
        !refused(
            &answering(guard(&["*.svc.cluster.local"]), "10.1.2.3"),
            "tei.ml.svc.cluster.local"
        )
        .await
    );
    assert!(
        refused(
            &answering(guard(&["*.svc.cluster.local"]), "10.1.2.3"),
            "evil-svc.cluster.local"
        )
        .await
    );
    assert!(refused(&answering(guard(&["10.0.0.0/9"]), "10.128.0.1"), "a.example").await);
    assert!(refused(&guard(&["10.0.0.0/8"]), "127.0.0.1").await);
}

#[test]
fn an_entry_that_is_none_is_refused_with_its_place() {
    for entry in [
        "",
        "http://a",
        "a:80",
        "10.0.0.0/33",
        "10.0.0/8",
        "*",
        "*.",
        "a b",
        "::ffff:1.2.3.4/8",
    ] {
        let config = GuardConfig {
            allow: vec!["ok.example".into(), entry.into()],
        };
        let error = config.validate().unwrap_err();
        assert_eq!(error.field(), "allow[1]", "{entry}");
    }
}

#[tokio::test]
async fn a_secret_travels_in_plain_text_only_where_the_configuration_allows() {
    let plain = |guard: AddressGuard| answering(guard, "93.184.216.34").with_secret_in_plain_text(true);
    assert!(refused(&plain(guard(&[])), "public.example").await);
    assert!(!refused(&plain(guard(&["public.example"])), "public.example").await);
    let url = Url::parse("http://1.1.1.1/").unwrap();
    let fault = guard(&[])
        .with_secret_in_plain_text(true)
        .check_literal(&url.host().unwrap())
        .unwrap_err();
    assert!(fault.hint.unwrap().contains("https://"));
    let own = answering(guard(&["10.0.0.0/8"]), "10.1.2.3").with_secret_in_plain_text(true);
    assert!(!refused(&own, "embed.internal").await);
}
