//! MLflow's webhooks: the verification of a delivery's signature and time, and its content. Pure:
//! the time is an argument.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use http::HeaderMap;
use isomer_service_kit::config::Secret;
use serde::Deserialize;
use sha2::Sha256;

/// The headers of a delivery.
pub const SIGNATURE: &str = "x-mlflow-signature";
/// Its id; a repetition has the same id.
pub const DELIVERY: &str = "x-mlflow-delivery-id";
/// When it was signed, in seconds since 1970.
pub const TIMESTAMP: &str = "x-mlflow-timestamp";
/// Maximum difference between a delivery's time and ours, in seconds. MLflow repeats a delivery
/// with its first time, for at most three minutes by default.
pub const WINDOW: i64 = 300;
/// Maximum length of an id.
const LONGEST_ID: usize = 200;

/// The reason why a delivery is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forgery {
    /// A header is missing or unreadable.
    #[error("the header {0} is missing or cannot be read")]
    Header(&'static str),
    /// Its time is outside the window.
    #[error("the delivery was signed more than {WINDOW} seconds ago or ahead: it is replayed, or a clock is wrong")]
    Time,
    /// The signature is wrong.
    #[error("the signature does not match the webhook's secret")]
    Signature,
}

/// The event of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A version was created.
    Created { model: String, version: String },
    /// An alias points at another version, or at none.
    Alias { model: String, alias: String },
    /// A tag of a version was set or removed.
    Tag {
        model: String,
        /// The tag.
        key: String,
        removed: bool,
    },
    /// Any other event.
    Other,
}

/// The id of a delivery, after verifying its signature and its time.
///
/// # Errors
/// [`Forgery`].
pub fn verify(secret: &Secret, headers: &HeaderMap, body: &[u8], now: i64) -> Result<String, Forgery> {
    let text = |name: &'static str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.filter(|value| !value.is_empty()).ok_or(Forgery::Header(name))
    };
    let (id, time, signature) = (text(DELIVERY)?, text(TIMESTAMP)?, text(SIGNATURE)?);
    if id.len() > LONGEST_ID {
        return Err(Forgery::Header(DELIVERY));
    }
    let signed_at: i64 = time.parse().map_err(|_| Forgery::Header(TIMESTAMP))?;
    // The signature is checked first, so that a sender without the secret learns nothing about our
    // clock.
    let key = secret.expose().ok_or(Forgery::Signature)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).map_err(|_| Forgery::Signature)?;
    mac.update(format!("{id}.{time}.").as_bytes());
    mac.update(body);
    let encoded = signature.strip_prefix("v1,").ok_or(Forgery::Header(SIGNATURE))?;
    let given = STANDARD.decode(encoded).map_err(|_| Forgery::Header(SIGNATURE))?;
    // In constant time.
    mac.verify_slice(&given).map_err(|_| Forgery::Signature)?;
    if now.saturating_sub(signed_at).saturating_abs() > WINDOW {
        return Err(Forgery::Time);
    }
    Ok(id.to_owned())
}

/// Parses the body of a delivery.
///
/// # Errors
/// If it is not JSON in the known format.
pub fn read(body: &[u8]) -> Result<Event, String> {
    #[derive(Deserialize)]
    struct Body {
        entity: String,
        action: String,
        #[serde(default)]
        data: Data,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Data {
        name: String,
        version: String,
        alias: String,
        key: String,
    }
    let body: Body = serde_json::from_slice(body).map_err(|error| format!("the body cannot be read: {error}"))?;
    let Data {
        name: model,
        version,
        alias,
        key,
    } = body.data;
    if model.is_empty() {
        return Ok(Event::Other);
    }
    Ok(match (body.entity.as_str(), body.action.as_str()) {
        ("model_version", "created") if !version.is_empty() => Event::Created { model, version },
        ("model_version_alias", "created" | "deleted") => Event::Alias { model, alias },
        ("model_version_tag", action @ ("set" | "deleted")) => Event::Tag {
            model,
            key,
            removed: action == "deleted",
        },
        _ => Event::Other,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const BODY: &[u8] = br#"{"entity": "model_version", "action": "created", "timestamp": "2026-11-24T12:00:00+00:00", "data": {"name": "enc", "version": "3", "source": "models:/m-1", "run_id": null, "tags": {}, "description": null}}"#;
    /// Made with MLflow 3.17.2: `mlflow.webhooks.delivery._generate_hmac_signature("s3cret",
    /// "6f1c", "1764000000", BODY)`.
    const SIGNED: &str = "v1,FW3aW9hRKuad6kthYin69pPb3RaJFmYsi5pv2XOkekM=";

    fn headers(id: &str, time: &str, signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [(DELIVERY, id), (TIMESTAMP, time), (SIGNATURE, signature)] {
            headers.insert(name, value.parse().unwrap());
        }
        headers
    }

    fn secret() -> Secret {
        Secret::new("s3cret")
    }

    #[test]
    fn a_signature_that_mlflow_made_is_accepted_within_the_window() {
        let headers = headers("6f1c", "1764000000", SIGNED);
        for now in [1_764_000_000, 1_764_000_000 + WINDOW, 1_764_000_000 - WINDOW] {
            assert_eq!(verify(&secret(), &headers, BODY, now).unwrap(), "6f1c");
        }
        for now in [1_764_000_001 + WINDOW, 1_763_999_999 - WINDOW, 0, i64::MAX] {
            assert_eq!(verify(&secret(), &headers, BODY, now), Err(Forgery::Time), "{now}");
        }
    }

    #[test]
    fn nothing_of_a_delivery_can_be_changed() {
        let now = 1_764_000_000;
        let refused = |headers: &HeaderMap, body: &[u8]| verify(&secret(), headers, body, now).unwrap_err();
        let good = headers("6f1c", "1764000000", SIGNED);
        assert_eq!(refused(&good, b"{}"), Forgery::Signature);
        assert_eq!(
            refused(&headers("6f1d", "1764000000", SIGNED), BODY),
            Forgery::Signature
        );
        assert_eq!(
            refused(&headers("6f1c", "1764000001", SIGNED), BODY),
            Forgery::Signature
        );
        assert_eq!(verify(&Secret::new("other"), &good, BODY, now), Err(Forgery::Signature));
        assert_eq!(verify(&Secret::default(), &good, BODY, now), Err(Forgery::Signature));
        for signature in ["v1,", "v2,aGk=", "v1,***", &SIGNED[3..]] {
            assert!(verify(&secret(), &headers("6f1c", "1764000000", signature), BODY, now).is_err());
        }
        for missing in [DELIVERY, TIMESTAMP, SIGNATURE] {
            let mut headers = good.clone();
            headers.remove(missing);
            assert_eq!(refused(&headers, BODY), Forgery::Header(missing));
        }
    }

    #[test]
    fn events_say_what_they_are_about() {
        let created = Event::Created {
            model: "enc".to_owned(),
            version: "3".to_owned(),
        };
        assert_eq!(read(BODY).unwrap(), created);
        let alias = br#"{"entity":"model_version_alias","action":"deleted","data":{"name":"enc","alias":"champion"}}"#;
        assert!(matches!(read(alias).unwrap(), Event::Alias { alias, .. } if alias == "champion"));
        let tag = br#"{"entity":"model_version_tag","action":"set","data":{"name":"enc","version":"3","key":"isomer.verdict","value":"pass"}}"#;
        assert!(matches!(read(tag).unwrap(), Event::Tag { key, removed: false, .. } if key == "isomer.verdict"));
        let other = br#"{"entity":"prompt","action":"created","data":{"name":"p"}}"#;
        assert_eq!(read(other).unwrap(), Event::Other);
        assert!(read(b"[]").is_err());
    }
}
