use std::future::ready;

use isomer_service_kit::{
    Services,
    client::{self, ClientConfig},
    config::{Secret, Validate},
    server::ServerConfig,
};
use isomer_stubs::encoder::{StubEncoder, named};

use crate::support::*;

#[tokio::test]
async fn a_channels_key_is_sent_with_every_call_and_never_printed() {
    // Answers with the caller's authorization.
    let echo = StubEncoder::default().on_get(|request| {
        let sent = request.metadata().get_all("authorization").iter();
        let sent: Vec<&str> = sent.filter_map(|value| value.to_str().ok()).collect();
        ready(Ok(named(&sent.join("|"))))
    });
    let running = TestServer::start(Services::new().add(echo.service()), ServerConfig::default()).await;
    let plain = ClientConfig::plain(running.address.to_string());
    assert_eq!(get(&client::connect(&plain).await.unwrap(), "x").await.unwrap(), "");
    let with_key = plain.with_api_key(Secret::new("iso_hunter2"));
    for channel in [
        client::connect(&with_key).await.unwrap(),
        client::connect_lazy(&with_key).unwrap(),
    ] {
        assert_eq!(get(&channel, "x").await.unwrap(), "Bearer iso_hunter2");
        assert!(!format!("{channel:?} {with_key:?}").contains("hunter2"));
    }
}

#[test]
fn a_key_does_not_travel_in_plain_text_to_another_machine_unless_told_to() {
    let to = |address: &str| ClientConfig::plain(address).with_api_key(Secret::new("iso_hunter2"));
    for address in [
        "10.0.0.1:50051",
        "http://encoder.example",
        "encoder.example:1",
        "[2001:db8::1]:1",
        "localhost.example:1",
    ] {
        let error = to(address).validate().unwrap_err();
        assert_eq!(error.field(), "api_key", "{address}");
        assert!(!error.to_string().contains("hunter2"));
        let told = ClientConfig {
            api_key_over_plain_text: true,
            ..to(address)
        };
        told.validate().unwrap();
        ClientConfig::plain(address).validate().unwrap();
    }
    for address in ["127.0.0.1:1", "localhost:1", "[::1]:1", "https://encoder.example"] {
        to(address).validate().unwrap();
    }
    let broken = ClientConfig::plain("localhost:1").with_api_key(Secret::new("two\nlines"));
    let error = broken.validate().unwrap_err();
    assert!(
        error.field() == "api_key" && !error.to_string().contains("two"),
        "{error}"
    );
}
