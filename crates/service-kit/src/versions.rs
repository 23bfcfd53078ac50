//! The supported versions of Isomer's client libraries. A client sends its version in `user-agent`.
//! Every answer to a gRPC call contains this server's version and the oldest supported client
//! version.

use std::{fmt, str::FromStr};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::{Deserialize, Serialize};

use isomer_fault::Fault;

/// The version of this server, in each answer to a gRPC call.
pub(crate) const SERVER: HeaderName = HeaderName::from_static("isomer-version");
/// The oldest supported client library, in each answer to a gRPC call.
pub(crate) const OLDEST: HeaderName = HeaderName::from_static("isomer-oldest-client");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Pages in a browser cannot set `user-agent`.
const FROM_PAGES: HeaderName = HeaderName::from_static("x-user-agent");
/// Common prefix of the names of all client libraries, in every language.
const NAMES: &str = "isomer-client-";

/// A version of the client libraries: `1.2.3`. Anything after the third number is ignored, so that
/// development versions count as the release that they lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClientVersion(u32, u32, u32);

impl ClientVersion {
    /// The oldest client version that this version's services are compatible with. Raise it if a
    /// client would misread an answer or be misread, never merely because a client lacks a feature.
    pub const COMPATIBLE: Self = Self(0, 1, 0);
}

impl FromStr for ClientVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, '.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.split_at_checked(digits)
                .and_then(|(digits, _)| digits.parse().ok())
        });
        match (parts.next().flatten(), parts.next().flatten(), parts.next().flatten()) {
            (Some(major), Some(minor), Some(patch)) => Ok(Self(major, minor, patch)),
            _ => Err(format!("`{text}` is not a version: write three numbers, e.g. 0.1.0")),
        }
    }
}

impl TryFrom<String> for ClientVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ClientVersion> for String {
    fn from(version: ClientVersion) -> Self {
        version.to_string()
    }
}

impl fmt::Display for ClientVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Refuses a request of a client library that is older than `oldest`. A request without a client
/// library's name and version is served, because other stubs send neither.
pub(crate) fn admit(headers: &HeaderMap, oldest: ClientVersion) -> Result<(), Fault> {
    let Some((name, version)) = named(headers) else {
        return Ok(());
    };
    if version >= oldest {
        return Ok(());
    }
    let message = format!("{name} {version} is too old for this server, which is Isomer {VERSION}");
    Err(Fault::precondition("CLIENT_TOO_OLD", message)
        .hint(format!("update the client library to {oldest} or later"))
        .with("client", name)
        .with("client_version", version.to_string())
        .with("oldest_client", oldest.to_string())
        .with("server_version", VERSION))
}

fn named(headers: &HeaderMap) -> Option<(&str, ClientVersion)> {
    [FROM_PAGES, header::USER_AGENT]
        .iter()
        .flat_map(|header| headers.get_all(header))
        .filter_map(|value| value.to_str().ok())
        .flat_map(str::split_whitespace)
        .filter(|product| product.starts_with(NAMES))
        .find_map(|product| {
            let (name, version) = product.split_once('/')?;
            Some((name, version.parse().ok()?))
        })
}

/// Writes this server's versions into an answer's headers.
pub(crate) fn say(headers: &mut HeaderMap, oldest: ClientVersion) {
    headers.insert(SERVER, HeaderValue::from_static(VERSION));
    if let Ok(oldest) = HeaderValue::try_from(oldest.to_string()) {
        headers.insert(OLDEST, oldest);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refused(header: HeaderName, agent: &str, oldest: &str) -> Option<Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(header, agent.parse().unwrap());
        admit(&headers, oldest.parse().unwrap()).err()
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let read = |text: &str| text.parse::<ClientVersion>().unwrap();
        assert!(read("0.10.0") > read("0.9.9"));
        assert!(read("1.0.0") > read("0.99.99"));
        assert_eq!(read("0.1.0.dev3"), read("0.1.0"));
        assert_eq!(read("0.1.0-rc.1"), read("0.1.0"));
        for text in [
            "",
            "1",
            "1.2",
            "1.2.",
            "a.b.c",
            "v1.2.3",
            "1..3",
            "-1.2.3",
            "99999999999.0.0",
        ] {
            let said = text.parse::<ClientVersion>().unwrap_err();
            assert!(said.contains("0.1.0"), "{said}");
        }
    }

    #[test]
    fn an_older_client_is_refused_in_whatever_language_and_its_equal_is_served() {
        for agent in [
            "isomer-client-python/0.1.0 grpc-python/1.76.0 grpc-c/50.0.0 (linux; chttp2)",
            "isomer-client-go/0.1.0 grpc-go/1.64.0",
            "mine/3.2.1 isomer-client-java/0.1.0 grpc-java-netty/1.41.3",
        ] {
            let fault = refused(header::USER_AGENT, agent, "0.2.0").unwrap();
            assert_eq!(
                (fault.code, fault.reason.as_str()),
                (tonic::Code::FailedPrecondition, "CLIENT_TOO_OLD")
            );
            assert!(fault.hint.unwrap().contains("0.2.0"));
            assert_eq!(fault.metadata["client_version"], "0.1.0");
            assert_eq!(refused(header::USER_AGENT, agent, "0.1.0"), None, "{agent}");
        }
        let page = "isomer-client-js/0.1.9";
        assert!(refused(FROM_PAGES, page, "0.1.10").is_some());
        assert!(refused(FROM_PAGES, page, "0.1.9").is_none());
    }

    #[test]
    fn who_names_no_client_library_is_served() {
        for agent in [
            "grpc-go/1.64.0",
            "isomer/0.0.1",
            "isomer-client-python",
            "isomer-client-python/unknown",
        ] {
            assert_eq!(refused(header::USER_AGENT, agent, "9.0.0"), None, "{agent}");
        }
        assert!(admit(&HeaderMap::new(), "9.0.0".parse().unwrap()).is_ok());
    }

    #[test]
    fn the_clients_of_this_version_are_served() {
        let own: ClientVersion = VERSION.parse().unwrap();
        assert!(own >= ClientVersion::COMPATIBLE);
    }
}
