//! Secrets sent to third-party servers. They are read on use, so that a new one takes effect
//! without a restart.

use std::{
    fmt, fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use http::{HeaderValue, header::InvalidHeaderValue};
use isomer_service_kit::config::Secret;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a secret file is assumed to be unchanged. A new secret takes effect after at most this
/// time.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum length of a secret. A longer file is not a secret file.
const LONGEST: u64 = 16 << 10;

/// The location from which a secret is read.
#[derive(Debug, Default)]
pub enum SecretSource {
    /// No secret is sent.
    #[default]
    None,
    Given(Secret),
    /// An environment variable of this process.
    Environment(String),
    /// A file that contains only the secret.
    File(SecretFile),
}

/// A file that contains a secret.
#[derive(Debug)]
pub struct SecretFile {
    path: PathBuf,
    kept: Mutex<Option<CachedSecret>>,
}

/// The secret cannot be read from its source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SecretError {
    /// The problem, and its location.
    pub message: String,
    pub hint: &'static str,
}

/// A file's content, with the metadata that shows whether the file has changed.
struct CachedSecret {
    looked: Instant,
    changed: (Option<SystemTime>, u64),
    secret: Secret,
}

impl fmt::Debug for CachedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl SecretSource {
    /// A file that contains only the secret. It is read on first use, and again after it has
    /// changed.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(SecretFile {
            path: path.into(),
            kept: Mutex::default(),
        })
    }

    /// Whether no secret is sent.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The current secret; empty if none is sent.
    ///
    /// # Errors
    /// If the variable or the file is missing, empty, or has content that cannot be a secret.
    pub fn read(&self) -> Result<Secret, SecretError> {
        match self {
            Self::None => Ok(Secret::default()),
            Self::Given(secret) => sendable(secret, "the configuration"),
            Self::Environment(name) => {
                let secret = Secret::from_env(name);
                if secret.is_empty() {
                    return Err(SecretError {
                        message: format!("the environment variable {name} of the server is not set or empty"),
                        hint: "put the secret in it and start the server again",
                    });
                }
                sendable(&secret, &format!("the environment variable {name}"))
            }
            Self::File(file) => file.read_at(Instant::now()),
        }
    }
}

impl SecretFile {
    fn read_at(&self, now: Instant) -> Result<Secret, SecretError> {
        let mut kept = self.kept.lock();
        if let Some(kept) = kept.as_ref().filter(|kept| now - kept.looked < FRESH) {
            return Ok(kept.secret.clone());
        }
        let shown = self.path.display();
        let unreadable = |error: std::io::Error| SecretError {
            message: format!("the secret file {shown} cannot be read: {error}"),
            hint: "make it readable by the server, or correct the path",
        };
        let found = fs::metadata(&self.path).map_err(unreadable)?;
        let changed = (found.modified().ok(), found.len());
        if let Some(kept) = kept
            .as_mut()
            .filter(|kept| kept.changed == changed && changed.0.is_some())
        {
            kept.looked = now;
            return Ok(kept.secret.clone());
        }
        if !found.is_file() || found.len() > LONGEST {
            return Err(SecretError {
                message: format!(
                    "{shown} is not a secret file: it is not a file, or it is longer than {LONGEST} bytes"
                ),
                hint: "write the secret alone into a file",
            });
        }
        let text = fs::read_to_string(&self.path).map_err(unreadable)?;
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            return Err(SecretError {
                message: format!("the secret file {shown} is empty"),
                hint: "write the secret into it",
            });
        }
        let secret = sendable(&Secret::new(text), &format!("the secret file {shown}"))?;
        *kept = Some(CachedSecret {
            looked: now,
            changed,
            secret: secret.clone(),
        });
        Ok(secret)
    }
}

/// A secret is sent in a header, so it must be one line of visible ASCII. A file with other content
/// is not a secret file, and its content is not sent.
fn sendable(secret: &Secret, place: &str) -> Result<Secret, SecretError> {
    let fine = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if secret.expose().is_some_and(fine) {
        return Ok(secret.clone());
    }
    Err(SecretError {
        message: format!(
            "{place} holds no secret that can be sent: it is empty, or has blanks, line breaks or letters outside ASCII"
        ),
        hint: "keep the secret alone in it",
    })
}

/// `Bearer` and the secret, the value of an `Authorization` header. It is marked as sensitive, so
/// that nothing prints it. `None` for an empty secret.
///
/// # Errors
/// If the secret did not come from a [`SecretSource`] and has characters that are invalid in a
/// header.
pub fn bearer(secret: &Secret) -> Result<Option<HeaderValue>, InvalidHeaderValue> {
    let Some(secret) = secret.expose() else { return Ok(None) };
    let mut value = HeaderValue::try_from(format!("Bearer {secret}"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_secret_file_is_read_again_when_it_changes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "first-key\n").unwrap();
        let source = SecretSource::file(file.path());
        assert_eq!(source.read().unwrap().expose(), Some("first-key"));
        fs::write(file.path(), "the-second-key\n").unwrap();
        let SecretSource::File(inner) = &source else {
            panic!("{source:?}")
        };
        let later = Instant::now() + FRESH;
        assert_eq!(inner.read_at(later).unwrap().expose(), Some("the-second-key"));
        assert!(!format!("{source:?}").contains("second-key"), "{source:?}");
    }

    #[test]
    fn a_secret_that_is_missing_is_named_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let missing = SecretSource::file(folder.path().join("none")).read().unwrap_err();
        assert!(missing.message.contains("none"), "{missing}");
        let missing = SecretSource::Environment("ISOMER_NO_SUCH_VARIABLE".into())
            .read()
            .unwrap_err();
        assert!(missing.message.contains("ISOMER_NO_SUCH_VARIABLE"), "{missing}");
        assert!(SecretSource::None.read().unwrap().is_empty());
    }

    #[test]
    fn a_file_that_is_no_secret_is_not_sent_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "root:x:0:0\ndaemon:x:1:1\n").unwrap();
        let missing = SecretSource::file(file.path()).read().unwrap_err();
        assert!(!missing.to_string().contains("daemon"), "{missing}");
    }

    #[test]
    fn the_header_of_a_secret_is_never_printed() {
        let given = SecretSource::Given(Secret::new("sk-1")).read().unwrap();
        let value = bearer(&given).unwrap().unwrap();
        assert_eq!(value, "Bearer sk-1");
        assert!(value.is_sensitive() && !format!("{value:?}").contains("sk-1"));
        assert_eq!(bearer(&Secret::default()).unwrap(), None);
        assert!(SecretSource::Given(Secret::new("a\nb")).read().is_err());
    }
}
