//! Probes a server over gRPC health, as an orchestrator's probes do over plain HTTP. Plain HTTP is
//! impossible if the server requires client certificates, because the orchestrator has none.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
    time::Duration,
};

use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::{
    Fault,
    client::{self, ClientConfig, ClientTls},
    server::ServerConfig,
};

/// The name that the server's certificate must contain for [`this_server`].
const OWN_NAME: &str = "localhost";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Whether the server answers at all; a draining server does.
    Live,
    /// Whether the server accepts requests.
    Ready,
}

impl FromStr for Question {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "live" => Ok(Self::Live),
            "ready" => Ok(Self::Ready),
            _ => Err("expected live or ready".to_owned()),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Ready => "ready",
        })
    }
}

/// Probes the server at an address, over a new connection.
///
/// # Errors
/// `UNAVAILABLE` if the server does not answer within the given time, or does not accept requests.
pub async fn ask(config: &ClientConfig, question: Question, within: Duration) -> Result<(), Fault> {
    let asking = async {
        let channel = client::connect(config).await?;
        match HealthClient::new(channel).check(HealthCheckRequest::default()).await {
            Ok(answer) if question == Question::Live || answer.get_ref().status() == ServingStatus::Serving => Ok(()),
            Ok(answer) => Err(Fault::unavailable(
                "NOT_SERVING",
                format!(
                    "{} says that it is {}",
                    config.address,
                    answer.get_ref().status().as_str_name()
                ),
            )
            .hint("wait until it has started, or look into its log")),
            // A server without health checks is live if it answers.
            Err(status) if status.code() == Code::Unimplemented => Ok(()),
            Err(status) => Err(Fault::from_status(&status)),
        }
    };
    timeout(within, asking).await.unwrap_or_else(|_| {
        Err(Fault::unavailable(
            "NO_ANSWER",
            format!("{} did not answer within {} s", config.address, within.as_secs_f64()),
        )
        .hint("allow more time, or look into its log"))
    })
}

/// The client configuration for reaching this server from its own machine. With TLS it presents the
/// server's certificate. That certificate must be valid for `localhost`, must come from an
/// authority of `client_ca_file` (without that file: of the platform), and must also be a client
/// certificate if the server requires those.
pub fn this_server(server: &ServerConfig) -> ClientConfig {
    let mut address = server.listen;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    let tls = server.tls.as_ref().map(|tls| ClientTls {
        ca_file: tls.client_ca_file.clone(),
        certificate_file: Some(tls.certificate_file.clone()),
        key_file: Some(tls.key_file.clone()),
        server_name: Some(OWN_NAME.to_owned()),
    });
    ClientConfig {
        address: address.to_string(),
        tls,
        ..ClientConfig::default()
    }
}
