//! Conversions between protos and the domain's judge.

use isomer_proto::{ProtoEnum, eval::v1 as proto, transform::v1::JudgeScale};
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
    let scale = |(i, number): (usize, &i32)| {
        let scale = JudgeScale::try_from(*number).ok();
        let found = scale.and_then(|scale| scale.among(Scale::ALL, Scale::name));
        found.ok_or_else(|| {
            Fault::invalid(format!("spec.judge.scales[{i}]"), "names no scale")
                .hint("give 1 (similarity), 2 (quality) or 3 (fluency)")
        })
    };
    let scales = judge.scales.iter().enumerate().map(scale).collect::<Result<_, _>>()?;
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

pub(super) fn proto(judge: &Judge) -> Option<proto::Judge> {
    (*judge != Judge::default()).then(|| proto::Judge {
        generator_id: judge.generator.clone().unwrap_or_default(),
        sample: judge.sample,
        accept: judge.accept,
        scales: judge.scales.iter().map(|scale| judge_scale(*scale).into()).collect(),
    })
}
