//! A forecast as a proto message.

use isomer_proto::eval::v1 as proto;

use super::duration;
use crate::run::Forecast;

pub(super) fn plan(forecast: Forecast) -> proto::RunPlan {
    proto::RunPlan {
        generation_time: forecast.seconds().and_then(duration),
        measured_texts: forecast.measured.as_ref().map_or(0, |measured| measured.texts),
        generations: forecast
            .generations
            .into_iter()
            .map(|(label, estimate)| proto::PlannedGeneration {
                label,
                estimate: Some(estimate),
            })
            .collect(),
        total: Some(forecast.total),
        encodings: forecast
            .encodings
            .into_iter()
            .map(|(encoder_id, most_texts)| proto::PlannedEncoding { encoder_id, most_texts })
            .collect(),
        most_ratings: forecast.most_ratings,
        refusal: forecast.refusal,
        rules: forecast.rules,
        design: forecast.design,
    }
}
