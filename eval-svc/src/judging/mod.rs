//! Judges: a language model rates the transformed texts, and an encoder's drift is compared with
//! the ratings.
//!
//! The rated pairs consist of a text and its transformed text, if the checks passed and the text
//! changed. Their number per data set, transformation and seed is limited; they are drawn by the
//! run's first seed and the text (`draw`). Thus the same texts are rated under every
//! transformation, a later round of a sequential gate does not change earlier draws, and a second
//! run requests the same ratings, which the transform service has cached.
//!
//! **Acceptance.** A rewrite whose similarity is rated at or above a threshold (3 of 5 by default,
//! as in HTEB) is *accepted*. Every judged run also rates pairs with a known rating
//! ([`ProbeKind`]). If a judge does not distinguish them, its ratings are not used.
//!
//! **Unit of observation: the text**, averaged over its seeds first. Drift against ratings is
//! Spearman's rho over texts with a percentile bootstrap interval (HTEB, figure 3, which compares
//! drift with the mean human rating).

mod draw;
mod probes;
mod spec;

pub(crate) use draw::draw;
pub use isomer_report::{LEAST_TEXTS, Relation, relate};
pub use probes::{LEAST_RIGHT, Probe, ProbeKind, ProbeResult, inseparable, probes};
pub(crate) use probes::{ProbeScore, results};
pub(crate) use spec::JudgeSettings;
pub use spec::{Judge, Scale, check_accept};
