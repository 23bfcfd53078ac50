//! Configuration of access.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use isomer_service_kit::config::{ConfigError, Validate};
use serde::{Deserialize, Serialize};

use crate::{HeadFile, jwt::JwtConfig};

/// Whether callers must authenticate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Open on a loopback address, required on any other.
    #[default]
    Auto,
    /// Required everywhere.
    Required,
    /// Anyone who can reach the port may do everything. On an address that can be reached from
    /// elsewhere, this must be intended.
    Open,
}

/// Identity required to read information about the server itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requirement {
    /// Anyone.
    Open,
    /// Any valid key or token, whatever its scopes.
    #[default]
    Identity,
    /// The scope `admin`.
    Admin,
}

/// Permissions and budgets of callers: the section `access`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// Whether callers must authenticate: `auto` (open on loopback, required elsewhere),
    /// `required`, `open`.
    pub mode: Mode,
    /// Identity required to read `/metrics` where access is required: `open`, `identity`, `admin`.
    pub metrics: Requirement,
    /// Identity required to use server reflection where access is required: `open`, `identity`,
    /// `admin`.
    pub reflection: Requirement,
    /// Tokens of an identity provider (JWT), in addition to keys; absent: keys only.
    pub jwt: Option<JwtConfig>,
    /// Whether callers share what the caches hold: generated texts, vectors, scores. By default
    /// each key, and each subject of a token, is served only what it has caused itself. Sharing
    /// saves calls and computation, but the time, the price and the counts of an answer show a
    /// caller whether the same text was requested before.
    pub share_caches: bool,
    /// File that holds the newest event of the audit log, signed, so that a database that lost
    /// events is noticed; absent: `audit-head.json` in the home folder. Preferably not on the disk
    /// of the database.
    pub audit_head: Option<PathBuf>,
}

impl Validate for AccessConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        match &self.jwt {
            Some(jwt) => jwt.validate().map_err(|error| error.within("jwt")),
            None => Ok(()),
        }
    }
}

impl AccessConfig {
    /// The configuration for a process with this home folder.
    #[must_use]
    pub fn at_home(self, home: &Path) -> Self {
        let audit_head = self.audit_head.unwrap_or_else(|| home.join("audit-head.json"));
        Self {
            audit_head: Some(audit_head),
            ..self
        }
    }

    /// The file of the newest event of the audit log.
    pub fn head_file(&self) -> Option<HeadFile> {
        self.audit_head.clone().map(HeadFile::at)
    }

    /// Whether callers of a server at `listen` must authenticate.
    pub fn required_at(&self, listen: SocketAddr) -> bool {
        match self.mode {
            Mode::Auto => !listen.ip().to_canonical().is_loopback(),
            Mode::Required => true,
            Mode::Open => false,
        }
    }
}
