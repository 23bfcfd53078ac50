//! A forecast as a proto message.

use isomer_proto::eval::v1 as proto;

use super::duration;
use crate::run::{Design, DesignedDataset, Forecast, RuleChances};

/// The plan of a run.
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
        rules: forecast.rules.into_iter().map(rule).collect(),
        design: forecast.design.map(design),
    }
}

fn rule(rule: RuleChances) -> proto::PlannedRule {
    proto::PlannedRule {
        title: rule.title,
        limit: rule.limit,
        pass_without_drop: rule.pass_without_drop,
        pass_at_half: rule.pass_at_half,
        fail_at_twice: rule.fail_at_twice,
    }
}

fn design(design: Design) -> proto::PlannedDesign {
    let dataset = |one: DesignedDataset| proto::PlannedDataset {
        name: one.name,
        items: one.items as u64,
        available_items: one.available as u64,
    };
    proto::PlannedDesign {
        total_items: design.datasets.iter().map(|one| one.items as u64).sum(),
        datasets: design.datasets.into_iter().map(dataset).collect(),
        rewrites: design.rewrites as u64,
        pass_without_drop: design.pass_without_drop,
        reached: design.reached,
    }
}
