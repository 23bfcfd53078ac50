//! Restricts the addresses of outbound calls, as a protection against server-side request forgery.
//!
//! A caller that may register a provider chooses the addresses to which this process connects.
//! Without a guard, the caller could use the access of this machine: its own ports, its network,
//! the cloud's metadata service. So addresses that are not public are refused unless the
//! configuration permits them. The check applies to the address of the connection, at the moment of
//! connecting. So it cannot be bypassed by a name whose answer changes afterwards (DNS rebinding),
//! another spelling of an address, or a redirect (never followed).

mod allow;
mod connect;
mod ranges;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use isomer_service_kit::{
    Fault,
    config::{ConfigError, Validate},
};
use serde::{Deserialize, Serialize};
use tonic::Code;

pub use connect::Resolver;

use allow::Allow;

/// Non-public addresses that may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuardConfig {
    /// Names (`embed.internal`, `*.svc.cluster.local`), addresses (`127.0.0.1`, `::1`) and networks
    /// (`10.0.0.0/8`, `fd00::/8`). A name is allowed whatever it resolves to.
    pub allow: Vec<String>,
}

impl Validate for GuardConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        Allow::read(&self.allow).map(drop)
    }
}

/// Resolves a name to addresses.
type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Decides whether an address may be called. Cheaply cloned.
#[derive(Clone)]
pub struct AddressGuard {
    allow: Arc<Allow>,
    lookup: Lookup,
    plain_secret: bool,
}

impl fmt::Debug for AddressGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressGuard").field("allow", &self.allow).finish()
    }
}

impl AddressGuard {
    /// A guard that allows public addresses and those of the configuration.
    ///
    /// # Errors
    /// If an entry is not a name, address or network.
    pub fn new(config: &GuardConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            allow: Arc::new(Allow::read(&config.allow)?),
            lookup: Arc::new(|host| {
                async move {
                    let found = tokio::net::lookup_host((host, 0)).await?;
                    Ok(found.map(|address| address.ip()).collect())
                }
                .boxed()
            }),
            plain_secret: false,
        })
    }

    /// For a connection without TLS that carries a secret. It is refused for public addresses,
    /// because anyone on the path could read the secret. Machines of the operator's own network are
    /// in the allow-list anyway.
    #[must_use]
    pub fn with_secret_in_plain_text(mut self, is_so: bool) -> Self {
        self.plain_secret = is_so;
        self
    }

    #[cfg(test)]
    fn looking_up(mut self, lookup: Lookup) -> Self {
        self.lookup = lookup;
        self
    }

    /// Refuses a host that is written as an address and is not permitted. Names are checked when
    /// they are resolved.
    ///
    /// # Errors
    /// `ADDRESS_REFUSED`.
    pub fn check_literal(&self, host: &url::Host<&str>) -> Result<(), Fault> {
        let address = match host {
            url::Host::Domain(_) => return Ok(()),
            url::Host::Ipv4(address) => IpAddr::V4(*address),
            url::Host::Ipv6(address) => IpAddr::V6(*address),
        };
        self.check(&address.to_string(), address).map_err(Fault::from)
    }

    /// The permitted addresses of a host.
    ///
    /// # Errors
    /// [`AddressRefusal`] if there are addresses but none is permitted; otherwise the resolver's
    /// error.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, tonic::codegen::StdError> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => (self.lookup)(host.to_owned()).await?,
        };
        let mut refusal = None;
        let mut allowed = Vec::with_capacity(found.len());
        for address in found {
            match self.check(host, address) {
                Ok(()) => allowed.push(SocketAddr::new(address, port)),
                Err(refused) => refusal = Some(refused),
            }
        }
        match (allowed.is_empty(), refusal) {
            (false, _) => Ok(allowed),
            (true, Some(refused)) => Err(refused.into()),
            (true, None) => Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")).into()),
        }
    }

    fn check(&self, host: &str, address: IpAddr) -> Result<(), AddressRefusal> {
        if self.allow.covers(host, address) {
            return Ok(());
        }
        let why = match ranges::not_public(address) {
            Some(what) => RefusalReason::NotPublic(what),
            None if self.plain_secret => RefusalReason::SecretInPlainText,
            None => return Ok(()),
        };
        Err(AddressRefusal {
            host: host.to_owned(),
            address,
            why,
        })
    }
}

/// An address that is not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRefusal {
    host: String,
    address: IpAddr,
    why: RefusalReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalReason {
    NotPublic(&'static str),
    SecretInPlainText,
}

impl AddressRefusal {
    /// The refusal that caused an error, if one did.
    pub fn behind<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(refused) = error.downcast_ref::<Self>() {
                return Some(refused);
            }
            // An io::Error that wraps another reports the other's cause as its own.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if let Some(refused) = inner.and_then(|inner| Self::behind(inner)) {
                return Some(refused);
            }
            cause = error.source();
        }
        None
    }
}

impl fmt::Display for AddressRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address, why } = self;
        if *host == address.to_string() {
            write!(f, "{address}")?;
        } else {
            write!(f, "{host}, at {address},")?;
        }
        match why {
            RefusalReason::NotPublic(what) => write!(f, " is {what}, which providers may not be at"),
            RefusalReason::SecretInPlainText => {
                f.write_str(" is public, and the secret would travel there in plain text")
            }
        }
    }
}

impl std::error::Error for AddressRefusal {}

impl From<AddressRefusal> for Fault {
    fn from(refused: AddressRefusal) -> Self {
        let hint = match refused.why {
            RefusalReason::NotPublic(_) => {
                "let the gateway's configuration allow it: the host, the address or its network in the guard's `allow`"
            }
            RefusalReason::SecretInPlainText => "write https:// or grpcs:// in the address",
        };
        Fault::new(Code::PermissionDenied, "ADDRESS_REFUSED", refused.to_string())
            .field("provider.address")
            .hint(hint)
            .with("address", refused.address.to_string())
    }
}
