use isomer_access::{AccessScope, KeyChange, Limits, NewKey, Scopes, micros_now};
use isomer_database::Database;
use isomer_stubs::{promise::promised, wait::found};
use tonic::Code;

use super::support::*;

#[tokio::test]
async fn a_key_opens_what_its_scopes_say_and_nothing_else() {
    let access = door().await;
    let (id, text) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    let caller = ask_with(&access, ENCODE, &text).await.unwrap();
    assert_eq!(
        (caller.name(), caller.principal()),
        ("team", format!("key:{id}").as_str())
    );
    for header in ["x-api-key", "api-key"] {
        for path in ["/v1/embeddings", ENCODE] {
            let caller = ask(&access, path, &[(header, &text)]).await.unwrap();
            assert_eq!(caller.principal(), format!("key:{id}"), "{header} at {path}");
        }
    }
    ask_with(&access, "/metrics", &text).await.unwrap();
    for (path, scope) in [
        (KEYS, "admin"),
        ("/isomer.transform.v1.TransformService/Judge", "transform"),
        ("/isomer.transform.v1.AugmentationService/Augment", "transform"),
        ("/isomer.eval.v1.RunService/CreateRun", "evaluate"),
    ] {
        let fault = ask_with(&access, path, &text).await.unwrap_err();
        promised("AccessService PERMISSION_DENIED WRONG_SCOPE", &fault);
        assert_eq!(fault.metadata["scope"], scope, "{path}");
        assert!(fault.to_string().contains(scope), "{fault}");
    }
    assert!(caller.require(AccessScope::Encode).is_ok());
    assert_eq!(
        caller.require(AccessScope::Transform).unwrap_err().reason,
        "WRONG_SCOPE"
    );
}

#[tokio::test]
async fn without_a_key_only_the_probes_answer() {
    let access = door().await;
    for path in ["/healthz", "/readyz", "/grpc.health.v1.Health/Check"] {
        assert_eq!(ask(&access, path, &[]).await.unwrap().name(), "nobody", "{path}");
    }
    for path in [
        ENCODE,
        KEYS,
        "/",
        "/metrics",
        "/v1/models",
        "/nowhere",
        "/grpc.reflection.v1.ServerReflection/x",
    ] {
        let fault = ask(&access, path, &[]).await.unwrap_err();
        promised("AccessService UNAUTHENTICATED NO_KEY", &fault);
    }
}

#[tokio::test]
async fn mistyped_unknown_and_foreign_keys_are_told_apart() {
    let access = door().await;
    let elsewhere = door().await;
    let (_, text) = make(&elsewhere.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    let (id, _) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    let cut = &text[..text.len() - 1];
    let unknown = "AccessService UNAUTHENTICATED UNKNOWN_KEY";
    for (sent, promise) in [
        (text.as_str(), unknown),
        (cut, "AccessService UNAUTHENTICATED MISTYPED_KEY"),
        ("sk-123", unknown),
        ("a.b.c", unknown),
    ] {
        let fault = ask_with(&access, ENCODE, sent).await.unwrap_err();
        promised(promise, &fault);
        assert!(!fault.to_string().contains(sent), "a credential is never repeated");
    }
    // The id of an existing key with the secret of another key gets the same answer as an unknown
    // key.
    let body = format!("iso_{id}_{}", &text[17..60]);
    let forged = format!("{body}{}", checksum(&body));
    let fault = ask_with(&access, ENCODE, &forged).await.unwrap_err();
    assert_eq!(fault, ask_with(&access, ENCODE, &text).await.unwrap_err());
    assert_eq!(fault.reason, "UNKNOWN_KEY");
}

/// The documented checksum, implemented a second time.
fn checksum(body: &str) -> String {
    use sha2::Digest;
    let digits = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let hash = sha2::Sha256::digest(body.as_bytes());
    let number = u64::from(u32::from_be_bytes(hash[..4].try_into().unwrap()));
    let places = (0..6).rev().map(|place| number / 62_u64.pow(place) % 62);
    places.map(|digit| char::from(digits[digit as usize])).collect()
}

#[tokio::test]
async fn a_stream_ends_when_the_scope_that_it_needs_is_taken_away() {
    let access = door().await;
    let both = key(&[AccessScope::Encode, AccessScope::Evaluate], Limits::default());
    let (id, text) = make(&access.keys(), both).await;
    let caller = ask_with(&access, ENCODE, &text).await.unwrap();
    let scopes = |scopes: &[AccessScope]| KeyChange {
        scopes: Some(Scopes::of(scopes)),
        ..KeyChange::default()
    };
    access
        .keys()
        .update("test", &id, scopes(&[AccessScope::Encode]))
        .await
        .unwrap();
    caller.still_welcome().unwrap();
    caller.still_permitted().unwrap();
    access
        .keys()
        .update("test", &id, scopes(&[AccessScope::Evaluate]))
        .await
        .unwrap();
    assert_eq!(caller.still_welcome().unwrap_err().reason, "WRONG_SCOPE");
    assert_eq!(caller.still_permitted().unwrap_err().reason, "WRONG_SCOPE");
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_once_and_for_good() {
    let access = door().await;
    let (id, text) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    let caller = ask_with(&access, ENCODE, &text).await.unwrap();
    caller.still_welcome().unwrap();
    access.keys().revoke("test", &format!("iso_{id}")).await.unwrap();
    let fault = ask_with(&access, ENCODE, &text).await.unwrap_err();
    promised("AccessService UNAUTHENTICATED REVOKED_KEY", &fault);
    assert_eq!(
        caller.still_welcome().unwrap_err().reason,
        "REVOKED_KEY",
        "streams that began earlier end too"
    );
    let again = KeyChange {
        name: Some("again".to_owned()),
        ..KeyChange::default()
    };
    promised(
        "AccessService.UpdateKey FAILED_PRECONDITION REVOKED_KEY",
        &access.keys().update("test", &id, again).await.unwrap_err(),
    );
    let unknown: String = id.chars().rev().collect();
    promised(
        "AccessService.GetKey NOT_FOUND UNKNOWN_KEY",
        &access.keys().get(&unknown).await.unwrap_err(),
    );
    let (record, _) = access.keys().get(&id).await.unwrap();
    assert!(record.revoked.is_some());
}

#[tokio::test]
async fn an_expired_key_is_refused_with_its_date() {
    let access = door().await;
    let expires = micros_now() + 150_000;
    let soon = NewKey {
        expires: Some(expires),
        ..key(&[AccessScope::Encode], Limits::default())
    };
    let (_, text) = make(&access.keys(), soon).await;
    let asked = async || {
        let before = micros_now();
        let answer = ask_with(&access, ENCODE, &text).await;
        match &answer {
            Ok(_) => assert!(before < expires, "it is no longer valid"),
            Err(fault) => assert!(micros_now() >= expires, "it is still valid: {fault}"),
        }
        answer.err()
    };
    let fault = found("the key has expired", asked).await;
    promised("AccessService UNAUTHENTICATED EXPIRED_KEY", &fault);
    assert!(fault.message.contains(" 20"), "{fault}");
}

#[tokio::test]
async fn changes_take_hold_and_keep_what_was_not_named() {
    let access = door().await;
    let (id, text) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    let change = KeyChange {
        scopes: Some(Scopes::of(&[AccessScope::Admin])),
        ..KeyChange::default()
    };
    let (record, _) = access.keys().update("test", &id, change).await.unwrap();
    assert_eq!(
        (record.name.as_str(), record.scopes.joined().as_str()),
        ("team", "admin")
    );
    assert_eq!(
        ask_with(&access, ENCODE, &text).await.unwrap_err().reason,
        "WRONG_SCOPE"
    );
    ask_with(&access, KEYS, &text).await.unwrap();
}

#[tokio::test]
async fn keys_made_and_revoked_by_another_process_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sqlite");
    let path = path.to_str().unwrap();
    let config = isomer_access::AccessConfig {
        mode: isomer_access::Mode::Required,
        ..Default::default()
    };
    let access = isomer_access::Access::open(config, Database::open(path).await.unwrap())
        .await
        .unwrap();
    let keys = isomer_access::Keys::open(Database::open(path).await.unwrap())
        .await
        .unwrap();
    let (id, text) = make(&keys, key(&[AccessScope::Encode], Limits::default())).await;
    ask_with(&access, ENCODE, &text)
        .await
        .expect("an unknown key is looked up at once");
    keys.revoke("test", &id).await.unwrap();
    let refused = async || ask_with(&access, ENCODE, &text).await.err();
    assert_eq!(found("the revocation is seen", refused).await.reason, "REVOKED_KEY");
}

#[tokio::test]
async fn keys_that_cannot_be_meant_are_not_made() {
    let keys = door().await.keys();
    let good = || key(&[AccessScope::Encode], Limits::default());
    for (new, field) in [
        (
            NewKey {
                name: " ".to_owned(),
                ..good()
            },
            "name",
        ),
        (
            NewKey {
                name: "a\nb".to_owned(),
                ..good()
            },
            "name",
        ),
        (
            NewKey {
                scopes: Scopes::NONE,
                ..good()
            },
            "scopes",
        ),
        (
            NewKey {
                expires: Some(1),
                ..good()
            },
            "expires",
        ),
    ] {
        assert_eq!(
            keys.create("test", new).await.unwrap_err().field.as_deref(),
            Some(field)
        );
    }
    let (_, text) = make(&keys, good()).await;
    let named = NewKey {
        name: format!("my {text}"),
        ..good()
    };
    let fault = keys.create("test", named).await.unwrap_err();
    assert!(!fault.to_string().contains(&text));
    let fault = keys.get(&text).await.unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("id"));
    assert!(
        !fault.to_string().contains(&text),
        "a whole key in an id's place is not repeated"
    );
    assert_eq!(keys.get("000000000000").await.unwrap_err().code, Code::NotFound);
}

#[tokio::test]
async fn keys_are_listed_page_by_page() {
    let keys = door().await.keys();
    for n in 0..5 {
        let new = NewKey {
            name: format!("k{n}"),
            ..key(&[AccessScope::Encode], Limits::default())
        };
        make(&keys, new).await;
    }
    let mut names = Vec::new();
    let mut token = String::new();
    loop {
        let (page, next) = keys.list(2, &token).await.unwrap();
        names.extend(page.into_iter().map(|(record, _)| record.name));
        if next.is_empty() {
            break;
        }
        token = next;
    }
    assert_eq!(names, ["k0", "k1", "k2", "k3", "k4"]);
    assert_eq!(
        keys.list(2, "no.such").await.unwrap_err().field.as_deref(),
        Some("page_token")
    );
}

/// Keys over a database of their own.
async fn empty() -> isomer_access::Keys {
    let database = Database::open("sqlite::memory:").await.unwrap();
    isomer_access::Keys::open(database).await.unwrap()
}

#[tokio::test]
async fn a_key_made_elsewhere_opens_here_once_it_is_imported_and_again_changes_nothing() {
    let (_, text) = make(&empty().await, key(&[AccessScope::Encode], Limits::default())).await;
    let access = door().await;
    let secret = isomer_service_kit::config::Secret::new(text.clone());
    let refused = ask_with(&access, ENCODE, &text).await.unwrap_err();
    assert_eq!(refused.code, Code::Unauthenticated);
    assert!(!access.keys().any_works().await.unwrap());

    let wanted = || key(&[AccessScope::Encode], Limits::default());
    let (record, new) = access.keys().import("test", &secret, wanted()).await.unwrap();
    assert!(new && access.keys().any_works().await.unwrap());
    ask_with(&access, ENCODE, &text).await.unwrap();

    // The same again: no second record, nothing more on the log.
    let head = access.keys().audit_head().await.unwrap();
    let (again, new) = access.keys().import("test", &secret, wanted()).await.unwrap();
    assert!(!new && again.id == record.id);
    assert_eq!(access.keys().audit_head().await.unwrap().seq, head.seq);
    assert_eq!(access.keys().list(0, "").await.unwrap().0.len(), 1);

    // Other scopes are taken over.
    let other = key(&[AccessScope::Encode, AccessScope::Admin], Limits::default());
    access.keys().import("test", &secret, other).await.unwrap();
    ask_with(&access, KEYS, &text).await.unwrap();

    // A revoked key does not come back.
    access.keys().revoke("test", &record.id).await.unwrap();
    let fault = access.keys().import("test", &secret, wanted()).await.unwrap_err();
    assert_eq!(fault.reason, "REVOKED_KEY", "{fault}");
    assert!(ask_with(&access, ENCODE, &text).await.is_err());
    assert!(!access.keys().any_works().await.unwrap());
}

#[tokio::test]
async fn what_is_no_key_and_another_key_of_the_same_id_are_not_imported() {
    let keys = empty().await;
    let (id, text) = make(&keys, key(&[AccessScope::Encode], Limits::default())).await;
    for wrong in ["", "password", &text[..text.len() - 1]] {
        let secret = isomer_service_kit::config::Secret::new(wrong.to_owned());
        let fault = keys
            .import("test", &secret, key(&[AccessScope::Encode], Limits::default()))
            .await
            .unwrap_err();
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::InvalidArgument, Some("key")),
            "{wrong}"
        );
        assert!(wrong.is_empty() || !fault.to_string().contains(wrong), "{fault}");
    }
    let twin = twin_of(&text);
    assert!(twin[4..16] == id && twin != text);
    let secret = isomer_service_kit::config::Secret::new(twin);
    let fault = keys
        .import("test", &secret, key(&[AccessScope::Encode], Limits::default()))
        .await
        .unwrap_err();
    assert_eq!(fault.reason, "OTHER_KEY", "{fault}");
}

/// A well-formed key with the id of another one, made by the rule that gateway/access/src/key.rs
/// states: the first four bytes of SHA-256 in base 62.
fn twin_of(text: &str) -> String {
    use sha2::Digest;
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut body = text[..text.len() - 6].to_owned();
    let last = if body.pop() == Some('a') { 'b' } else { 'a' };
    body.push(last);
    let hash = sha2::Sha256::digest(body.as_bytes());
    let mut number = u32::from_be_bytes(hash[..4].try_into().unwrap());
    let mut sum = Vec::new();
    for _ in 0..6 {
        sum.insert(0, DIGITS[number as usize % 62]);
        number /= 62;
    }
    body + std::str::from_utf8(&sum).unwrap()
}
