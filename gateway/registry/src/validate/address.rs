//! Validates addresses. The decision whether the gateway may call an address (loopback, private
//! networks) is made at the call.

use http::Uri;
use isomer_adapters::Kind;
use isomer_proto::ProtoEnum;
use isomer_service_kit::Fault;

use super::shown;

const LONGEST: usize = 2048;

/// Validates an address; returns true if it uses TLS.
pub(super) fn address(address: &str, kind: &Kind) -> Result<bool, Fault> {
    let grpc = kind.grpc;
    let example = match grpc {
        true => "give grpc://host:port or grpcs://host:port",
        false => "give http://host:port or https://host, with a path as need be",
    };
    let refuse = |problem: String| Err(Fault::invalid("provider.address", problem).hint(example));
    if address.is_empty() {
        return refuse("is missing".to_owned());
    }
    // The part before an @ may be a password, so errors from here on do not repeat the address.
    let authority = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        let problem = "holds a user or a password, which would be shown";
        return Err(Fault::invalid("provider.address", problem).hint("put the secret into the field secret"));
    }
    if address.contains(['?', '#']) {
        return refuse("has a query or a fragment".to_owned());
    }
    if address.len() > LONGEST || address.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return refuse("is not an address".to_owned());
    }
    let uri: Uri = match address.parse() {
        Ok(uri) => uri,
        Err(error) => return refuse(format!("`{}`: {error}", shown(address))),
    };
    let encrypted = match (grpc, uri.scheme_str()) {
        (true, Some("grpc")) | (false, Some("http")) => false,
        (true, Some("grpcs")) | (false, Some("https")) => true,
        (_, Some(scheme)) => {
            return refuse(format!(
                "`{}:` does not go with a provider of kind {}",
                shown(scheme),
                kind.value.dashed()
            ));
        }
        (_, None) => return refuse(format!("`{}` has no scheme", shown(address))),
    };
    let host = uri.host().unwrap_or_default();
    if !legal_host(host) {
        return refuse(format!("`{}` names no host", shown(address)));
    }
    let port = uri
        .authority()
        .and_then(|authority| authority.as_str().strip_prefix(host));
    match port.map(|port| port.strip_prefix(':')) {
        Some(Some(port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => {}
        Some(Some(port)) => return refuse(format!("`{}` is not a port", shown(port))),
        _ if grpc => return refuse(format!("`{}` has no port", shown(address))),
        _ => {}
    }
    if grpc && !matches!(uri.path(), "" | "/") {
        return refuse(format!("`{}` has a path, which gRPC does not use", shown(address)));
    }
    Ok(encrypted)
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
pub(super) fn legal_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let label = |label: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(legal) && !label.starts_with('-') && !label.ends_with('-')
    };
    host.len() <= 253 && host.strip_suffix('.').unwrap_or(host).split('.').all(label)
}
