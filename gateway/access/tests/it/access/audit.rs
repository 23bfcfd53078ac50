use isomer_access::{AccessScope, AccessServer, AuditEvent, Limits, Verifier};
use isomer_proto::gateway::v1::{
    ApiKey, BudgetPeriod, CreateKeyRequest, GetKeyRequest, KeyBudget, KeyLimits, ListAuditEventsRequest,
    RevokeKeyRequest, UpdateKeyRequest, access_service_server::AccessService,
};
use isomer_service_kit::Fault;
use isomer_stubs::promise::promised;
use prost_types::FieldMask;
use tonic::{Code, Request};

use super::support::*;

/// A request that has passed the auth layer.
async fn through<T>(access: &isomer_access::Access, key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let caller = ask_with(access, "/metrics", key).await.unwrap();
    request.extensions_mut().insert(caller);
    request
}

async fn verified(keys: &isomer_access::Keys) -> Result<i64, Fault> {
    let head = keys.audit_head().await?;
    let mut verifier = Verifier::default();
    for event in keys.audit_events(0, 0).await? {
        verifier.follow(&event)?;
    }
    Ok(verifier.end(&head)?.seq)
}

#[tokio::test]
async fn keys_are_managed_over_grpc_and_every_act_is_written_down_without_secrets() {
    let access = door().await;
    let server = AccessServer::new(access.clone());
    let (admin_id, admin) = make(&access.keys(), key(&[AccessScope::Admin], Limits::default())).await;
    let wanted = ApiKey {
        name: "search".to_owned(),
        scopes: vec![AccessScope::Encode.into()],
        limits: Some(KeyLimits {
            requests_per_second: Some(5.0),
            max_concurrency: None,
            budgets: vec![KeyBudget {
                per: BudgetPeriod::Month.into(),
                tokens: Some(1_000_000),
                cost_usd: Some(2.5),
            }],
        }),
        ..ApiKey::default()
    };
    let create = CreateKeyRequest {
        key: Some(wanted.clone()),
    };
    let created = server
        .create_key(through(&access, &admin, create).await)
        .await
        .unwrap()
        .into_inner();
    let made = created.key.unwrap();
    assert_eq!(made.limits, wanted.limits);
    assert_eq!(made.created_by, format!("team (key:{admin_id})"));
    ask_with(&access, ENCODE, &created.secret).await.unwrap();

    let update = UpdateKeyRequest {
        key: Some(ApiKey {
            id: made.id.clone(),
            name: "search two".to_owned(),
            ..ApiKey::default()
        }),
        update_mask: Some(FieldMask {
            paths: vec!["name".to_owned()],
        }),
    };
    let updated = server
        .update_key(through(&access, &admin, update).await)
        .await
        .unwrap()
        .into_inner()
        .key
        .unwrap();
    assert_eq!(
        (updated.name.as_str(), &updated.limits, &updated.scopes),
        ("search two", &wanted.limits, &wanted.scopes)
    );
    let revoke = RevokeKeyRequest { id: made.id.clone() };
    server.revoke_key(through(&access, &admin, revoke).await).await.unwrap();
    assert_eq!(
        ask_with(&access, ENCODE, &created.secret).await.unwrap_err().reason,
        "REVOKED_KEY"
    );
    let get = GetKeyRequest { id: made.id.clone() };
    let got = server
        .get_key(through(&access, &admin, get).await)
        .await
        .unwrap()
        .into_inner()
        .key
        .unwrap();
    assert!(got.revoke_time.is_some());

    let list = through(&access, &admin, ListAuditEventsRequest::default()).await;
    let log = server.list_audit_events(list).await.unwrap().into_inner();
    let acts: Vec<&str> = log.events.iter().map(|event| event.act.as_str()).collect();
    assert_eq!(acts, ["keys.create", "keys.create", "keys.update", "keys.revoke"]);
    let text = format!("{log:?}");
    assert!(!text.contains(&created.secret[17..]) && !text.contains(&admin[17..]));
    // The chain can be verified from the listed events alone.
    let mut verifier = Verifier::default();
    for event in log.events {
        verifier.follow(&AuditEvent::try_from(event).unwrap()).unwrap();
    }
    let head = isomer_access::AuditHead {
        seq: log.head_seq,
        hash: log.head_hash,
    };
    verifier.end(&head).unwrap();
}

#[tokio::test]
async fn the_service_refuses_whoever_is_no_administrator() {
    let access = door().await;
    let server = AccessServer::new(access.clone());
    let status = server
        .create_key(Request::new(CreateKeyRequest::default()))
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), Fault::from_status(&status).reason.as_str()),
        (Code::Unauthenticated, "NO_CALLER")
    );
    let (_, text) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    let status = server
        .get_key(through(&access, &text, GetKeyRequest::default()).await)
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), Fault::from_status(&status).reason.as_str()),
        (Code::PermissionDenied, "WRONG_SCOPE")
    );
    let events = access.keys().audit_events(1, 0).await.unwrap();
    assert_eq!(
        (events[0].act.as_str(), events[0].outcome.as_str()),
        ("keys.get", "WRONG_SCOPE")
    );
}

#[tokio::test]
async fn requests_that_cannot_be_meant_name_their_field() {
    let access = door().await;
    let server = AccessServer::new(access.clone());
    let (_, admin) = make(&access.keys(), key(&[AccessScope::Admin], Limits::default())).await;
    let good = || ApiKey {
        name: "x".to_owned(),
        scopes: vec![1],
        ..ApiKey::default()
    };
    for (wanted, field) in [
        (None, "key"),
        (
            Some(ApiKey {
                id: "0".to_owned(),
                ..good()
            }),
            "key.id",
        ),
        (
            Some(ApiKey {
                scopes: vec![1, 9],
                ..good()
            }),
            "key.scopes[1]",
        ),
        (
            Some(ApiKey {
                scopes: vec![],
                ..good()
            }),
            "key.scopes",
        ),
        (
            Some(ApiKey {
                name: String::new(),
                ..good()
            }),
            "key.name",
        ),
        (
            Some(ApiKey {
                expire_time: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
                ..good()
            }),
            "key.expire_time",
        ),
        (
            Some(ApiKey {
                limits: Some(KeyLimits {
                    requests_per_second: Some(-1.0),
                    ..KeyLimits::default()
                }),
                ..good()
            }),
            "key.limits.requests_per_second",
        ),
        (
            Some(ApiKey {
                limits: Some(KeyLimits {
                    budgets: vec![KeyBudget::default()],
                    ..KeyLimits::default()
                }),
                ..good()
            }),
            "key.limits.budgets[0].per",
        ),
    ] {
        let request = through(&access, &admin, CreateKeyRequest { key: wanted }).await;
        let fault = Fault::from_status(&server.create_key(request).await.unwrap_err());
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::InvalidArgument, Some(field))
        );
    }
    let update = UpdateKeyRequest {
        key: Some(good()),
        update_mask: None,
    };
    let fault = Fault::from_status(
        &server
            .update_key(through(&access, &admin, update).await)
            .await
            .unwrap_err(),
    );
    assert_eq!(fault.field.as_deref(), Some("update_mask"));
}

#[tokio::test]
async fn every_way_of_tampering_with_the_log_shows() {
    let folder = tempfile::tempdir().unwrap();
    for (tampering, event, found) in [
        (
            "UPDATE audit_events SET who = 'somebody else' WHERE seq = 2",
            "event 2",
            "changed",
        ),
        (
            "UPDATE audit_events SET at = at + 1 WHERE seq = 3",
            "event 3",
            "changed",
        ),
        ("DELETE FROM audit_events WHERE seq = 2", "event 2", "missing"),
        ("DELETE FROM audit_events WHERE seq = 4", "event 4", "head"),
        ("DELETE FROM audit_events", "event 4", "head"),
        ("UPDATE audit_head SET seq = 3", "event 3", "head"),
    ] {
        let path = folder.path().join("log.sqlite");
        let _ = std::fs::remove_file(&path);
        let database = isomer_database::Database::open(path.to_str().unwrap()).await.unwrap();
        let keys = isomer_access::Keys::open(database.clone()).await.unwrap();
        for n in 0..4 {
            keys.audit("local:test", "providers.create", &format!("p{n}"), Ok(()))
                .await
                .unwrap();
        }
        assert_eq!(verified(&keys).await.unwrap(), 4);
        sqlx::raw_sql(sqlx::AssertSqlSafe(tampering.to_owned()))
            .execute(database.pool())
            .await
            .unwrap();
        let fault = verified(&keys).await.unwrap_err();
        assert_eq!((fault.code, fault.reason.as_str()), (Code::DataLoss, "AUDIT_BROKEN"));
        assert!(
            fault.message.contains(event) && fault.message.contains(found),
            "{tampering}: {fault}"
        );
        drop((keys, database));
    }
}

#[tokio::test]
async fn keys_never_get_into_the_log_even_when_handed_to_it() {
    let access = door().await;
    let (_, text) = make(&access.keys(), key(&[AccessScope::Admin], Limits::default())).await;
    let caller = ask_with(&access, KEYS, &text).await.unwrap();
    let target = format!("provider with the header {text}");
    access
        .audit(&caller, "providers.update", &target, Ok(()))
        .await
        .unwrap();
    let events = access.keys().audit_events(1, 0).await.unwrap();
    assert_eq!(events[0].target, "provider with the header iso_(removed)");
}

#[tokio::test]
async fn many_writers_make_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.sqlite");
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let database = isomer_database::Database::open(path.to_str().unwrap()).await.unwrap();
        let keys = isomer_access::Keys::open(database).await.unwrap();
        writers.spawn(async move {
            for n in 0..10 {
                keys.audit("local:test", "providers.create", &format!("{writer}.{n}"), Ok(()))
                    .await
                    .unwrap();
            }
        });
    }
    writers.join_all().await.into_iter().for_each(drop);
    let database = isomer_database::Database::open(path.to_str().unwrap()).await.unwrap();
    assert_eq!(
        verified(&isomer_access::Keys::open(database).await.unwrap())
            .await
            .unwrap(),
        40
    );
}

#[tokio::test]
async fn an_attempt_without_the_scope_is_written_down_at_the_door() {
    let access = door().await;
    let (id, secret) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    let before = access.keys().audit_head().await.unwrap().seq;
    let path = "/isomer.gateway.v1.AccessService/CreateKey";
    for _ in 0..40 {
        let fault = ask_with(&access, path, &secret).await.unwrap_err();
        assert_eq!(fault.reason, "WRONG_SCOPE");
    }
    // Calls that need another scope are not audited, and neither are allowed calls.
    ask_with(&access, "/isomer.eval.v1.RunService/ListRuns", &secret)
        .await
        .unwrap_err();
    ask_with(&access, ENCODE, &secret).await.unwrap();
    let events = access.keys().audit_events(before, 0).await.unwrap();
    assert_eq!(events.len(), 20, "a bounded number of them");
    for event in events {
        assert_eq!(
            (
                event.who.as_str(),
                event.act.as_str(),
                event.target.as_str(),
                event.outcome.as_str()
            ),
            (&*format!("team (key:{id})"), "attempt", path, "WRONG_SCOPE")
        );
    }
    verified(&access.keys()).await.unwrap();
}

#[tokio::test]
async fn a_loopback_address_is_closed_to_foreign_pages_whatever_the_mode() {
    for mode in [isomer_access::Mode::Auto, isomer_access::Mode::Open] {
        let config = isomer_access::AccessConfig {
            mode,
            ..isomer_access::AccessConfig::default()
        };
        let database = isomer_database::Database::open("sqlite::memory:").await.unwrap();
        let access = isomer_access::Access::open(config, database).await.unwrap();
        access.check_listen("127.0.0.1:50051".parse().unwrap()).await.unwrap();
        for (name, value, promise) in [
            ("host", "evil.example", "AccessService PERMISSION_DENIED FOREIGN_HOST"),
            (
                "origin",
                "http://evil.example",
                "AccessService PERMISSION_DENIED FOREIGN_ORIGIN",
            ),
        ] {
            promised(promise, &ask(&access, ENCODE, &[(name, value)]).await.unwrap_err());
        }
        ask(&access, ENCODE, &[("host", "localhost:50051")]).await.unwrap();
    }
}

#[tokio::test]
async fn a_remembered_password_runs_no_trial_of_an_unknown_page() {
    use base64::Engine;
    let access = door().await;
    let (_, secret) = make(&access.keys(), key(&[AccessScope::Evaluate], Limits::default())).await;
    let password = base64::prelude::BASE64_STANDARD.encode(format!("me:{secret}"));
    let basic = format!("Basic {password}");
    let trial = "/?first=a&encoder=b";
    let ask = async |path: &str, headers: &[(&str, &str)]| {
        let mut parts = request(path, headers);
        parts.method = http::Method::GET;
        access.admit(&mut parts).await
    };
    let fault = ask(trial, &[("authorization", &basic)]).await.unwrap_err();
    assert_eq!(fault.reason, "UNKNOWN_PAGE");
    ask(trial, &[("authorization", &basic), ("sec-fetch-site", "same-origin")])
        .await
        .unwrap();
    ask(trial, &[("authorization", &format!("Bearer {secret}"))])
        .await
        .unwrap();
    ask("/", &[("authorization", &basic)]).await.unwrap();
}
