use std::{
    collections::HashSet,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use isomer_access::{AccessScope, Budget, BudgetPeriod, JwtConfig, Limits};
use isomer_service_kit::config::Validate;
use isomer_stubs::{promise::promised, wait::found};
use jsonwebtoken::Algorithm;
use ring::hmac;
use serde_json::{Value, json};
use tonic::Code;

use super::identity_provider::*;

#[tokio::test]
async fn a_token_of_each_allowed_kind_is_accepted_with_its_scopes() {
    let kinds = [
        (Algorithm::RS256, "r"),
        (Algorithm::ES256, "e"),
        (Algorithm::EdDSA, "d"),
    ];
    let provider = Provider::start(&kinds.map(|(algorithm, id)| public(algorithm, id))).await;
    let access = door(provider.config()).await;
    for (algorithm, id) in kinds {
        let token = token(algorithm, id, &claims());
        for _ in 0..2 {
            let caller = ask(&access, ENCODE, &token).await.unwrap();
            assert_eq!(
                (caller.name(), caller.scopes().joined().as_str()),
                ("alice", "encode,evaluate")
            );
            assert!(caller.principal().starts_with("jwt:"));
        }
        let fault = ask(&access, "/isomer.gateway.v1.AccessService/CreateKey", &token)
            .await
            .unwrap_err();
        assert_eq!(
            (fault.code, fault.reason.as_str()),
            (Code::PermissionDenied, "WRONG_SCOPE")
        );
    }
    assert_eq!(provider.asked.load(Ordering::SeqCst), 1, "the keys are fetched once");
}

#[tokio::test]
async fn claims_that_do_not_hold_are_refused() {
    let provider = Provider::start(&[public(Algorithm::ES256, "e")]).await;
    let access = door(provider.config()).await;
    let with = |key: &str, value: Value| {
        let mut claims = claims();
        claims[key] = value;
        claims
    };
    let bad = "AccessService UNAUTHENTICATED BAD_TOKEN";
    let expired = "AccessService UNAUTHENTICATED EXPIRED_TOKEN";
    for (claims, promise) in [
        (with("exp", json!(now() - 6)), expired),
        (with("exp", json!(0)), expired),
        (with("exp", Value::Null), bad),
        (with("exp", json!("9999999999")), bad),
        (with("exp", json!(-1)), bad),
        (with("nbf", json!(now() + 60)), bad),
        (with("iss", json!("https://login.example.org")), bad),
        (with("iss", json!([ISSUER, "https://evil.example/"])), bad),
        (with("iss", Value::Null), bad),
        (with("aud", json!("another")), bad),
        (with("aud", json!([])), bad),
        (with("aud", Value::Null), bad),
        (with("sub", Value::Null), bad),
        (with("sub", json!("")), bad),
        (with("sub", json!("a\nb")), bad),
    ] {
        let fault = ask(&access, ENCODE, &token(Algorithm::ES256, "e", &claims))
            .await
            .unwrap_err();
        promised(promise, &fault);
    }
    // Within the leeway, and among several audiences.
    for claims in [
        with("exp", json!(now() - 2)),
        with("aud", json!(["x", AUDIENCE])),
        with("nbf", json!(now() + 2)),
    ] {
        ask(&access, ENCODE, &token(Algorithm::ES256, "e", &claims))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_token_ends_although_it_was_verified_before() {
    let provider = Provider::start(&[public(Algorithm::EdDSA, "d")]).await;
    let access = door(JwtConfig {
        leeway_seconds: 0,
        ..provider.config()
    })
    .await;
    // A machine that is busy for longer than a token is valid is given another token.
    let verified = async || {
        let mut short = claims();
        let expires = now() + 2;
        short["exp"] = json!(expires);
        let token = token(Algorithm::EdDSA, "d", &short);
        match ask(&access, ENCODE, &token).await {
            Ok(caller) => Some((caller, token)),
            Err(fault) => {
                assert!(now() >= expires, "{fault}");
                None
            }
        }
    };
    let (caller, token) = found("a token is verified", verified).await;
    let refused = async || ask(&access, ENCODE, &token).await.err();
    assert_eq!(found("it has expired", refused).await.reason, "EXPIRED_TOKEN");
    assert_eq!(caller.still_welcome().unwrap_err().reason, "EXPIRED_TOKEN");
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let provider = Provider::start(&[public(Algorithm::RS256, "r"), public(Algorithm::ES256, "e")]).await;
    let access = door(provider.config()).await;
    let claims = claims();
    let modulus = public(Algorithm::RS256, "r")["n"].as_str().unwrap().to_owned();
    // An HMAC with the public key as its secret, in each form in which the public key is available.
    let shared = |algorithm, digest, secret: &[u8]| {
        let key = hmac::Key::new(digest, secret);
        encode(&header(algorithm, "r"), &claims, &Signer::Secret(key))
    };
    let hs256 = |secret: &[u8]| shared(Algorithm::HS256, hmac::HMAC_SHA256, secret);
    let genuine = token(Algorithm::ES256, "e", &claims);
    let (body, signature) = genuine.rsplit_once('.').unwrap();
    let head = body.split('.').next().unwrap();
    let other = token(Algorithm::ES256, "e", &json!({ "sub": "root" }));
    let swapped = other.split('.').nth(1).unwrap();
    let none = |alg: &str| by_hand(&json!({ "alg": alg, "kid": "e" }), &claims, b"");
    let mut embedded = header(Algorithm::EdDSA, "d");
    embedded.jwk = serde_json::from_value(public(Algorithm::EdDSA, "d")).unwrap();
    let mut pointing = header(Algorithm::EdDSA, "d");
    pointing.jku = Some(format!("http://{}/jwks.json", provider.address));
    // Signed with the genuine key: only the header is invalid.
    let critical = |names: &[&str]| {
        let mut header = header(Algorithm::ES256, "e");
        header.crit = Some(names.iter().map(|name| (*name).to_owned()).collect());
        encode(&header, &claims, &signer(Algorithm::ES256))
    };
    for (what, forged) in [
        ("alg none", none("none")),
        ("alg None", none("None")),
        ("alg NONE", none("NONE")),
        ("no alg", by_hand(&json!({ "kid": "e" }), &claims, b"")),
        ("no signature", format!("{body}.")),
        ("HS256 over the modulus", hs256(modulus.as_bytes())),
        (
            "HS256 over the JWK",
            hs256(public(Algorithm::RS256, "r").to_string().as_bytes()),
        ),
        ("HS512 over nothing", shared(Algorithm::HS512, hmac::HMAC_SHA512, b"")),
        (
            "another's key",
            encode(&header(Algorithm::EdDSA, "e"), &claims, &signer(Algorithm::EdDSA)),
        ),
        (
            "a key in its own header",
            encode(&embedded, &claims, &signer(Algorithm::EdDSA)),
        ),
        (
            "a header that points at keys",
            encode(&pointing, &claims, &signer(Algorithm::EdDSA)),
        ),
        ("claims of another token", format!("{head}.{swapped}.{signature}")),
        (
            "a signature of zeros",
            by_hand(&json!({ "alg": "ES256", "kid": "e" }), &claims, &[0; 64]),
        ),
        ("an unknown key id", token(Algorithm::ES256, "../e", &claims)),
        ("an unknown critical header", critical(&["exp2"])),
        ("a critical header of a known name", critical(&["exp"])),
        ("an empty list of critical headers", critical(&[])),
        ("not JSON", "YWJj.YWJj.YWJj".to_owned()),
        ("empty parts", "..".to_owned()),
        ("another kind of token", {
            let mut typed = header(Algorithm::ES256, "e");
            typed.typ = Some("logout+jwt".to_owned());
            encode(&typed, &claims, &signer(Algorithm::ES256))
        }),
    ] {
        let fault = ask(&access, ENCODE, &forged).await.expect_err(what);
        assert_eq!(
            (fault.code, fault.reason.as_str()),
            (Code::Unauthenticated, "BAD_TOKEN"),
            "{what}: {fault}"
        );
        let told = format!("{fault} {fault:?}");
        assert!(forged.len() < 10 || !told.contains(&forged[..10]), "{what}");
    }
    ask(&access, ENCODE, &genuine).await.unwrap();
}

#[tokio::test]
async fn keys_of_the_provider_that_cannot_protect_are_passed_over() {
    let mut encryption = public(Algorithm::ES256, "e");
    encryption["use"] = json!("enc");
    let mut short = public(Algorithm::RS256, "r");
    short["n"] = json!("AQAB");
    let secret = json!({ "kty": "oct", "kid": "s", "k": "c2VjcmV0", "alg": "HS256" });
    let mut other = public(Algorithm::RS256, "p");
    other["alg"] = json!("PS256");
    let good = public(Algorithm::EdDSA, "d");
    let provider = Provider::start(&[encryption, short, secret, other, json!("nonsense"), good]).await;
    let access = door(provider.config()).await;
    for (algorithm, id) in [
        (Algorithm::ES256, "e"),
        (Algorithm::RS256, "r"),
        (Algorithm::RS256, "p"),
    ] {
        let fault = ask(&access, ENCODE, &token(algorithm, id, &claims()))
            .await
            .unwrap_err();
        assert_eq!(fault.reason, "BAD_TOKEN", "{id}");
    }
    ask(&access, ENCODE, &token(Algorithm::EdDSA, "d", &claims()))
        .await
        .unwrap();
}

#[tokio::test]
async fn new_keys_are_found_and_withdrawn_ones_forgotten_with_measure() {
    let provider = Provider::start(&[public(Algorithm::ES256, "old")]).await;
    let config = JwtConfig {
        max_age_seconds: 2,
        ..provider.config()
    };
    let access = door(config).await;
    let begun = Instant::now();
    let old = token(Algorithm::ES256, "old", &claims());
    ask(&access, ENCODE, &old).await.unwrap();
    provider.publish(&[public(Algorithm::EdDSA, "new")]);
    // However many unknown ids arrive, the provider is asked at most once a second.
    for n in 0..50 {
        let unknown = token(Algorithm::EdDSA, &format!("guess{n}"), &claims());
        assert_eq!(ask(&access, ENCODE, &unknown).await.unwrap_err().reason, "BAD_TOKEN");
    }
    let asked = provider.asked.load(Ordering::SeqCst);
    assert!(asked as u64 <= 1 + begun.elapsed().as_secs(), "asked {asked} times");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    ask(&access, ENCODE, &token(Algorithm::EdDSA, "new", &claims()))
        .await
        .unwrap();
    assert_eq!(
        ask(&access, ENCODE, &old).await.unwrap_err().reason,
        "BAD_TOKEN",
        "verified before, but its key is gone"
    );
}

#[tokio::test]
async fn a_provider_that_is_away_or_answers_nonsense_is_an_outage_and_not_an_open_door() {
    let provider = Provider::start(&[]).await;
    for (document, path) in [
        ("{\"keys\": []}".to_owned(), "/jwks.json"),
        ("<html>".to_owned(), "/jwks.json"),
        (
            format!("{{\"keys\": [], \"pad\": \"{}\"}}", "x".repeat(2 << 20)),
            "/jwks.json",
        ),
        (
            json!({ "keys": [public(Algorithm::ES256, "e")] }).to_string(),
            "/redirects",
        ),
        (String::new(), "/nowhere"),
    ] {
        *provider.document.lock() = document;
        let url = Some(format!("http://{}{path}", provider.address));
        let access = door(JwtConfig {
            jwks_url: url,
            ..provider.config()
        })
        .await;
        let fault = ask(&access, ENCODE, &token(Algorithm::ES256, "e", &claims()))
            .await
            .unwrap_err();
        assert_eq!(
            (fault.code, fault.reason.as_str()),
            (Code::Unavailable, "IDENTITY_PROVIDER"),
            "{path}"
        );
        assert!(fault.retry_after.is_some());
    }
}

#[tokio::test]
async fn keys_may_lie_in_a_file_and_scopes_within_objects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    std::fs::write(&path, json!({ "keys": [public(Algorithm::RS256, "r")] }).to_string()).unwrap();
    let config = JwtConfig {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        jwks_file: Some(path),
        scopes_claim: "realm_access.roles".to_owned(),
        scope_prefix: "isomer:".to_owned(),
        ..JwtConfig::default()
    };
    let access = door(config).await;
    let mut claims = claims();
    claims["realm_access"] = json!({ "roles": ["isomer:transform", "encode", "isomer:root", 7] });
    let caller = ask(
        &access,
        "/isomer.transform.v1.TransformService/Judge",
        &token(Algorithm::RS256, "r", &claims),
    )
    .await;
    assert_eq!(caller.unwrap().scopes().joined(), "transform");
}

#[tokio::test]
async fn each_subject_has_its_own_limits() {
    let provider = Provider::start(&[public(Algorithm::EdDSA, "d")]).await;
    let limits = Limits {
        budgets: vec![Budget {
            per: BudgetPeriod::Day,
            tokens: Some(10),
            cost_usd: None,
        }],
        ..Limits::default()
    };
    let access = door(JwtConfig {
        limits,
        ..provider.config()
    })
    .await;
    let of = |name: &str| {
        let mut claims = claims();
        claims["sub"] = json!(name);
        token(Algorithm::EdDSA, "d", &claims)
    };
    let alice = ask(&access, ENCODE, &of("alice")).await.unwrap();
    alice.charge(10, 0);
    assert_eq!(
        ask(&access, ENCODE, &of("alice")).await.unwrap_err().reason,
        "BUDGET_EXCEEDED"
    );
    let bob = ask(&access, ENCODE, &of("bob")).await.unwrap();
    assert!(bob.require(AccessScope::Encode).is_ok() && bob.principal() != alice.principal());
}

#[test]
fn configurations_that_would_open_a_hole_are_refused() {
    let good = || JwtConfig {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        jwks_url: Some("https://login.example.org/jwks.json".to_owned()),
        ..JwtConfig::default()
    };
    good().validate().unwrap();
    let algorithms = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let url = |url: &str| Some(url.to_owned());
    let mut fields = HashSet::new();
    for (config, field) in [
        (
            JwtConfig {
                issuer: String::new(),
                ..good()
            },
            "issuer",
        ),
        (
            JwtConfig {
                audiences: vec![],
                ..good()
            },
            "audiences",
        ),
        (
            JwtConfig {
                algorithms: algorithms(&["RS256", "HS256"]),
                ..good()
            },
            "algorithms",
        ),
        (
            JwtConfig {
                algorithms: algorithms(&["none"]),
                ..good()
            },
            "algorithms",
        ),
        (
            JwtConfig {
                algorithms: vec![],
                ..good()
            },
            "algorithms",
        ),
        (
            JwtConfig {
                jwks_url: url("http://login.example.org/jwks.json"),
                ..good()
            },
            "jwks_url",
        ),
        (
            JwtConfig {
                jwks_url: url("http://127.0.0.1/jwks.json"),
                ..good()
            },
            "jwks_url",
        ),
        (
            JwtConfig {
                jwks_url: url("http://login.example.org/"),
                allow_loopback: true,
                ..good()
            },
            "jwks_url",
        ),
        (
            JwtConfig {
                jwks_url: url("file:///etc/keys"),
                ..good()
            },
            "jwks_url",
        ),
        (
            JwtConfig {
                jwks_url: None,
                ..good()
            },
            "jwks_url",
        ),
        (
            JwtConfig {
                jwks_file: Some("keys.json".into()),
                ..good()
            },
            "jwks_url",
        ),
        (
            JwtConfig {
                leeway_seconds: 86_400,
                ..good()
            },
            "leeway_seconds",
        ),
        (
            JwtConfig {
                refresh_seconds: 0,
                ..good()
            },
            "refresh_seconds",
        ),
    ] {
        assert_eq!(config.validate().unwrap_err().field(), field);
        fields.insert(field);
    }
    assert_eq!(fields.len(), 6);
    JwtConfig {
        jwks_url: url("http://127.0.0.1/jwks.json"),
        allow_loopback: true,
        ..good()
    }
    .validate()
    .unwrap();
}
