//! Signed statements of what a check came to, so that whoever deploys an encoder can refuse one
//! that has no passing check.
//!
//! A statement is in-toto's, with the predicate `test-result`; it names the weights of one encoder
//! and the bytes of the report ([`statement`]). It is signed as a DSSE envelope ([`envelope`]),
//! which cosign verifies too, alone or in a Sigstore bundle.
//!
//! **What a statement says follows from its report.** [`verify`] makes it again from the report's
//! bytes, so a statement that was signed by mistake is refused as one that was changed.
//!
//! Sources: in-toto attestation framework v1 (statement, predicate `test-result` v0.1), DSSE v1.

pub mod envelope;
mod key;
pub mod statement;
mod verify;

pub use envelope::{BUNDLE_TYPE, Envelope};
pub use key::{KeyError, PrivateKey, PublicKey};
pub use statement::{Outcome, PREDICATE_TYPE, Resource, Statement, StatementError, statements};
pub use verify::{Verified, VerifyError, verify};
