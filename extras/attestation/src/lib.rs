//! Signed statements of the results of a check, so that a deployment can refuse an encoder without
//! a passing check.
//!
//! A statement is in-toto's, with the predicate `test-result`; it names the weights of one encoder
//! and the bytes of the report ([`statement`]). It is signed as a DSSE envelope ([`envelope`]),
//! which cosign can also verify, alone or in a Sigstore bundle.
//!
//! **A statement follows from its report.** [`verify`] derives it again from the report's bytes, so
//! a statement that was signed by mistake is refused like one that was changed.
//!
//! Sources: in-toto attestation framework v1 (statement, predicate `test-result` v0.1), DSSE v1.

pub mod envelope;
mod key;
pub mod statement;
mod verify;

pub use envelope::{BUNDLE_TYPE, Envelope};
pub use key::{KeyError, PrivateKey, PublicKey};
pub use statement::{Outcome, PREDICATE_TYPE, Resource, Statement, StatementError, statements};
pub use verify::{VerifiedAttestation, VerifyError, verify};
