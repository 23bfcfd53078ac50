//! Client libraries send their versions; servers publish the versions they serve, and refuse older
//! ones.

use isomer_proto::encoder::v1::GetEncoderRequest;
use isomer_service_kit::{ClientVersion, Fault, LimitsConfig, config::Validate, server::ServerConfig};
use tonic::{Code, Request, Response, Status};

use crate::support::{ScriptedEncoder, TestServer, encoder, services};

async fn asked(server: &TestServer, agent: Option<&str>) -> Result<Response<()>, Status> {
    let mut request = Request::new(GetEncoderRequest { id: "here".to_owned() });
    if let Some(agent) = agent {
        request.metadata_mut().insert("user-agent", agent.parse().unwrap());
    }
    let answer = encoder(server.connect().await).get_encoder(request).await?;
    Ok(answer.map(drop))
}

fn at_least(oldest: &str) -> ServerConfig {
    let limits = LimitsConfig {
        oldest_client: oldest.parse().unwrap(),
        ..LimitsConfig::default()
    };
    ServerConfig {
        limits,
        ..ServerConfig::default()
    }
}

#[tokio::test]
async fn older_clients_are_refused_and_every_answer_says_what_is_served() {
    let mut server = TestServer::start(services(&ScriptedEncoder::default()), at_least("0.4.2")).await;
    for agent in [
        "isomer-client-python/0.4.1 grpc-python/1.76.0",
        "isomer-client-go/0.0.9",
    ] {
        let status = asked(&server, Some(agent)).await.unwrap_err();
        assert_eq!(status.metadata().get("isomer-oldest-client").unwrap(), "0.4.2");
        let fault = Fault::from(status);
        assert_eq!(
            (fault.code, fault.reason.as_str()),
            (Code::FailedPrecondition, "CLIENT_TOO_OLD"),
            "{agent}"
        );
        assert_eq!(fault.metadata["oldest_client"], "0.4.2");
    }
    for agent in [
        Some("isomer-client-python/0.4.2 grpc-python/1.76.0"),
        Some("isomer-client-go/1.0.0"),
        Some("grpc-go/1.64.0"),
        None,
    ] {
        let answer = asked(&server, agent).await.unwrap();
        assert_eq!(answer.metadata().get("isomer-oldest-client").unwrap(), "0.4.2");
        assert_eq!(
            answer.metadata().get("isomer-version").unwrap(),
            env!("CARGO_PKG_VERSION")
        );
    }
    server.stop();
    server.ended().await.unwrap();
}

#[test]
fn no_configuration_serves_clients_that_this_version_is_not_compatible_with() {
    let error = at_least("0.0.9").limits.validate().unwrap_err();
    assert!(error.to_string().contains("oldest_client"), "{error}");
    let oldest = ClientVersion::COMPATIBLE.to_string();
    at_least(&oldest).limits.validate().unwrap();
    at_least("99.0.0").limits.validate().unwrap();
}
