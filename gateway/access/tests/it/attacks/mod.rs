//! Attacks on authentication: forged and borrowed tokens.

pub(crate) mod identity_provider;
mod tokens;
