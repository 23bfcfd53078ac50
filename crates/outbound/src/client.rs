//! The HTTP client of every call to third-party servers.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use isomer_service_kit::{client::ClientTls, tls};
use reqwest::{Certificate, ClientBuilder, Identity, NoProxy, Proxy, redirect};

use crate::{guard::Resolver, said::cause};

/// Default of the maximum wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Servers that never use a proxy, whatever the environment says: those of this machine.
const LOCAL: &str = "localhost,127.0.0.0/8,::1";

/// The settings that all our clients share. Redirects are not followed, because they would carry
/// the secret to an unchecked address. Proxies come from the environment.
pub fn builder() -> ClientBuilder {
    tls::install_crypto();
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("isomer/", env!("CARGO_PKG_VERSION")));
    proxied(builder, |name| std::env::var(name).ok())
}

/// A client that uses the proxies of an environment: `HTTPS_PROXY`, `HTTP_PROXY`, else `ALL_PROXY`,
/// except for the servers of `NO_PROXY` and those of this machine. The lower-case form of each name
/// has precedence. As usual, `HTTP_PROXY` in capitals is ignored in a CGI program, where a request
/// can set it.
fn proxied(builder: ClientBuilder, variable: impl Fn(&str) -> Option<String>) -> ClientBuilder {
    let of = |name: &str| {
        let small = variable(&name.to_lowercase());
        let capitals = || variable(name).filter(|_| name != "HTTP_PROXY" || variable("REQUEST_METHOD").is_none());
        small.or_else(capitals).filter(|value| !value.trim().is_empty())
    };
    let direct = match of("NO_PROXY") {
        Some(names) => format!("{names},{LOCAL}"),
        None => LOCAL.to_owned(),
    };
    let kinds: [(&str, fn(String) -> reqwest::Result<Proxy>); 3] = [
        ("HTTPS_PROXY", Proxy::https),
        ("HTTP_PROXY", Proxy::http),
        ("ALL_PROXY", Proxy::all),
    ];
    let proxies = kinds.into_iter().filter_map(|(name, proxy)| {
        let made = proxy(of(name)?.trim().to_owned());
        // The value may contain a password.
        made.inspect_err(|_| tracing::warn!("{name} is not the address of a proxy: it is not used"))
            .ok()
    });
    proxies.fold(builder.no_proxy(), |builder, proxy| {
        builder.proxy(proxy.no_proxy(NoProxy::from_string(&direct)))
    })
}

/// A client that connects only to addresses that the guard permits. It uses no proxy, because a
/// proxy would resolve names itself.
pub fn guarded(builder: ClientBuilder, resolver: Resolver) -> ClientBuilder {
    builder.no_proxy().dns_resolver(resolver)
}

/// A TLS file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", .file.display())]
pub struct BadTlsFile {
    /// The field of [`ClientTls`] that names it.
    pub field: &'static str,
    pub file: PathBuf,
    pub message: String,
}

/// A client that trusts only these authorities and presents this certificate. The caller sets the
/// server's name.
///
/// # Errors
/// If a file cannot be read or has other content.
pub fn with_tls(mut builder: ClientBuilder, tls: &ClientTls) -> Result<ClientBuilder, BadTlsFile> {
    if let Some(file) = &tls.ca_file {
        builder = trusting(builder, file)?;
    }
    if let (Some(certificate), Some(key)) = (&tls.certificate_file, &tls.key_file) {
        let mut pem = read("certificate_file", certificate)?;
        pem.push(b'\n');
        pem.extend(read("key_file", key)?);
        let identity = Identity::from_pem(&pem).map_err(|error| bad("certificate_file", certificate, cause(&error)))?;
        builder = builder.identity(identity);
    }
    Ok(builder)
}

/// A client that trusts only the authorities of a PEM file.
///
/// # Errors
/// If the file cannot be read or contains no certificate.
pub fn trusting(builder: ClientBuilder, file: &Path) -> Result<ClientBuilder, BadTlsFile> {
    let found = Certificate::from_pem_bundle(&read("ca_file", file)?);
    let found = found.map_err(|error| bad("ca_file", file, cause(&error)))?;
    if found.is_empty() {
        return Err(bad("ca_file", file, "it holds no certificate"));
    }
    Ok(builder.tls_certs_only(found))
}

fn read(field: &'static str, file: &Path) -> Result<Vec<u8>, BadTlsFile> {
    fs::read(file).map_err(|error| bad(field, file, error.to_string()))
}

fn bad(field: &'static str, file: &Path, message: impl Into<String>) -> BadTlsFile {
    BadTlsFile {
        field,
        file: file.to_owned(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A server that answers each connection with the first line of the request.
    async fn echo() -> std::net::SocketAddr {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = connection.read(&mut request).await.unwrap();
                let line = String::from_utf8_lossy(&request[..read]);
                let line = line.lines().next().unwrap_or_default();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{line}",
                    line.len()
                );
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn servers_of_this_machine_are_asked_without_a_proxy() {
        let (server, proxy) = (echo().await, echo().await);
        let asked = async |variables: &[(&str, String)], url: String| {
            let of = |name: &str| Some(variables.iter().find(|(own, _)| *own == name)?.1.clone());
            tls::install_crypto();
            let client = proxied(reqwest::Client::builder(), of).build().unwrap();
            client.get(url).send().await.unwrap().text().await.unwrap()
        };
        let through = "GET http://models.invalid/v1 HTTP/1.1";
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            let set = [(name, format!("http://{proxy}"))];
            assert_eq!(asked(&set, "http://models.invalid/v1".into()).await, through, "{name}");
            for host in [server.to_string(), format!("localhost:{}", server.port())] {
                assert_eq!(
                    asked(&set, format!("http://{host}/v1")).await,
                    "GET /v1 HTTP/1.1",
                    "{name}"
                );
            }
        }
        // The lower-case name has precedence, a value without a scheme works too, and NO_PROXY is
        // added to this machine.
        let set = [
            ("http_proxy", proxy.to_string()),
            ("HTTP_PROXY", "http://nowhere.invalid".into()),
            ("NO_PROXY", "elsewhere.invalid".into()),
        ];
        assert_eq!(asked(&set, "http://models.invalid/v1".into()).await, through);
        assert_eq!(asked(&set, format!("http://{server}/v1")).await, "GET /v1 HTTP/1.1");
        let cgi = [
            ("HTTP_PROXY", format!("http://{proxy}")),
            ("REQUEST_METHOD", "GET".into()),
        ];
        assert_eq!(asked(&cgi, format!("http://{server}/v1")).await, "GET /v1 HTTP/1.1");
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = trusting(builder(), file.path()).unwrap_err();
        assert_eq!((error.field, error.file.as_path()), ("ca_file", file.path()));
        assert!(error.to_string().contains("no certificate"), "{error}");
        let missing = ClientTls {
            ca_file: Some("nowhere.pem".into()),
            ..ClientTls::default()
        };
        let error = with_tls(builder(), &missing).unwrap_err();
        assert!(error.to_string().starts_with("nowhere.pem: "), "{error}");
    }
}
