//! Protects a server that is open to its own machine from pages in that machine's browsers. A
//! public name may resolve to 127.0.0.1 (DNS rebinding), and any page may send requests there.
//! Pages of configured origins may call, because a browser reports a page's origin truthfully. `*`
//! is ignored here: it names no origin, and would open everything that no key protects.

use http::{header, request::Parts};
use isomer_service_kit::Fault;

use crate::faults;

/// Refuses a request that is addressed to a name other than this machine's, or that was sent by a
/// page that belongs neither to this machine nor to the origins `allowed`.
pub(crate) fn check_local(parts: &Parts, allowed: &[String]) -> Result<(), Fault> {
    if let Some(authority) = parts.uri.authority()
        && !is_local(authority.host())
    {
        return Err(faults::foreign_host(":authority", authority.host()));
    }
    for value in parts.headers.get_all(header::HOST) {
        let text = value.to_str().unwrap_or_default();
        let host = text.parse::<http::uri::Authority>();
        if !host.is_ok_and(|authority| is_local(authority.host())) {
            return Err(faults::foreign_host("host", text));
        }
    }
    for value in parts.headers.get_all(header::ORIGIN) {
        let text = value.to_str().unwrap_or_default();
        let origin = text.parse::<http::Uri>();
        let is_ours = origin.is_ok_and(|origin| origin.host().is_some_and(is_local));
        let is_named = text != "*" && allowed.iter().any(|allowed| allowed == text);
        if !is_ours && !is_named {
            return Err(faults::foreign_origin(text));
        }
    }
    Ok(())
}

/// Refuses a trial that a browser sends with a remembered password, unless the browser names the
/// page that sent it. Over plain HTTP from another machine, browsers omit `Sec-Fetch-Site`, so any
/// page could start trials there, e.g. as the address of an image.
pub(crate) fn check_page(headers: &http::HeaderMap) -> Result<(), Fault> {
    let is_basic = |value: &http::HeaderValue| {
        let scheme = value.as_bytes().get(..6);
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "))
    };
    if headers.contains_key("sec-fetch-site") || !headers.get(header::AUTHORIZATION).is_some_and(is_basic) {
        return Ok(());
    }
    Err(faults::unknown_page())
}

fn is_local(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<std::net::IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    // RFC 6761: these names mean this machine.
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(uri: &str, headers: &[(&str, &str)]) -> Result<(), Fault> {
        let request = http::Request::builder().uri(uri);
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        let allowed = ["https://app.example".to_owned(), "*".to_owned()];
        check_local(&request.body(()).unwrap().into_parts().0, &allowed)
    }

    #[test]
    fn the_machines_own_names_pass() {
        for host in [
            "127.0.0.1:50051",
            "localhost",
            "LOCALHOST:80",
            "[::1]:50051",
            "127.8.9.1",
            "a.localhost:1",
        ] {
            asked("/", &[("host", host)]).unwrap();
            asked(&format!("http://{host}/x"), &[]).unwrap();
        }
        asked("/", &[]).unwrap();
        for origin in ["http://localhost:3000", "https://app.example"] {
            asked("/", &[("host", "localhost"), ("origin", origin)]).unwrap();
        }
    }

    #[test]
    fn other_names_and_pages_from_elsewhere_do_not() {
        for host in [
            "rebound.example",
            "localhost.example",
            "192.168.1.5:80",
            "0.0.0.0",
            "",
            "127.0.0.1.example",
            "[::2]",
        ] {
            let fault = asked("/", &[("host", host)]).unwrap_err();
            assert_eq!(fault.reason, "FOREIGN_HOST", "{host}");
        }
        for origin in [
            "https://evil.example",
            "https://app.example:8443",
            "http://app.example",
            "*",
            "null",
            "file://",
        ] {
            let fault = asked("/", &[("host", "localhost"), ("origin", origin)]).unwrap_err();
            assert_eq!(fault.reason, "FOREIGN_ORIGIN", "{origin}");
            assert!(fault.to_string().contains("web.allowed_origins"), "{fault}");
        }
        let rebound = [("host", "rebound.example"), ("origin", "https://app.example")];
        assert_eq!(asked("/", &rebound).unwrap_err().reason, "FOREIGN_HOST");
        assert!(asked("http://rebound.example/", &[("host", "localhost")]).is_err());
    }
}
