use std::net::SocketAddr;

use isomer_access::{Access, AccessConfig, AccessScope, Limits, Mode};
use isomer_stubs::promise::promised;

use super::support::*;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[tokio::test]
async fn auto_is_open_on_loopback_and_asks_elsewhere() {
    for (listen, required) in [
        ("127.0.0.1:0", false),
        ("[::1]:0", false),
        ("[::ffff:127.0.0.1]:0", false),
        ("0.0.0.0:0", true),
        ("[::]:0", true),
        ("10.0.0.5:0", true),
    ] {
        assert_eq!(AccessConfig::default().required_at(at(listen)), required, "{listen}");
    }
    let access = door_with(AccessConfig::default()).await;
    assert!(
        access.is_required(),
        "until the address is known, every caller needs a key"
    );
    access.check_listen(at("127.0.0.1:50051")).await.unwrap();
    assert!(!access.is_required());
    let anyone = ask(&access, KEYS, &[("host", "localhost:50051")]).await.unwrap();
    assert_eq!(anyone.name(), "anyone");
}

#[tokio::test]
async fn an_address_that_others_reach_is_refused_while_nobody_has_a_key() {
    let access = door_with(AccessConfig::default()).await;
    let error = access.check_listen(at("0.0.0.0:50051")).await.unwrap_err();
    assert_eq!(error.field(), "access.mode");
    assert!(error.to_string().contains("isomer keys create"), "{error}");
    assert!(access.is_required());
    make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    access.check_listen(at("0.0.0.0:50051")).await.unwrap();

    let open = door_with(AccessConfig {
        mode: Mode::Open,
        ..AccessConfig::default()
    })
    .await;
    open.check_listen(at("0.0.0.0:50051")).await.unwrap();
    ask(&open, KEYS, &[("host", "anything.example")]).await.unwrap();
}

#[tokio::test]
async fn an_open_loopback_is_closed_to_pages_and_names_from_elsewhere() {
    let access = door_with(AccessConfig::default()).await;
    access.check_listen(at("127.0.0.1:50051")).await.unwrap();
    for (headers, reason) in [
        (&[("host", "rebound.example:50051")][..], "FOREIGN_HOST"),
        (
            &[("host", "localhost:50051"), ("origin", "https://evil.example")],
            "FOREIGN_ORIGIN",
        ),
    ] {
        let fault = ask(&access, "/v1/embeddings", headers).await.unwrap_err();
        assert_eq!(fault.reason, reason);
    }
}

#[tokio::test]
async fn an_open_loopback_answers_pages_of_the_origins_that_were_named() {
    let access = door_with(AccessConfig::default()).await;
    access.check_listen(at("127.0.0.1:50051")).await.unwrap();
    access.allow_pages(&["https://app.example".to_owned(), "*".to_owned()]);
    let from = |origin: &'static str| [("host", "localhost:50051"), ("origin", origin)];
    let named = ask(&access, "/v1/embeddings", &from("https://app.example")).await;
    assert_eq!(named.unwrap().name(), "anyone");
    let other = ask(&access, "/v1/embeddings", &from("https://evil.example")).await;
    assert_eq!(other.unwrap_err().reason, "FOREIGN_ORIGIN", "`*` names no origin");
}

#[tokio::test]
async fn where_anyone_may_come_other_services_keys_are_passed_over_and_ours_are_checked() {
    let access = door_with(AccessConfig {
        mode: Mode::Open,
        ..AccessConfig::default()
    })
    .await;
    assert_eq!(ask_with(&access, ENCODE, "sk-unused").await.unwrap().name(), "anyone");
    let (id, text) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    assert_eq!(ask_with(&access, ENCODE, &text).await.unwrap().name(), "team");
    assert_eq!(ask_with(&access, KEYS, &text).await.unwrap_err().reason, "WRONG_SCOPE");
    access.keys().revoke("test", &id).await.unwrap();
    assert_eq!(
        ask_with(&access, ENCODE, &text).await.unwrap_err().reason,
        "REVOKED_KEY"
    );
    let twice = [
        ("authorization", format!("Bearer {text}")),
        ("api-key", "sk-unused".to_owned()),
    ];
    let twice: Vec<(&str, &str)> = twice.iter().map(|(name, value)| (*name, value.as_str())).collect();
    promised(
        "AccessService UNAUTHENTICATED SEVERAL_CREDENTIALS",
        &ask(&access, ENCODE, &twice).await.unwrap_err(),
    );
}

#[tokio::test]
async fn credentials_leave_the_request_whatever_becomes_of_it() {
    for mode in [Mode::Required, Mode::Open] {
        let access = door_with(AccessConfig {
            mode,
            ..AccessConfig::default()
        })
        .await;
        let (_, text) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
        for path in [ENCODE, KEYS] {
            let mut parts = request(
                path,
                &[
                    ("authorization", &format!("Bearer {text}")),
                    ("x-api-key", &text),
                    ("api-key", &text),
                    ("x-other", "stays"),
                ],
            );
            let _ = access.admit(&mut parts).await;
            assert!(!format!("{parts:?}").contains(&text[17..]), "{parts:?}");
            assert!(parts.headers.contains_key("x-other"));
        }
    }
}

#[tokio::test]
async fn a_browser_may_show_a_page_with_the_key_as_its_password() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let access = door().await;
    let (_, text) = make(
        &access.keys(),
        key(&[AccessScope::Evaluate, AccessScope::Admin], Limits::default()),
    )
    .await;
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("me:{text}")));
    let get = |path: &str| {
        let mut parts = request(path, &[("authorization", &basic)]);
        parts.method = http::Method::GET;
        parts
    };
    access.admit(&mut get("/runs/r1")).await.unwrap();
    // A form on another site could be sent with a remembered password, so a password opens nothing
    // that changes state.
    let mut posted = request("/runs/r1", &[("authorization", &basic)]);
    promised(
        "AccessService UNAUTHENTICATED BAD_HEADER",
        &access.admit(&mut posted).await.unwrap_err(),
    );
    assert_eq!(access.admit(&mut get(KEYS)).await.unwrap_err().reason, "BAD_HEADER");
    assert!(Access::challenge("/runs").starts_with("Basic") && Access::challenge(ENCODE).starts_with("Bearer"));
}
