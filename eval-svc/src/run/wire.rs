//! Conversions to and from the transform service's messages.

use isomer_proto::{ProtoEnum, transform::v1 as proto};
use isomer_transformations::wire;

use crate::{judging::Scale, profile::Axis, separation::Kind as Change, suite::Transformation};

/// A suite's transformation as a message. `rank` is the seed's position among the suite's seeds, so
/// that draws made once per seed are without replacement.
pub(crate) fn transformation_of_seed(transformation: &Transformation, rank: usize) -> proto::Transformation {
    if transformation.draws_per_seed() {
        return wire::message(&transformation.clone().with("seed_rank", rank));
    }
    wire::message(transformation)
}

/// The transformation that makes copies of a kind of change of meaning; `None` for the kinds that
/// rules make here.
pub(crate) fn change_of_meaning(kind: Change) -> Option<proto::Transformation> {
    match kind {
        Change::MultiSwap | Change::Distractors => Some(proto::Transformation::named(kind.name())),
        Change::Negation | Change::Number | Change::Antonym | Change::Entity => None,
    }
}

/// The catalogue's axis; `None` for axes on which no dataset can be scored.
pub(crate) fn axis(axis: proto::Axis) -> Option<Axis> {
    axis.among(Axis::SCORED, Axis::name)
}

/// A scale as a message.
pub(crate) fn judge_scale(scale: Scale) -> proto::JudgeScale {
    proto::JudgeScale::named(scale.name()).unwrap_or_default()
}
