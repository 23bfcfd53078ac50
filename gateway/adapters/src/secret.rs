//! Secrets of providers: read when they are needed, never kept in a record.

use std::{
    fmt, fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use isomer_proto::gateway::v1::{SecretRef, secret_ref::Source};
use isomer_service_kit::{Fault, config::Secret};
use tokio::time::Instant;

/// How long a secret file is taken to be as it was: a new one counts at most so much later.
const FRESH: Duration = Duration::from_secs(1);
/// Longest secret. What is longer is another file.
const LONGEST: u64 = 16 << 10;

/// Where a provider's secret is.
#[derive(Debug, Default)]
pub(crate) enum SecretSource {
    /// The provider needs none.
    #[default]
    None,
    Environment(String),
    File(PathBuf, Mutex<Option<Kept>>),
}

/// A file's content, with what tells whether the file has changed.
pub(crate) struct Kept {
    looked: Instant,
    changed: (Option<SystemTime>, u64),
    secret: Secret,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl SecretSource {
    /// Reads where the secret is; not yet the secret.
    ///
    /// # Errors
    /// A reference that names nothing.
    pub(crate) fn new(reference: Option<&SecretRef>) -> Result<Self, Fault> {
        let empty = || {
            Fault::invalid("provider.secret", "names no place")
                .mend("set `environment` to a variable's name or `file` to a path, or leave `secret` out")
        };
        match reference.map(|reference| reference.source.as_ref()) {
            None => Ok(Self::None),
            Some(None) => Err(empty()),
            Some(Some(Source::Environment(name) | Source::File(name))) if name.is_empty() => Err(empty()),
            Some(Some(Source::Environment(name))) => Ok(Self::Environment(name.clone())),
            Some(Some(Source::File(path))) => Ok(Self::File(path.into(), Mutex::default())),
        }
    }

    /// The secret as it is now; empty where the provider needs none.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`: the variable or the file is missing, empty, or holds what can be no secret.
    pub(crate) fn read(&self) -> Result<Secret, Fault> {
        self.read_at(Instant::now())
    }

    fn read_at(&self, now: Instant) -> Result<Secret, Fault> {
        match self {
            Self::None => Ok(Secret::default()),
            Self::Environment(name) => {
                let secret = Secret::from_env(name);
                if secret.is_empty() {
                    let message = format!("the gateway's environment variable {name} is not set or empty");
                    return Err(missing(message, "put the secret in it and start the gateway again"));
                }
                sendable(secret, &format!("the environment variable {name}"))
            }
            Self::File(path, kept) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(kept) = kept.as_ref().filter(|kept| now - kept.looked < FRESH) {
                    return Ok(kept.secret.clone());
                }
                let shown = path.display();
                let unreadable = |error: std::io::Error| {
                    let message = format!("the secret file {shown} cannot be read: {error}");
                    missing(message, "make it readable by the gateway, or correct the path")
                };
                let found = fs::metadata(path).map_err(unreadable)?;
                let changed = (found.modified().ok(), found.len());
                if let Some(kept) = kept
                    .as_mut()
                    .filter(|kept| kept.changed == changed && changed.0.is_some())
                {
                    kept.looked = now;
                    return Ok(kept.secret.clone());
                }
                if !found.is_file() || found.len() > LONGEST {
                    let message = format!("{shown} is no secret file: it is no file, or over {LONGEST} bytes");
                    return Err(missing(message, "write the secret alone into a file"));
                }
                let text = fs::read_to_string(path).map_err(unreadable)?;
                let text = text.trim_end_matches(['\n', '\r']);
                if text.is_empty() {
                    return Err(missing(
                        format!("the secret file {shown} is empty"),
                        "write the secret into it",
                    ));
                }
                let secret = sendable(Secret::new(text), &format!("the secret file {shown}"))?;
                *kept = Some(Kept {
                    looked: now,
                    changed,
                    secret: secret.clone(),
                });
                Ok(secret)
            }
        }
    }
}

/// A secret travels in a header: one line of visible ASCII. Anything else is another file, and none of it may leave.
fn sendable(secret: Secret, place: &str) -> Result<Secret, Fault> {
    let fine = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if secret.expose().is_some_and(fine) {
        return Ok(secret);
    }
    Err(missing(
        format!("{place} holds no secret that can be sent: blanks, line breaks or letters outside ASCII"),
        "keep the secret alone in it",
    ))
}

fn missing(message: String, mend: &str) -> Fault {
    Fault::precondition("PROVIDER_SECRET_MISSING", message)
        .field("provider.secret")
        .mend(mend)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of_file(path: &std::path::Path) -> SecretSource {
        let reference = SecretRef {
            source: Some(Source::File(path.display().to_string())),
        };
        SecretSource::new(Some(&reference)).unwrap()
    }

    #[test]
    fn a_secret_file_is_read_again_when_it_changes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "first-key\n").unwrap();
        let source = of_file(file.path());
        assert_eq!(source.read().unwrap().expose(), Some("first-key"));
        fs::write(file.path(), "the-second-key\n").unwrap();
        let later = Instant::now() + FRESH;
        assert_eq!(source.read_at(later).unwrap().expose(), Some("the-second-key"));
        assert!(!format!("{source:?}").contains("key\""), "{source:?}");
        assert!(!format!("{source:?}").contains("second-key"), "{source:?}");
    }

    #[test]
    fn a_secret_that_is_missing_is_named_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let fault = of_file(&folder.path().join("none")).read().unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("provider.secret"));
        assert!(fault.message.contains("none"), "{fault}");
        let reference = SecretRef {
            source: Some(Source::Environment("ISOMER_NO_SUCH_VARIABLE".into())),
        };
        let fault = SecretSource::new(Some(&reference)).unwrap().read().unwrap_err();
        assert_eq!(fault.code, tonic::Code::FailedPrecondition);
        assert!(fault.message.contains("ISOMER_NO_SUCH_VARIABLE"), "{fault}");
        assert!(SecretSource::new(Some(&SecretRef::default())).is_err());
        assert!(SecretSource::new(None).unwrap().read().unwrap().is_empty());
    }

    #[test]
    fn a_file_that_is_no_secret_is_not_sent_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "root:x:0:0\ndaemon:x:1:1\n").unwrap();
        let fault = of_file(file.path()).read().unwrap_err();
        assert!(!fault.to_string().contains("daemon"), "{fault}");
    }
}
