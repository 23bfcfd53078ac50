//! Providers that register themselves.

use std::time::Duration;

use isomer_proto::gateway::v1::{Provider, ProviderSource, RenewLeaseRequest};
use isomer_registry::ProvidersConfig;
use isomer_stubs::{promise::promised, wait::until};

use crate::support::{Gateway, fault, leased, provider, renew_beyond_its_end};

async fn renew(gateway: &Gateway, id: &str) -> Result<prost_types::Timestamp, isomer_service_kit::Fault> {
    let request = RenewLeaseRequest { id: id.to_owned() };
    let answer = gateway.client.clone().renew_lease(request).await;
    answer
        .map(|answer| answer.into_inner().expire_time.unwrap())
        .map_err(fault)
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_at_its_time_and_the_id_is_free_again() {
    let gateway = Gateway::in_memory().await;
    gateway.create(provider("stays")).await.unwrap();
    let mut watch = gateway.registry.watch();
    let begun = std::time::Instant::now();
    let created = gateway.create(leased("a", 1000)).await.unwrap();
    assert_eq!(created.source(), ProviderSource::Leased);
    let (made, ends) = (created.create_time.unwrap(), created.expire_time.unwrap());
    assert_eq!((ends.seconds - made.seconds, ends.nanos), (1, made.nanos));
    // No call is made: the watchers are notified.
    let ended = watch.wait_for(|providers| providers.iter().all(|one| one.id != "a"));
    tokio::time::timeout(Duration::from_secs(60), ended)
        .await
        .unwrap()
        .unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(gateway.watched(), ["stays"]);
    promised(
        "ProviderService.GetProvider NOT_FOUND UNKNOWN_PROVIDER",
        &gateway.registry.get("a").await.unwrap_err(),
    );
    let gone = renew(&gateway, "a").await.unwrap_err();
    promised("ProviderService.RenewLease NOT_FOUND UNKNOWN_PROVIDER", &gone);
    assert!(gone.hint.is_some());
    let again = gateway.create(leased("a", 60_000)).await.unwrap();
    assert_ne!(again.create_time, created.create_time);
    assert_eq!(gateway.watched(), ["a", "stays"]);
}

#[tokio::test]
async fn a_lease_that_is_renewed_goes_on_without_a_word_to_the_watchers() {
    let gateway = Gateway::in_memory().await;
    let created = gateway.create(leased("a", 5000)).await.unwrap();
    let mut watch = gateway.registry.watch();
    watch.borrow_and_update();
    let mut ends = created.expire_time.unwrap();
    for later in renew_beyond_its_end(&gateway.client, "a").await {
        assert!((later.seconds, later.nanos) > (ends.seconds, ends.nanos));
        ends = later;
    }
    assert!(!watch.has_changed().unwrap());
    let now = gateway.registry.get("a").await.unwrap();
    assert_eq!(
        (now.expire_time, &now.etag, now.update_time),
        (Some(ends), &created.etag, created.update_time)
    );
    assert_eq!(watch.borrow()[0].expire_time, Some(ends));
}

#[tokio::test]
async fn a_lease_begins_anew_with_an_update_that_has_it_and_runs_on_with_others() {
    let gateway = Gateway::in_memory().await;
    let created = gateway.create(leased("a", 60_000)).await.unwrap();
    let priced = Provider {
        price_per_million_tokens: 3.0,
        ..leased("a", 90_000)
    };
    let updated = gateway
        .update(priced.clone(), &["price_per_million_tokens"])
        .await
        .unwrap();
    assert_eq!(
        (updated.expire_time, updated.lease),
        (created.expire_time, created.lease)
    );
    let updated = gateway.update(priced, &["lease"]).await.unwrap();
    assert!(updated.expire_time.unwrap().seconds >= created.expire_time.unwrap().seconds + 30);
    // Without a lease the provider stays.
    let updated = gateway.update(provider("a"), &["lease"]).await.unwrap();
    assert_eq!((updated.expire_time, updated.source()), (None, ProviderSource::Stored));
    let refused = renew(&gateway, "a").await.unwrap_err();
    promised("ProviderService.RenewLease FAILED_PRECONDITION NO_LEASE", &refused);
}

#[tokio::test]
async fn without_a_database_only_leases_are_taken() {
    let gateway = Gateway::open(ProvidersConfig::default(), None).await;
    let refused = gateway.create(provider("a")).await.unwrap_err();
    promised(
        "ProviderService.CreateProvider FAILED_PRECONDITION NO_DATABASE",
        &refused,
    );
    gateway.create(leased("a", 1000)).await.unwrap();
    let refused = gateway.update(provider("a"), &["lease"]).await.unwrap_err();
    assert_eq!(refused.reason, "NO_DATABASE");
    until("the lease has ended", || gateway.watched().is_empty()).await;
}

#[tokio::test]
async fn leases_are_as_long_as_the_configuration_grants() {
    let config = ProvidersConfig {
        max_lease_seconds: 10,
        ..ProvidersConfig::default()
    };
    let gateway = Gateway::open(config, None).await;
    for (milliseconds, legal) in [(999, false), (1000, true), (10_000, true), (10_001, false)] {
        let outcome = gateway.create(leased(&format!("l{milliseconds}"), milliseconds)).await;
        assert_eq!(outcome.is_ok(), legal, "{milliseconds}");
    }
}
