//! Names of artifacts: `registry.example.com/encoders/enc:1`, `…/enc@sha256:…`. Pure.

use std::{fmt, net::IpAddr};

use crate::error::{OciError, Result};

const ALGORITHM: &str = "sha256:";

/// An artifact of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Host of the registry, with the port if there is one.
    pub host: String,
    /// The repository, e.g. `encoders/enc`.
    pub repository: String,
    /// A tag, or a digest (`sha256:…`).
    pub version: String,
}

impl Reference {
    /// Parses a reference. The registry must be named, because no default exists.
    ///
    /// # Errors
    /// [`OciError::Reference`].
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |why| OciError::Reference {
            text: text.chars().take(200).collect(),
            why,
        };
        let text = text.strip_prefix("oci://").unwrap_or(text);
        let (host, rest) = text
            .split_once('/')
            .filter(|(host, _)| host.contains(['.', ':']) || *host == "localhost")
            .ok_or_else(|| refused("the registry is missing"))?;
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        if !host.chars().all(is_host) {
            return Err(refused("the registry is not a host"));
        }
        let (named, digest) = match rest.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (rest, None),
        };
        let (repository, tag) = match named.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (named, None),
        };
        if !repository.split('/').all(is_part) || repository.len() > 255 {
            return Err(refused("the repository has to be lower-case names, apart by `/`"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(refused("the tag has to be up to 128 letters, digits, `_`, `-` and `.`"));
        }
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(refused("the digest has to be `sha256:` and 64 hexadecimal digits"));
        }
        // A digest has precedence over the tag beside it.
        let version = digest.or(tag).ok_or_else(|| refused("a tag or a digest is missing"))?;
        Ok(Self {
            host: host.to_owned(),
            repository: repository.to_owned(),
            version: version.to_owned(),
        })
    }

    /// Whether the host is this machine, where registries are served without TLS.
    pub fn is_loopback(&self) -> bool {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => &self.host,
        };
        let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        host == "localhost" || address.is_some_and(|address| address.is_loopback())
    }

    /// Host and repository.
    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.repository)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let apart = if is_digest(&self.version) { '@' } else { ':' };
        write!(f, "{}{apart}{}", self.name(), self.version)
    }
}

fn is_part(part: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    part.chars().all(inside) && end(part.chars().next()) && end(part.chars().last()) && !part.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=128).contains(&tag.len()) && tag.chars().all(inside) && !tag.starts_with(['.', '-'])
}

/// Whether a text is a digest of the only supported algorithm.
pub fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix(ALGORITHM);
    hex.is_some_and(|hex| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn references_are_read_in_all_their_forms() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        for (text, host, repository, version) in [
            ("registry.example.com/enc:1", "registry.example.com", "enc", "1"),
            ("localhost:5000/a/b/c-d:v1.2_x", "localhost:5000", "a/b/c-d", "v1.2_x"),
            (&format!("[::1]:5000/enc@{digest}"), "[::1]:5000", "enc", &digest),
            (&format!("oci://r.io/enc:1@{digest}"), "r.io", "enc", &digest),
        ] {
            let read = Reference::parse(text).unwrap();
            assert_eq!((read.host.as_str(), read.repository.as_str()), (host, repository));
            assert_eq!(read.version, version, "{text}");
            assert_eq!(Reference::parse(&read.to_string()).unwrap(), read);
        }
    }

    #[test]
    fn what_names_no_artifact_is_refused_with_the_reason() {
        for (text, why) in [
            ("enc:1", "registry is missing"),
            ("library/enc:1", "registry is missing"),
            ("r.io/enc", "tag or a digest"),
            ("r.io/Enc:1", "lower-case"),
            ("r.io/../enc:1", "lower-case"),
            ("r.io//enc:1", "lower-case"),
            ("r.io/enc:-1", "the tag"),
            ("r.io/enc@sha256:12", "the digest"),
            ("user@r.io/enc:1", "not a host"),
            ("r.io?x/enc:1", "not a host"),
        ] {
            let refusal = Reference::parse(text).unwrap_err().to_string();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let is = |host: &str| Reference::parse(&format!("{host}/e:1")).unwrap().is_loopback();
        assert!(is("localhost") && is("localhost:5000") && is("127.0.0.1:5000") && is("[::1]:5000"));
        assert!(!is("localhost.example.com") && !is("10.0.0.1:5000") && !is("127.example.com:80"));
    }
}
