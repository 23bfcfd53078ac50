//! Conversions between protos and the domain's judge.

use isomer_proto::{eval::v1 as proto, transform::v1::JudgeScale};
use isomer_service_kit::Fault;

use crate::{
    judging::{Judge, Scale, check_accept},
    run::judge_scale,
};

/// Reads a request's judge.
pub(super) fn judge(judge: Option<proto::Judge>) -> Result<Judge, Fault> {
    let Some(judge) = judge else {
        return Ok(Judge::default());
    };
    let mut scales = Vec::with_capacity(judge.scales.len());
    for (i, scale) in judge.scales.iter().enumerate() {
        scales.push(match JudgeScale::try_from(*scale) {
            Ok(JudgeScale::Similarity) => Scale::Similarity,
            Ok(JudgeScale::Quality) => Scale::Quality,
            Ok(JudgeScale::Fluency) => Scale::Fluency,
            Ok(JudgeScale::Unspecified) | Err(_) => {
                let field = format!("spec.judge.scales[{i}]");
                return Err(
                    Fault::invalid(field, "names no scale").hint("give 1 (similarity), 2 (quality) or 3 (fluency)")
                );
            }
        });
    }
    if let Some(accept) = judge.accept {
        check_accept(accept).map_err(|message| Fault::invalid("spec.judge.accept", message))?;
    }
    Ok(Judge {
        generator: Some(judge.generator_id).filter(|id| !id.is_empty()),
        sample: judge.sample,
        scales,
        accept: judge.accept,
    })
}

/// A request's judge as a proto.
pub(super) fn proto(judge: &Judge) -> Option<proto::Judge> {
    (*judge != Judge::default()).then(|| proto::Judge {
        generator_id: judge.generator.clone().unwrap_or_default(),
        sample: judge.sample,
        accept: judge.accept,
        scales: judge.scales.iter().map(|scale| judge_scale(*scale).into()).collect(),
    })
}
