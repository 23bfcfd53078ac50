//! Conversions to and from the transform service's messages.

use isomer_proto::{
    ProtoEnum,
    transform::v1::{self as proto, transformation::Kind},
};

use crate::{judging::Scale, profile::Axis, separation::Kind as Change, suite::Transformation};

/// A suite's transformation as a message. `place` is the seed's position among the suite's seeds,
/// so that what is drawn once per seed is drawn without replacement.
pub(super) fn transformation_of_seed(transformation: &Transformation, place: usize) -> proto::Transformation {
    let mut message = self::transformation(transformation);
    if let Some(Kind::Translation(translation)) = &mut message.kind
        && transformation.draws_per_seed()
    {
        translation.seed_rank = Some(u32::try_from(place).unwrap_or(u32::MAX));
    }
    message
}

/// A suite's transformation as a message.
pub(super) fn transformation(transformation: &Transformation) -> proto::Transformation {
    let kind = match transformation.clone() {
        Transformation::Paraphrase => Kind::Paraphrase(proto::Paraphrase {}),
        Transformation::Backtranslation { pivot_language } => {
            Kind::Backtranslation(proto::Backtranslation { pivot_language })
        }
        Transformation::StyleChange => Kind::StyleChange(proto::StyleChange {}),
        Transformation::Expansion => Kind::Expansion(proto::Expansion {}),
        Transformation::Summarisation => Kind::Summarisation(proto::Summarisation {}),
        Transformation::SummarisedExpansion => Kind::SummarisedExpansion(proto::SummarisedExpansion {}),
        Transformation::Translation { target_language, .. } => Kind::Translation(proto::Translation {
            target_language,
            seed_rank: None,
        }),
        Transformation::CrossTranslation { target_languages } => {
            Kind::CrossTranslation(proto::CrossTranslation { target_languages })
        }
        Transformation::Keywords => Kind::Keywords(proto::Keywords {}),
        Transformation::RandomKeywords { keep_ratio } => Kind::RandomKeywords(proto::RandomKeywords { keep_ratio }),
        Transformation::StopwordRemoval => Kind::StopwordRemoval(proto::StopwordRemoval {}),
        Transformation::Noise { channel, dose } => Kind::Noise(proto::Noise {
            channel: channel.unwrap_or_default(),
            dose,
        }),
        // The message has its prompt in another field: see `Transformation::prompts`.
        Transformation::Worded { of, .. } => return self::transformation(&of),
    };
    proto::Transformation { kind: Some(kind) }
}

/// The transformation that makes copies of a kind of change of meaning; `None` for the kinds that
/// rules make here.
pub(super) fn change_of_meaning(kind: Change) -> Option<proto::Transformation> {
    let kind = match kind {
        Change::MultiSwap => Kind::MultiSwap(proto::MultiSwap::default()),
        Change::Distractors => Kind::Distractors(proto::Distractors::default()),
        Change::Negation | Change::Number | Change::Antonym | Change::Entity => return None,
    };
    Some(proto::Transformation { kind: Some(kind) })
}

/// The catalogue's axis; `None` for axes that no dataset can be scored on.
pub(super) fn axis(axis: proto::Axis) -> Option<Axis> {
    axis.among(Axis::ALL, Axis::name)
}

/// A scale as a message.
pub(crate) fn judge_scale(scale: Scale) -> proto::JudgeScale {
    proto::JudgeScale::named(scale.name()).unwrap_or_default()
}
