//! The tenant of a call. Text that one tenant's calls leave in a cache is not served to another
//! tenant.
//!
//! A gateway names the tenant of each call in metadata. The name is a digest that only the gateway
//! can compute. So a client that reaches a service without a gateway can name its own tenant, but
//! not another caller's. Calls without a name share one set of caches. Such calls come from the
//! owner of a process, or reach a server that shares its caches or requires no key.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Metadata that names the tenant.
pub const TENANT: HeaderName = HeaderName::from_static("isomer-tenant");

/// The tenant of calls without a tenant name.
pub static COMMON: Tenant = Tenant(None);

/// The tenant of a call. The default is the tenant of calls without a name.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Option<String>", into = "Option<String>")]
pub struct Tenant(Option<Arc<str>>);

impl From<Option<String>> for Tenant {
    fn from(name: Option<String>) -> Self {
        Self(name.map(Arc::from))
    }
}

impl From<Tenant> for Option<String> {
    fn from(tenant: Tenant) -> Self {
        tenant.0.map(|name| name.to_string())
    }
}

impl Tenant {
    /// The tenant of an account at a gateway that knows this secret.
    pub fn of_account(secret: &[u8], principal: &str) -> Self {
        Self::digest("account", &[secret, principal.as_bytes()])
    }

    /// The tenant that the headers of a request name.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let named: Vec<&[u8]> = headers.get_all(TENANT).iter().map(HeaderValue::as_bytes).collect();
        match named.as_slice() {
            [] => Self::default(),
            [name] if is_name(name) => Self(Some(String::from_utf8_lossy(name).into())),
            // A malformed name gets a tenant of its own.
            other => Self::digest("unknown", other),
        }
    }

    /// The tenant that the metadata of a request name.
    pub fn of_request<T>(request: &tonic::Request<T>) -> Self {
        Self::of_headers(request.metadata().as_ref())
    }

    /// The tenant of a call that an account makes for one of its own tenants. A service that calls
    /// a gateway with a key names the tenant that it works for. The name of a tenant gives no
    /// access to another account's caches.
    #[must_use]
    pub fn within(self, account: &Self) -> Self {
        match (&self.0, &account.0) {
            (_, None) => self,
            (None, _) => account.clone(),
            (Some(own), Some(outer)) => Self::digest("within", &[outer.as_bytes(), own.as_bytes()]),
        }
    }

    /// The tenant's name for another operator's server. It separates tenants there as here, and is
    /// of no use at this server.
    #[must_use]
    pub fn for_server(&self, server: &str) -> Self {
        match &self.0 {
            None => Self::default(),
            Some(name) => Self::digest("told", &[server.as_bytes(), name.as_bytes()]),
        }
    }

    /// Whether the call has no tenant name.
    pub fn is_common(&self) -> bool {
        self.0.is_none()
    }

    /// The tenant's part of cache keys: 64 hexadecimal digits; `None` if the call names no tenant.
    /// The tenant's name cannot be derived from it, so stored keys give nobody access.
    pub fn scope(&self) -> Option<String> {
        let name = self.0.as_ref()?;
        Self::digest("scope", &[name.as_bytes()])
            .0
            .map(|scope| scope.to_string())
    }

    /// Writes the tenant's name into the headers, replacing any other.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.remove(TENANT);
        headers.extend(self.header().map(|value| (TENANT, value)));
    }

    /// A request on behalf of the tenant.
    pub fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let mut headers = HeaderMap::new();
        self.write(&mut headers);
        *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(headers);
        request
    }

    /// The value of the header; `None` if the call names no tenant.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let name = self.0.as_ref()?;
        let mut value = HeaderValue::from_str(name).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    fn digest(what: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in [&[b"isomer.tenant/1", what.as_bytes()], parts].concat() {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let digits = hasher
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        Self(Some(digits.into()))
    }
}

fn is_name(name: &[u8]) -> bool {
    name.len() == 64 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Hides the name, because it gives access to the tenant's caches.
impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_common() {
            "Tenant(none)"
        } else {
            "Tenant(…)"
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(values: &[&[u8]]) -> Tenant {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TENANT, HeaderValue::from_bytes(value).unwrap());
        }
        Tenant::of_headers(&headers)
    }

    #[test]
    fn a_tenant_is_read_as_it_was_written_and_replaces_what_a_client_claims() {
        let tenant = Tenant::of_account(b"secret", "key:one");
        let mut headers = HeaderMap::new();
        headers.insert(TENANT, HeaderValue::from_static("claimed"));
        tenant.write(&mut headers);
        assert_eq!(Tenant::of_headers(&headers), tenant);
        Tenant::default().write(&mut headers);
        assert!(Tenant::of_headers(&headers).is_common());
        let kept: Tenant = serde_json::from_str(&serde_json::to_string(&tenant).unwrap()).unwrap();
        assert_eq!(kept, tenant);
    }

    #[test]
    fn no_value_of_the_header_is_read_as_no_tenant() {
        let own = Tenant::of_account(b"secret", "key:one");
        let name = own.header().unwrap();
        let readings = [
            read(&[]),
            read(&[b""]),
            read(&[b"none"]),
            read(&[b"\xff"]),
            read(&[name.as_bytes(), b"x"]),
            read(&[name.as_bytes()]),
        ];
        assert!(readings[0].is_common());
        assert!(readings[1..].iter().all(|tenant| !tenant.is_common()));
        assert_eq!(readings[5], own);
        for (i, one) in readings.iter().enumerate() {
            assert!(
                readings[..i]
                    .iter()
                    .all(|other| other != one && other.scope() != one.scope())
            );
        }
    }

    #[test]
    fn accounts_secrets_and_claims_make_different_tenants() {
        let one = Tenant::of_account(b"secret", "key:one");
        let other = Tenant::of_account(b"secret", "key:two");
        let elsewhere = Tenant::of_account(b"another", "key:one");
        let claimed = one.clone().within(&other);
        assert_eq!(one, Tenant::of_account(b"secret", "key:one"));
        assert_eq!(Tenant::default().within(&one), one);
        assert_eq!(one.clone().within(&Tenant::default()), one);
        let told = one.for_server("provider");
        let all = [&one, &other, &elsewhere, &claimed, &told];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other.scope() != one.scope()));
        }
        assert!(Tenant::default().for_server("provider").is_common());
        let shown = format!("{one:?} {:?}", one.header().unwrap());
        assert!(!shown.contains(&one.scope().unwrap()) && shown.len() < 40, "{shown}");
    }
}
