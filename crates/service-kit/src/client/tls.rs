//! Client side of TLS.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::RootCertStore;
use rustls_pki_types::ServerName;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::codegen::StdError;

use crate::{
    Fault,
    tls::{self, Contents, Renewal, Role, TlsFiles},
};

/// The protocol that a gRPC server must offer.
const HTTP_2: &[u8] = b"h2";

/// Client side of TLS. The files are read again for every connection: renewed ones are used without
/// a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientTls {
    /// PEM file with the authorities to trust; absent: the platform's.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate (mTLS).
    pub certificate_file: Option<PathBuf>,
    /// PEM file with its key.
    pub key_file: Option<PathBuf>,
    /// Name expected in the server's certificate; absent: the address's host.
    pub server_name: Option<String>,
}

impl TlsFiles for ClientTls {
    type Config = rustls::ClientConfig;

    fn files(&self) -> Vec<(&'static str, &Path)> {
        let files = [
            ("tls.ca_file", &self.ca_file),
            ("tls.certificate_file", &self.certificate_file),
            ("tls.key_file", &self.key_file),
        ];
        let named = files
            .into_iter()
            .filter_map(|(field, file)| Some((field, file.as_deref()?)));
        named.collect()
    }

    fn build(&self, contents: &Contents) -> Result<Arc<rustls::ClientConfig>, Fault> {
        tls::install_crypto();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = match &self.ca_file {
            Some(_) => contents.authorities("tls.ca_file")?,
            None => platform()?,
        };
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::internal(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots);
        let mut config = match (&self.certificate_file, &self.key_file) {
            (Some(file), Some(_)) => {
                let (chain, key) = contents.identity("tls.certificate_file", "tls.key_file")?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| tls::bad("tls.certificate_file", file, &error))?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => {
                return Err(
                    Fault::invalid("tls", "certificate_file and key_file go together").hint("give both or neither")
                );
            }
        };
        config.alpn_protocols = vec![HTTP_2.to_vec()];
        Ok(Arc::new(config))
    }
}

/// The authorities that this machine trusts.
fn platform() -> Result<RootCertStore, Fault> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A platform's store may contain certificates that cannot be parsed.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Fault::invalid(
            "tls.ca_file",
            "is not set, and this machine has no authorities of its own",
        )
        .hint("name a PEM file with the authorities to trust"));
    }
    Ok(roots)
}

/// Encrypts connections to one server.
#[derive(Debug)]
pub(super) struct Encryption {
    files: Renewal<ClientTls>,
    name: ServerName<'static>,
}

impl Encryption {
    /// Settings for the server `host`, which logs name as `address`.
    ///
    /// # Errors
    /// When the files or the name are unusable.
    pub(super) fn new(tls: Option<&ClientTls>, host: &str, address: &str) -> Result<Self, Fault> {
        let tls = tls.cloned().unwrap_or_default();
        let (field, name) = match &tls.server_name {
            Some(name) => ("tls.server_name", name.as_str()),
            None => ("address", host),
        };
        let name = ServerName::try_from(name.to_owned()).map_err(|error| {
            Fault::invalid(field, format!("`{name}` cannot be in a certificate: {error}"))
                .hint("give the server's DNS name or IP address")
        })?;
        Ok(Self {
            files: Renewal::new(tls, Role::Client(address.to_owned()))?,
            name,
        })
    }

    /// Performs the handshake with the current files.
    pub(super) async fn shake(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, StdError> {
        // The files are few and small, and are read once per connection.
        self.files.renew();
        let connector = TlsConnector::from(self.files.current());
        let stream = connector.connect(self.name.clone(), stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(HTTP_2) {
            return Err("the server does not offer HTTP/2, which gRPC needs".into());
        }
        Ok(stream)
    }
}
