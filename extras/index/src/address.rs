//! Addresses of databases and stores, including the part after `#`.

use url::Url;

use crate::error::{IndexError, Result};

/// An address, the part after `#`, and the address as messages show it.
#[derive(Debug, Clone)]
pub(crate) struct StoreAddress {
    pub(crate) url: Url,
    pub(crate) fragment: Option<String>,
    pub(crate) shown: String,
}

impl StoreAddress {
    /// Splits an address at its `#`.
    pub(crate) fn read(field: &'static str, address: &str) -> Result<Self> {
        let mut url = Url::parse(address).map_err(|error| IndexError::Setting {
            field,
            // The address may contain a password.
            message: format!("the address cannot be read: {error}"),
            hint: "write it as postgres://USER@HOST:PORT/DATABASE#TABLE or http://HOST:PORT#COLLECTION",
        })?;
        let fragment = url
            .fragment()
            .map(percent_decoded)
            .filter(|fragment| !fragment.is_empty());
        url.set_fragment(None);
        let mut shown = url.clone();
        // Neither fails for an address with a host; one without a host has no user either.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        shown.set_query(None);
        let shown = match &fragment {
            Some(fragment) => format!("{shown}#{fragment}"),
            None => shown.to_string(),
        };
        Ok(Self { url, fragment, shown })
    }

    /// The server of a store, and the collection behind the `#`.
    ///
    /// # Errors
    /// Also if no collection is named, or the address contains a login, because messages show the
    /// address.
    pub(crate) fn read_store(address: &str) -> Result<(Self, String)> {
        let refused = |message: String, hint| IndexError::Setting {
            field: "sink",
            message,
            hint,
        };
        let place = Self::read("sink", address)?;
        if !place.url.username().is_empty() || place.url.password().is_some() {
            return Err(refused(
                "the address holds a user or a password, which would be shown with it".to_owned(),
                "give them in ISOMER_SINK_USER and ISOMER_SINK_PASSWORD",
            ));
        }
        match place.fragment.clone() {
            Some(collection) => Ok((place, collection)),
            None => Err(refused(
                format!("the address {} names no collection", place.shown),
                "write it behind a #, e.g. qdrant+http://127.0.0.1:6333#docs",
            )),
        }
    }
}

fn percent_decoded(text: &str) -> String {
    // A fragment is decoded like the value of a form, except for the plus sign.
    let encoded = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(encoded.as_bytes())
        .next()
        .map_or_else(|| text.to_owned(), |(name, _)| name.into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets_and_divided_at_the_mark() {
        let place = StoreAddress::read("sink", "postgres://me:geheim@h:5/db?sslmode=require#s.t%20u+v").unwrap();
        assert_eq!(place.shown, "postgres://h:5/db#s.t u+v");
        assert_eq!(place.fragment.as_deref(), Some("s.t u+v"));
        assert!(place.url.as_str().contains("geheim") && !place.url.as_str().contains('#'));
        let refusal = StoreAddress::read("sink", "postgres://me:geheim@h:port/db")
            .unwrap_err()
            .to_string();
        assert!(!refusal.contains("geheim"), "{refusal}");
    }
}
