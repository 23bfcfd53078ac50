//! Creating, reading, changing, deleting and checking.

use std::sync::atomic::Ordering;

use isomer_proto::gateway::v1::{
    CheckProviderRequest, CreateProviderRequest, DeleteProviderRequest, GetProviderRequest, Provider, ProviderLimits,
    ProviderSource, ProviderState, RenewLeaseRequest, SecretRef, UpdateProviderRequest, check_provider_request::Target,
    secret_ref::Source,
};
use isomer_registry::{ProvidersConfig, Registry};
use isomer_service_kit::{LimitsConfig, Services, memory};
use isomer_stubs::{promise::promised, wait::until};
use tonic::Code;

use crate::support::{Client, Gateway, fault, leased, provider};

#[tokio::test]
async fn a_provider_is_created_read_changed_and_deleted() {
    let gateway = Gateway::in_memory().await;
    let mut client = gateway.client.clone();
    let secret = SecretRef {
        source: Some(Source::Environment("OPENAI_API_KEY".to_owned())),
    };
    let wanted = Provider {
        secret: Some(secret.clone()),
        // Fields that the gateway sets are not taken from a caller.
        etag: "mine".to_owned(),
        source: ProviderSource::Declared.into(),
        state_detail: "splendid".to_owned(),
        ..provider("a")
    };
    let created = gateway.create(wanted).await.unwrap();
    assert_eq!(
        (created.source(), created.state()),
        (ProviderSource::Stored, ProviderState::Serving)
    );
    assert_eq!(
        (created.state_detail.as_str(), &created.secret),
        ("a answers", &Some(secret))
    );
    assert!(
        created.create_time.is_some() && created.create_time == created.update_time && created.expire_time.is_none()
    );
    assert_ne!(created.etag, "mine");

    let id = || GetProviderRequest { id: "a".to_owned() };
    let read = client.get_provider(id()).await.unwrap().into_inner().provider.unwrap();
    assert_eq!(read, created);

    let change = Provider {
        limits: Some(ProviderLimits {
            max_batch_items: 7,
            ..ProviderLimits::default()
        }),
        ..provider("a")
    };
    let updated = gateway
        .update(change, &["limits.max_batch_items", "secret"])
        .await
        .unwrap();
    assert_eq!((updated.limits.unwrap().max_batch_items, &updated.secret), (7, &None));
    assert_eq!(updated.create_time, created.create_time);
    assert!(updated.update_time.unwrap().nanos != created.update_time.unwrap().nanos && updated.etag != created.etag);

    let request = DeleteProviderRequest {
        id: "a".to_owned(),
        etag: String::new(),
    };
    client.delete_provider(request.clone()).await.unwrap();
    assert_eq!(gateway.watched(), Vec::<String>::new());
    for gone in [
        client.get_provider(id()).await.unwrap_err(),
        client.delete_provider(request).await.unwrap_err(),
    ] {
        let gone = fault(gone);
        assert_eq!((gone.code, gone.metadata["provider"].as_str()), (Code::NotFound, "a"));
    }
}

#[tokio::test]
async fn an_id_is_taken_once() {
    let gateway = Gateway::in_memory().await;
    gateway.create(provider("a")).await.unwrap();
    let fault = gateway.create(provider("a")).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::AlreadyExists, Some("provider.id"))
    );
    assert!(fault.message.contains("`a`"), "{fault}");
}

#[tokio::test]
async fn whoever_watches_is_told_of_changes_and_of_nothing_else() {
    let gateway = Gateway::in_memory().await;
    let mut watch = gateway.registry.watch();
    assert!(watch.borrow_and_update().is_empty());
    gateway.create(provider("b")).await.unwrap();
    gateway.create(provider("a")).await.unwrap();
    assert!(watch.has_changed().unwrap());
    let seen: Vec<String> = watch.borrow_and_update().iter().map(|p| p.id.clone()).collect();
    assert_eq!(seen, ["a", "b"]);
    // An update that changes nothing is not announced.
    let before = gateway.update(provider("a"), &[]).await.unwrap();
    let after = gateway.update(provider("a"), &["*"]).await.unwrap();
    assert_eq!(before.etag, after.etag);
    assert!(!watch.has_changed().unwrap());
}

#[tokio::test]
async fn what_is_wrong_is_refused_with_its_field_before_anybody_is_asked() {
    let gateway = Gateway::in_memory().await;
    let mut client = gateway.client.clone();
    let bad = Provider {
        address: "ftp://a".to_owned(),
        ..provider("a")
    };
    let refused = gateway.create(bad).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.field.as_deref()),
        (Code::InvalidArgument, Some("provider.address"))
    );
    let refused = client
        .create_provider(CreateProviderRequest { provider: None })
        .await
        .unwrap_err();
    assert_eq!(fault(refused).field.as_deref(), Some("provider"));
    let refused = client.get_provider(GetProviderRequest::default()).await.unwrap_err();
    assert_eq!(fault(refused).field.as_deref(), Some("id"));

    gateway.create(provider("a")).await.unwrap();
    let asked = gateway.gatekeeper.asked.load(Ordering::SeqCst);
    // An update is checked as a whole: this one would leave a provider of this kind without
    // encoders.
    let refused = gateway
        .update(
            Provider {
                id: "a".to_owned(),
                ..Provider::default()
            },
            &["encoders"],
        )
        .await;
    assert_eq!(refused.unwrap_err().field.as_deref(), Some("provider.encoders"));
    let refused = gateway.update(provider("a"), &["adress"]).await.unwrap_err();
    assert_eq!(refused.field.as_deref(), Some("update_mask"));
    assert!(refused.hint.unwrap().contains("`address`"));
    assert_eq!(gateway.gatekeeper.asked.load(Ordering::SeqCst), asked);
}

#[tokio::test]
async fn whom_the_gateway_does_not_admit_is_not_stored() {
    let gateway = Gateway::in_memory().await;
    let impostor = |id: &str| Provider {
        address: "http://impostor:1".to_owned(),
        ..provider(id)
    };
    let refused = gateway.create(impostor("a")).await.unwrap_err();
    promised(
        "ProviderService.CreateProvider FAILED_PRECONDITION OTHER_SPACE",
        &refused,
    );
    gateway.create(provider("a")).await.unwrap();
    assert!(gateway.update(impostor("a"), &["address"]).await.is_err());
    let kept = gateway.registry.get("a").await.unwrap();
    assert_eq!(kept.address, provider("a").address);
}

#[tokio::test]
async fn candidates_are_looked_at_one_by_one_while_others_go_and_renew() {
    let gateway = Gateway::in_memory().await;
    let mut client = gateway.client.clone();
    gateway.create(provider("goes")).await.unwrap();
    gateway.create(leased("renews", 60_000)).await.unwrap();
    let slow = |id: &str| Provider {
        address: "http://slow:1".to_owned(),
        ..provider(id)
    };
    let looked_at = futures::future::join_all(["a", "b", "c", "d"].map(|id| gateway.create(slow(id))));
    let others = async {
        until("a candidate is looked at", || {
            gateway.gatekeeper.looking.load(Ordering::SeqCst) > 0
        })
        .await;
        let renew = RenewLeaseRequest {
            id: "renews".to_owned(),
        };
        client.renew_lease(renew).await.unwrap();
        let delete = DeleteProviderRequest {
            id: "goes".to_owned(),
            ..DeleteProviderRequest::default()
        };
        client.delete_provider(delete).await.unwrap();
        assert_eq!(gateway.watched(), ["renews"], "no candidate has been admitted yet");
        gateway.gatekeeper.released.add_permits(4);
    };
    let (created, ()) = tokio::join!(looked_at, others);
    assert!(created.iter().all(Result::is_ok));
    assert_eq!(gateway.gatekeeper.at_once.load(Ordering::SeqCst), 1);
    assert_eq!(gateway.watched(), ["a", "b", "c", "d", "renews"]);
}

#[tokio::test]
async fn an_etag_that_is_not_the_current_one_aborts() {
    let gateway = Gateway::in_memory().await;
    let mut client = gateway.client.clone();
    let first = gateway.create(provider("a")).await.unwrap();
    let change = |price: f64, etag: &str| Provider {
        price_per_million_tokens: price,
        etag: etag.to_owned(),
        ..provider("a")
    };
    let second = gateway
        .update(change(1.0, &first.etag), &["price_per_million_tokens"])
        .await
        .unwrap();
    let refused = gateway
        .update(change(2.0, &first.etag), &["price_per_million_tokens"])
        .await
        .unwrap_err();
    promised("ProviderService.UpdateProvider ABORTED ETAG_MISMATCH", &refused);
    let delete = |etag: &str| DeleteProviderRequest {
        id: "a".to_owned(),
        etag: etag.to_owned(),
    };
    promised(
        "ProviderService.DeleteProvider ABORTED ETAG_MISMATCH",
        &fault(client.delete_provider(delete(&first.etag)).await.unwrap_err()),
    );
    client.delete_provider(delete(&second.etag)).await.unwrap();
}

#[tokio::test]
async fn of_many_updates_with_one_etag_one_wins() {
    let gateway = Gateway::in_memory().await;
    let first = gateway.create(provider("a")).await.unwrap();
    let updates = (1..=16).map(|price| {
        let change = Provider {
            price_per_million_tokens: f64::from(price),
            etag: first.etag.clone(),
            ..provider("a")
        };
        gateway.update(change, &["price_per_million_tokens"])
    });
    let mut won = Vec::new();
    for outcome in futures::future::join_all(updates).await {
        match outcome {
            Ok(updated) => won.push(updated.price_per_million_tokens),
            Err(fault) => assert_eq!(fault.code, Code::Aborted, "{fault}"),
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(
        gateway.registry.get("a").await.unwrap().price_per_million_tokens,
        won[0]
    );
}

#[tokio::test]
async fn an_update_may_register_what_is_missing() {
    let gateway = Gateway::in_memory().await;
    let mut client = gateway.client.clone();
    let request = |provider: Provider, allow_missing| UpdateProviderRequest {
        provider: Some(provider),
        update_mask: None,
        allow_missing,
    };
    let refused = client.update_provider(request(provider("a"), false)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let incomplete = Provider {
        kind: 0,
        ..provider("a")
    };
    let refused = client.update_provider(request(incomplete, true)).await.unwrap_err();
    assert_eq!(fault(refused).field.as_deref(), Some("provider.kind"));
    // A caller that has an etag knew the provider, so the error says that it is gone.
    let known = Provider {
        etag: "known".to_owned(),
        ..provider("a")
    };
    assert_eq!(
        client.update_provider(request(known, true)).await.unwrap_err().code(),
        Code::Aborted
    );
    let made = client
        .update_provider(request(leased("a", 60_000), true))
        .await
        .unwrap()
        .into_inner()
        .provider
        .unwrap();
    assert_eq!(made.source(), ProviderSource::Leased);
    client
        .update_provider(request(leased("a", 60_000), true))
        .await
        .unwrap();
    assert_eq!(gateway.watched(), ["a"]);
}

#[tokio::test]
async fn registered_providers_and_candidates_can_be_checked() {
    let gateway = Gateway::in_memory().await;
    let mut client = gateway.client.clone();
    gateway.create(provider("a")).await.unwrap();
    let request = |target| CheckProviderRequest { target };
    let answer = client
        .check_provider(request(Some(Target::Id("a".to_owned()))))
        .await
        .unwrap()
        .into_inner();
    assert!(
        answer.usable && answer.verdict.starts_with("a at http://10.0.0.1"),
        "{}",
        answer.verdict
    );
    let answer = client
        .check_provider(request(Some(Target::Candidate(provider("")))))
        .await
        .unwrap()
        .into_inner();
    assert!(answer.verdict.starts_with("candidate at"), "{}", answer.verdict);

    let unknown = client
        .check_provider(request(Some(Target::Id("b".to_owned()))))
        .await
        .unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let bad = Provider {
        secret: Some(SecretRef {
            source: Some(Source::File("/etc/shadow".to_owned())),
        }),
        ..provider("b")
    };
    let refused = client
        .check_provider(request(Some(Target::Candidate(bad))))
        .await
        .unwrap_err();
    assert_eq!(fault(refused).field.as_deref(), Some("candidate.secret.file"));
    let refused = client.check_provider(request(None)).await.unwrap_err();
    assert_eq!(fault(refused).field.as_deref(), Some("target"));
}

#[tokio::test]
async fn a_gateway_that_cannot_look_at_providers_yet_takes_none_in() {
    let registry = Registry::open(ProvidersConfig::default(), None).await.unwrap();
    let services = Services::new().add(registry.service());
    let mut client = Client::new(memory::channel(services, &LimitsConfig::default()).await.unwrap());
    let request = CreateProviderRequest {
        provider: Some(leased("a", 5000)),
    };
    let refused = fault(client.create_provider(request).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "STARTING"));
    assert!(refused.retry_after.is_some());
}
