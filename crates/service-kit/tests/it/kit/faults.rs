use std::time::Duration;

use isomer_service_kit::{
    Fault, LimitsConfig,
    client::{self, ClientConfig, ClientTls},
    config::Validate,
    server::{self, ServerConfig},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::{ScriptedEncoder, get, in_memory};

fn full() -> Fault {
    Fault::new(
        Code::FailedPrecondition,
        "MODEL_BROKEN",
        "the model's weights are truncated",
    )
    .field("inputs[3].text")
    .hint("run `isomer models verify`")
    .retry_after(Duration::from_millis(1500))
    .with("encoder_id", "mini")
}

#[test]
fn a_fault_comes_back_from_a_status_as_it_went_in() {
    for fault in [
        full(),
        Fault::invalid("name", "is empty"),
        Fault::not_found("UNKNOWN_ENCODER", "no such encoder").with("asked", "né"),
        Fault::overloaded("full", Duration::from_secs(2)),
        Fault::internal("oops"),
    ] {
        let status = Status::from(fault.clone());
        assert_eq!(Fault::from_status(&status), fault);
    }
}

#[test]
fn a_status_carries_the_details_that_aip_193_names() {
    let status = Status::from(full());
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("MODEL_BROKEN", "isomer"));
    assert_eq!(info.metadata["encoder_id"], "mini");
    let violation = &details.bad_request().unwrap().field_violations[0];
    assert_eq!(violation.field, "inputs[3].text");
    assert!(violation.description.contains("isomer models verify"));
    assert_eq!(
        details.retry_info().unwrap().retry_delay,
        Some(Duration::from_millis(1500))
    );
}

#[test]
fn a_status_of_someone_else_is_read_as_far_as_it_goes() {
    let fault = Fault::from_status(&Status::permission_denied("go away"));
    assert_eq!(
        (fault.code, fault.message.as_str()),
        (Code::PermissionDenied, "go away")
    );
    assert!(fault.reason.is_empty() && fault.field.is_none() && fault.retry_after.is_none());
}

#[tokio::test]
async fn a_fault_survives_the_wire() {
    let channel = in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
    let fault = Fault::from(get(&channel, "overloaded").await.unwrap_err());
    assert_eq!(fault, Fault::overloaded("full", Duration::from_millis(1500)));
}

#[tokio::test]
async fn a_message_too_long_for_trailers_arrives_cut_and_says_so() {
    let channel = in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
    let status = get(&channel, "verbose").await.unwrap_err();
    let trailers = 3 * status.message().len() + status.details().len() * 4 / 3;
    assert!(trailers < 8 * 1024, "{trailers} bytes");
    let fault = Fault::from(status);
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("text"))
    );
    assert!(
        fault.message.starts_with("üüü") && fault.message.ends_with("more bytes)"),
        "{fault}"
    );
    assert_eq!(fault.hint.as_deref(), Some("less"));
}

#[test]
fn fields_and_facts_that_a_caller_made_long_are_cut_too() {
    let long = "x".repeat(1 << 20);
    let fault = Fault::invalid(long.clone(), "is not known").with("encoder_id", long);
    let status = tonic::Status::from(fault);
    let trailers = 3 * status.message().len() + status.details().len() * 4 / 3;
    assert!(trailers < 8 * 1024, "{trailers} bytes");
    let fault = Fault::from(status);
    assert_eq!(fault.message, "is not known");
    assert!(fault.metadata["encoder_id"].ends_with("more bytes)"), "{fault:?}");
    let short = Fault::invalid("text", "is not known").with("encoder_id", "one");
    assert_eq!(Fault::from(tonic::Status::from(short.clone())), short);
}

#[tokio::test]
async fn a_port_in_use_is_told_with_its_hint() {
    let first = server::bind(&ServerConfig::at(([127, 0, 0, 1], 0).into())).unwrap();
    let address = first.local_addr().unwrap();
    let fault = server::bind(&ServerConfig::at(address)).unwrap_err();
    assert_eq!((fault.code, fault.reason.as_str()), (Code::Unavailable, "CANNOT_BIND"));
    assert!(
        fault.message.contains(&address.to_string()) && fault.message.contains("in use"),
        "{fault}"
    );
    assert!(fault.hint.unwrap().contains("--listen"));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_told_with_its_address() {
    let nobody = server::bind(&ServerConfig::at(([127, 0, 0, 1], 0).into()))
        .unwrap()
        .local_addr()
        .unwrap();
    let fault = client::connect(&ClientConfig::plain(nobody.to_string()))
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::Unavailable);
    assert!(fault.message.contains(&nobody.to_string()), "{fault}");
    assert!(fault.hint.is_some());
}

#[test]
fn addresses_and_limits_that_cannot_work_are_refused_before_anything_is_bound() {
    for address in ["", "http://", "not an address", "ftp://x:1"] {
        let error = ClientConfig::plain(address).validate().unwrap_err();
        assert_eq!(error.field(), "address", "{address}");
    }
    for address in [
        "localhost:50051",
        "http://10.0.0.1:1",
        "https://encoder.example:443",
        "[::1]:50051",
    ] {
        ClientConfig::plain(address).validate().unwrap();
    }
    let tls = Some(ClientTls::default());
    let downgrade = ClientConfig {
        address: "http://x:1".to_owned(),
        tls,
        ..ClientConfig::default()
    };
    assert_eq!(downgrade.validate().unwrap_err().field(), "tls");
    let mut config = ServerConfig::default();
    config.validate().unwrap();
    config.limits.max_concurrent_requests = 0;
    assert_eq!(
        config.validate().unwrap_err().field(),
        "server.limits.max_concurrent_requests"
    );
    config.limits.max_concurrent_requests = usize::MAX;
    assert_eq!(
        config.validate().unwrap_err().field(),
        "server.limits.max_concurrent_requests"
    );
}
