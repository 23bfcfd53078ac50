//! Judges: a language model rates what became of the texts, and how far an encoder moved them is
//! held against that.
//!
//! Rated are pairs of a text and what a transformation made of it, where the checks passed and
//! something changed: of each data set, transformation and seed at most so many, drawn by the run's
//! first seed and the text (`draw`). So the same texts are rated under every transformation, what a
//! later round of a sequential gate adds changes nothing that is there, and a second run asks for
//! the same ratings, which the transform service has kept.
//!
//! **Acceptance.** A rewrite whose similarity is rated at or above a threshold (3 of 5 unless
//! another is named; HTEB accepts from 3 on) is *accepted*. Every judged run also carries pairs
//! whose rating is known ([`ProbeKind`]); a judge that does not tell them apart accepts nothing
//! that counts.
//!
//! **Unit of observation: the text**, its seeds averaged first. Drift against ratings is Spearman's
//! rho over texts with a percentile bootstrap interval (HTEB, figure 3, which holds drift against
//! the mean rating of people).

mod draw;
mod probes;
mod relate;
mod spec;

pub(crate) use draw::draw;
pub(crate) use probes::results;
pub use probes::{LEAST_RIGHT, Probe, ProbeKind, ProbeResult, inseparable, probes};
pub use relate::{LEAST_TEXTS, Relation, relate};
pub(crate) use spec::Judging;
pub use spec::{Judge, Scale, check_accept};
