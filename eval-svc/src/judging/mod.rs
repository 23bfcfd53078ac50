//! Judges: a language model rates what became of the texts, and how far an encoder moved them is held against that.
//!
//! Rated are pairs of a text and what a transformation made of it, where the checks passed and something changed: of each
//! data set, transformation and seed at most so many, drawn by the run's first seed and the text (`draw`). So the same
//! texts are rated under every transformation, what a later round of a sequential gate adds changes nothing that is there,
//! and a second run asks for the same ratings, which the transform service has kept.
//!
//! **Unit of observation: the text**, its seeds averaged first. Drift against ratings is Spearman's rho over texts with a
//! percentile bootstrap interval (HTEB, figure 3, which holds drift against the mean rating of people).

mod draw;
mod relate;
mod spec;

pub(crate) use draw::draw;
pub use relate::{LEAST_TEXTS, Relation, relate};
pub(crate) use spec::Judging;
pub use spec::{Judge, Scale};
