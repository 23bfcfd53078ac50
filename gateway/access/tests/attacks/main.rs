//! What an attacker tries at the door: forged and borrowed tokens.

mod identity_provider;
mod tokens;
