//! Attacks on authentication and accounts: forged and borrowed tokens, absurd numbers.

pub(crate) mod identity_provider;
mod numbers;
mod tokens;
