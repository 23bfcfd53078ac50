//! Records that survive a process, and records that several processes share.

use std::{path::Path, time::Duration};

use isomer_database::Database;
use isomer_proto::gateway::v1::{DeleteProviderRequest, Provider, SecretRef, secret_ref::Source};
use isomer_registry::{ProvidersConfig, Registry};
use isomer_stubs::{postgres::empty_schema, promise::promised, wait::until};
use tonic::Code;

use crate::support::{Gateway, leased, provider, renew_beyond_its_end};

#[tokio::test]
async fn records_survive_a_restart_and_ended_leases_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.sqlite");
    let stored = {
        let gateway = Gateway::on(&path).await;
        gateway.create(leased("short", 1000)).await.unwrap();
        gateway.create(leased("long", 60_000)).await.unwrap();
        let secret = Provider {
            secret: Some(SecretRef {
                source: Some(Source::Environment("PROVIDER_API_KEY".to_owned())),
            }),
            ..provider("stays")
        };
        gateway.create(secret).await.unwrap()
    };
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let gateway = Gateway::on(&path).await;
    assert_eq!(gateway.watched(), ["long", "stays"]);
    assert_eq!(gateway.registry.get("stays").await.unwrap(), stored);
}

#[tokio::test]
async fn two_gateways_on_one_file_see_each_others_changes() {
    let folder = tempfile::tempdir().unwrap();
    two_gateways(&folder.path().join("records.sqlite")).await;
}

#[tokio::test]
async fn postgresql_keeps_what_sqlite_does() {
    for _ in 0..2 {
        let (Some(many), Some(two)) = (empty_schema("registry_many").await, empty_schema("registry_two").await) else {
            return;
        };
        many_at_once(Path::new(&many)).await;
        two_gateways(Path::new(&two)).await;
    }
}

async fn two_gateways(place: &Path) {
    let (one, other) = (Gateway::on(place).await, Gateway::on(place).await);
    // Reads see the change at once; watchers see it within one polling interval.
    let created = one.create(provider("a")).await.unwrap();
    assert_eq!(other.registry.get("a").await.unwrap(), created);
    until("the change is seen", || other.watched() == ["a"]).await;
    assert_eq!(other.create(provider("a")).await.unwrap_err().code, Code::AlreadyExists);

    // A change through one gateway makes the other gateway's etag stale.
    let change = Provider {
        price_per_million_tokens: 1.0,
        etag: created.etag,
        ..provider("a")
    };
    other
        .update(change.clone(), &["price_per_million_tokens"])
        .await
        .unwrap();
    let refused = one.update(change, &["price_per_million_tokens"]).await.unwrap_err();
    assert_eq!(refused.code, Code::Aborted);

    // A lease that one gateway renews does not end at the other, not even for a moment, and that
    // gateway's watchers are not notified.
    one.create(leased("lease", 5000)).await.unwrap();
    let mut watch = other.registry.watch();
    until("the change is seen", || other.watched() == ["a", "lease"]).await;
    watch.mark_unchanged();
    renew_beyond_its_end(&one.client, "lease").await;
    assert!(!watch.has_changed().unwrap());
    until("the change is seen", || {
        other.watched() == ["a"] && one.watched() == ["a"]
    })
    .await;

    let request = DeleteProviderRequest {
        id: "a".to_owned(),
        ..DeleteProviderRequest::default()
    };
    other.client.clone().delete_provider(request).await.unwrap();
    until("the change is seen", || one.watched().is_empty()).await;
}

#[tokio::test]
async fn many_gateways_may_start_and_register_at_once_and_each_id_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    many_at_once(&folder.path().join("records.sqlite")).await;
}

async fn many_at_once(place: &Path) {
    let gateways = futures::future::join_all((0..4).map(|_| Gateway::on(place))).await;
    let attempts = gateways
        .iter()
        .flat_map(|gateway| (0..20).map(move |n| gateway.create(provider(&format!("p{n}")))));
    let outcomes = futures::future::join_all(attempts).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 20);
    for refused in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!(refused.code, Code::AlreadyExists, "{refused}");
    }
    for gateway in &gateways {
        assert_eq!(gateway.registry.list().await.unwrap().len(), 20);
    }
}

#[tokio::test]
async fn a_damaged_record_is_named() {
    let database = Database::open("sqlite::memory:").await.unwrap();
    let gateway = Gateway::open(ProvidersConfig::default(), Some(database.clone())).await;
    gateway.create(provider("a")).await.unwrap();
    sqlx::query("UPDATE providers SET body = 'zz'")
        .execute(database.pool())
        .await
        .unwrap();
    let fault = Registry::open(ProvidersConfig::default(), Some(database))
        .await
        .unwrap_err();
    assert!(
        fault.message.contains("provider `a`") && fault.hint.is_some(),
        "{fault}"
    );
}

#[tokio::test]
async fn the_registrys_tasks_end_with_it() {
    let gateway = Gateway::in_memory().await;
    let Gateway { registry, client, .. } = gateway;
    let watch = registry.watch();
    drop((registry, client));
    // The sender is dropped only when the registry has no holder left.
    until("the change is seen", || watch.has_changed().is_err()).await;
}

#[tokio::test]
async fn while_the_database_is_away_those_known_stay_and_leases_end() {
    let database = Database::open("sqlite::memory:").await.unwrap();
    let config = ProvidersConfig {
        poll_seconds: 1,
        ..ProvidersConfig::default()
    };
    let gateway = Gateway::open(config, Some(database.clone())).await;
    gateway.create(provider("stays")).await.unwrap();
    gateway.create(leased("goes", 1000)).await.unwrap();
    database.pool().close().await;
    until("the change is seen", || gateway.watched() == ["stays"]).await;
    let refused = gateway.registry.list().await.unwrap_err();
    promised("ProviderService UNAVAILABLE DATABASE", &refused);
}
