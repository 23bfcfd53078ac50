//! Configuration of access.

use std::net::SocketAddr;

use isomer_service_kit::config::{ConfigError, Validate};
use serde::{Deserialize, Serialize};

use crate::jwt::JwtConfig;

/// Whether callers must say who they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Open on a loopback address, required on any other.
    #[default]
    Auto,
    /// Required everywhere.
    Required,
    /// Anyone who reaches the port may do everything. On an address that others reach this must be
    /// meant.
    Open,
}

/// Who may look at what tells about the server itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requirement {
    /// Anyone.
    Open,
    /// Any key or token that is valid, whatever its scopes.
    #[default]
    Identity,
    /// The scope `admin`.
    Admin,
}

/// Who may ask for what: the section `access`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// Whether callers must say who they are: `auto` (open on loopback, required elsewhere),
    /// `required`, `open`.
    pub mode: Mode,
    /// Who may read `/metrics` where access is required: `open`, `identity`, `admin`.
    pub metrics: Requirement,
    /// Who may ask for server reflection where access is required: `open`, `identity`, `admin`.
    pub reflection: Requirement,
    /// Tokens of an identity provider (JWT), beside the keys; absent: keys only.
    pub jwt: Option<JwtConfig>,
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
    /// Whether callers of a server at `listen` must say who they are.
    pub fn required_at(&self, listen: SocketAddr) -> bool {
        match self.mode {
            Mode::Auto => !listen.ip().to_canonical().is_loopback(),
            Mode::Required => true,
            Mode::Open => false,
        }
    }
}
