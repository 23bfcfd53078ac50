//! Providers declared in a file.

use std::{fs, path::Path};

use isomer_database::Database;
use isomer_proto::gateway::v1::{DeleteProviderRequest, ListProvidersRequest, ProviderSource, RenewLeaseRequest};
use isomer_registry::{ProvidersConfig, Registry};
use isomer_stubs::wait::until;
use tonic::Code;

use crate::support::{Gateway, fault, provider};

fn declaration(id: &str) -> String {
    format!("[[provider]]\nid = \"{id}\"\nkind = \"isomer\"\naddress = \"grpc://{id}:50051\"\n")
}

async fn gateway(file: &Path) -> Gateway {
    let config = ProvidersConfig {
        file: Some(file.to_owned()),
        ..ProvidersConfig::default()
    };
    let database = Database::open("sqlite::memory:").await.unwrap();
    Gateway::open(config, Some(database)).await
}

#[tokio::test]
async fn the_file_is_followed_and_a_broken_one_changes_nothing_until_it_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("providers.toml");
    fs::write(&file, declaration("one")).unwrap();
    let gateway = gateway(&file).await;
    assert_eq!(gateway.watched(), ["one"]);

    // As editors save: a new file replaces the old one.
    let draft = folder.path().join(".draft");
    fs::write(&draft, declaration("one") + &declaration("two")).unwrap();
    fs::rename(&draft, &file).unwrap();
    until("the file is followed", || gateway.watched() == ["one", "two"]).await;

    for broken in [
        "[[provider]]\nid = \"three\nkind",
        "[[provider]]\nid = \"three\"\nknd = \"isomer\"\n",
    ] {
        fs::write(&file, broken).unwrap();
        until("the file is followed", || {
            gateway
                .registry
                .file_error()
                .is_some_and(|fault| fault.message.contains("line"))
        })
        .await;
        assert_eq!(gateway.watched(), ["one", "two"]);
        let answer = gateway
            .client
            .clone()
            .list_providers(ListProvidersRequest::default())
            .await
            .unwrap()
            .into_inner();
        assert!(answer.file_error.contains("providers.toml"), "{}", answer.file_error);
    }
    fs::remove_file(&file).unwrap();
    until("the file is followed", || {
        gateway
            .registry
            .file_error()
            .is_some_and(|fault| fault.message.contains("cannot be read"))
    })
    .await;
    assert_eq!(gateway.watched(), ["one", "two"]);

    fs::write(&file, declaration("two")).unwrap();
    until("the file is followed", || gateway.watched() == ["two"]).await;
    assert_eq!(gateway.registry.file_error(), None);
}

#[tokio::test]
async fn going_back_to_what_is_in_force_fixes_a_broken_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("providers.toml");
    fs::write(&file, declaration("one")).unwrap();
    let gateway = gateway(&file).await;
    fs::write(&file, "nonsense").unwrap();
    until("the file is followed", || gateway.registry.file_error().is_some()).await;
    fs::write(&file, declaration("one")).unwrap();
    until("the file is followed", || gateway.registry.file_error().is_none()).await;
    assert_eq!(gateway.watched(), ["one"]);
}

#[tokio::test]
async fn a_declared_provider_is_changed_in_its_file_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("providers.toml");
    fs::write(&file, declaration("one")).unwrap();
    let gateway = gateway(&file).await;
    let mut client = gateway.client.clone();
    let declared = gateway.registry.get("one").await.unwrap();
    assert_eq!(
        (declared.source(), declared.create_time),
        (ProviderSource::Declared, None)
    );
    let id = || "one".to_owned();
    let delete = DeleteProviderRequest {
        id: id(),
        ..Default::default()
    };
    for refused in [
        gateway.update(provider("one"), &["address"]).await.unwrap_err(),
        fault(client.delete_provider(delete).await.unwrap_err()),
        fault(client.renew_lease(RenewLeaseRequest { id: id() }).await.unwrap_err()),
    ] {
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (Code::FailedPrecondition, "DECLARED")
        );
        assert!(refused.message.contains("providers.toml"), "{refused}");
    }
    let taken = gateway.create(provider("one")).await.unwrap_err();
    assert_eq!(taken.code, Code::AlreadyExists);
    assert!(taken.hint.unwrap().contains("providers.toml"));
}

#[tokio::test]
async fn the_file_hides_a_stored_provider_of_the_same_id_as_long_as_it_declares_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("providers.toml");
    fs::write(&file, "").unwrap();
    let gateway = gateway(&file).await;
    gateway.create(provider("one")).await.unwrap();
    fs::write(&file, declaration("one")).unwrap();
    let source = || gateway.registry.watch().borrow()[0].source();
    until("the file is followed", || source() == ProviderSource::Declared).await;
    assert_eq!(gateway.watched(), ["one"]);
    fs::write(&file, "# nothing\n").unwrap();
    until("the file is followed", || source() == ProviderSource::Stored).await;
}

#[tokio::test]
async fn a_gateway_does_not_start_with_a_broken_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("providers.toml");
    let open = || {
        let config = ProvidersConfig {
            file: Some(file.clone()),
            ..ProvidersConfig::default()
        };
        Registry::open(config, None)
    };
    let fault = open().await.unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("providers.file"));
    fs::write(&file, "[[provider]]\nid = \"A\"\n").unwrap();
    let fault = open().await.unwrap_err().to_string();
    assert!(fault.contains("line 2") && fault.contains("provider[0].id"), "{fault}");
}

#[tokio::test]
async fn the_examples_can_be_used() {
    let folder = Path::new(".");
    let ours = gateway(&folder.join("examples/providers.toml")).await;
    assert_eq!(ours.watched().len(), 8);
    let to_begin_with = gateway(&folder.join("../../examples/providers.toml")).await;
    assert!(to_begin_with.watched().len() >= 2);
}
