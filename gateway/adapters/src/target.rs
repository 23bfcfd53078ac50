//! A provider's address, TLS settings and headers, parsed and validated before any call.

use std::{path::PathBuf, time::Duration};

use http::{HeaderMap, HeaderValue};
use isomer_outbound::{
    headers,
    secret::{SecretSource, bearer},
};
use isomer_proto::gateway::v1::{Provider, SecretRef, TlsSettings, secret_ref::Source};
use isomer_service_kit::{
    Fault,
    client::{ClientConfig, ClientTls},
    config::Secret,
};
use url::Url;

use crate::{AddressGuard, Surroundings};

/// Timeout of a call if the provider's limits do not set one.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A provider's address and settings, parsed and validated.
#[derive(Debug)]
pub(crate) struct Target {
    /// The provider's id, for errors.
    pub(crate) id: String,
    /// `http` or `https`, with the host normalised: `0x7f.1` becomes `127.0.0.1`.
    pub(crate) url: Url,
    pub(crate) tls: Option<ClientTls>,
    /// The provider's own headers, without the secret.
    pub(crate) headers: HeaderMap,
    pub(crate) secret: SecretSource,
    pub(crate) timeout: Duration,
    pub(crate) guard: AddressGuard,
    pub(crate) max_message_bytes: usize,
}

impl Target {
    /// `grpc` states whether the protocol is gRPC. If so, `grpc://` is also a valid scheme.
    pub(crate) fn new(provider: &Provider, surroundings: &Surroundings, grpc: bool) -> Result<Self, Fault> {
        let url = address(&provider.address, grpc)?;
        let secret = secret_source(provider.secret.as_ref())?;
        let plain_secret = url.scheme() == "http" && !secret.is_none();
        let guard = surroundings.guard.clone().with_secret_in_plain_text(plain_secret);
        if let Some(host) = url.host() {
            guard.check_literal(&host)?;
        }
        Ok(Self {
            id: provider.id.clone(),
            tls: tls(provider.tls.as_ref(), &url)?,
            url,
            headers: headers::read(&provider.headers)?,
            secret,
            timeout: timeout(provider)?,
            guard,
            max_message_bytes: surroundings.max_message_bytes,
        })
    }

    /// The host, without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// The port; the scheme's default if the address has none.
    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// The same settings for a gRPC client.
    pub(crate) fn client_config(&self) -> ClientConfig {
        ClientConfig {
            address: self.url.as_str().trim_end_matches('/').to_owned(),
            tls: self.tls.clone(),
            // The secret is read again for every call.
            ..ClientConfig::default()
        }
    }
}

/// `Authorization: Bearer` with the secret, marked as sensitive so that it is never printed; `None`
/// without a secret.
pub(crate) fn authorization(secret: &Secret) -> Result<Option<HeaderValue>, Fault> {
    bearer(secret).map_err(|_| Fault::internal("a secret that was checked cannot be sent in a header"))
}

/// The source of a provider's secret. The secret itself is not read yet.
fn secret_source(reference: Option<&SecretRef>) -> Result<SecretSource, Fault> {
    let empty = || {
        Fault::invalid("provider.secret", "has no source")
            .hint("set `environment` to a variable's name or `file` to a path, or leave `secret` out")
    };
    match reference.map(|reference| reference.source.as_ref()) {
        None => Ok(SecretSource::None),
        Some(None) => Err(empty()),
        Some(Some(Source::Environment(name) | Source::File(name))) if name.is_empty() => Err(empty()),
        Some(Some(Source::Environment(name))) => Ok(SecretSource::Environment(name.clone())),
        Some(Some(Source::File(path))) => Ok(SecretSource::file(path)),
    }
}

/// A provider's current secret; `FAILED_PRECONDITION` if it is missing.
pub(crate) fn read_secret(source: &SecretSource) -> Result<Secret, Fault> {
    source.read().map_err(|missing| {
        Fault::precondition("PROVIDER_SECRET_MISSING", missing.message)
            .field("provider.secret")
            .hint(missing.hint)
    })
}

fn address(text: &str, grpc: bool) -> Result<Url, Fault> {
    let bad = |message: String, hint: &str| Fault::invalid("provider.address", message).hint(hint);
    let form = if grpc {
        "give grpc://host:port, grpcs://host:port, http://host:port or https://host:port"
    } else {
        "give http://host:port or https://host:port, with a path where the service has one"
    };
    let (scheme, rest) = text
        .split_once("://")
        .ok_or_else(|| bad(format!("{text:?} has no scheme"), form))?;
    let scheme = match (scheme.to_ascii_lowercase().as_str(), grpc) {
        ("http", _) | ("grpc", true) => "http",
        ("https", _) | ("grpcs", true) => "https",
        ("grpc" | "grpcs", false) => return Err(bad("this kind of provider does not speak gRPC".into(), form)),
        _ => return Err(bad(format!("{text:?} has an unsupported scheme"), form)),
    };
    // The parser normalises the host only for web schemes.
    let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|error| bad(format!("{text:?}: {error}"), form))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad(
            "holds a user or a password".into(),
            "keep secrets out of addresses: use provider.secret",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("holds a query or a fragment".into(), form));
    }
    if grpc && url.path() != "/" {
        return Err(bad("holds a path, which gRPC does not use".into(), form));
    }
    Ok(url)
}

fn tls(settings: Option<&TlsSettings>, url: &Url) -> Result<Option<ClientTls>, Fault> {
    let Some(settings) = settings.filter(|settings| **settings != TlsSettings::default()) else {
        return Ok(None);
    };
    if url.scheme() != "https" {
        return Err(Fault::invalid("provider.tls", "is set, but the address is plain text")
            .hint("write https:// or grpcs:// in the address, or leave `tls` out"));
    }
    let path = |text: &String| (!text.is_empty()).then(|| PathBuf::from(text));
    if settings.certificate_file.is_empty() != settings.key_file.is_empty() {
        return Err(
            Fault::invalid("provider.tls", "certificate_file and key_file go together").hint("give both or neither"),
        );
    }
    Ok(Some(ClientTls {
        ca_file: path(&settings.ca_file),
        certificate_file: path(&settings.certificate_file),
        key_file: path(&settings.key_file),
        server_name: (!settings.server_name.is_empty()).then(|| settings.server_name.clone()),
    }))
}

fn timeout(provider: &Provider) -> Result<Duration, Fault> {
    let Some(timeout) = provider.limits.as_ref().and_then(|limits| limits.timeout) else {
        return Ok(TIMEOUT);
    };
    let read = Duration::try_from(timeout).ok();
    match read {
        Some(Duration::ZERO) => Ok(TIMEOUT),
        Some(timeout) => Ok(timeout),
        None => Err(Fault::invalid("provider.limits.timeout", "is negative").hint("give e.g. 30s")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_secret_that_is_missing_is_named_with_its_place() {
        let reference = SecretRef {
            source: Some(Source::Environment("ISOMER_NO_SUCH_VARIABLE".into())),
        };
        let fault = read_secret(&secret_source(Some(&reference)).unwrap()).unwrap_err();
        assert_eq!(fault.code, tonic::Code::FailedPrecondition);
        assert_eq!(fault.field.as_deref(), Some("provider.secret"));
        assert!(fault.message.contains("ISOMER_NO_SUCH_VARIABLE"), "{fault}");
        assert!(secret_source(Some(&SecretRef::default())).is_err());
        assert!(read_secret(&secret_source(None).unwrap()).unwrap().is_empty());
    }
}
