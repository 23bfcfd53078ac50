//! The top of a report: the verdict and its meaning, in words that require no knowledge of
//! statistics.

use minijinja::{Value, context};

use super::{GateReport, GateVerdict, JudgeReport, Report, format::percent};
use crate::terms::OnUndecided;

/// The consequence of the gate's verdict for a decision, in one or two sentences.
pub(super) fn meaning(gate: &GateReport) -> &'static str {
    match (gate.verdict, gate.undecided) {
        (GateVerdict::Pass, _) => "Every encoder that was judged stays within every limit that was set.",
        (GateVerdict::Fail, _) => "At least one encoder breaks a limit that was set.",
        (GateVerdict::Invalid, _) => {
            "These numbers cannot answer the question, so nothing follows from them about the encoders. Correct what is named here and run \
             again."
        }
        (GateVerdict::Undecided, OnUndecided::Warn) => {
            "There is not enough data to say whether the limits are kept. That is not a pass; this suite lets it through with a warning."
        }
        (GateVerdict::Undecided, OnUndecided::Block | OnUndecided::Fail) => {
            "There is not enough data to say whether the limits are kept. That is not a pass. The table of the rules says how much more \
             it takes."
        }
    }
}

/// The content of the first section of the page.
pub(super) fn view(report: &Report) -> Value {
    let gate = report.gate.as_ref().map(|gate| {
        context! {
            verdict => gate.verdict.name(),
            mark => gate.verdict.mark(),
            sentence => gate.sentence(),
            meaning => meaning(gate),
            rounds => gate.rounds(),
        }
    });
    let judge = report.judge.as_ref().and_then(judged);
    context! { gate, judge }
}

/// The number of rewrites that the judge accepts, for a tile. `None` if it rated no similarity.
fn judged(judge: &JudgeReport) -> Option<Value> {
    let threshold = judge.threshold_text()?;
    if judge.inseparable.is_some() {
        return Some(context! {
            share => "–",
            told => format!("not known: {} does not tell pairs of known rating apart", judge.id),
        });
    }
    let (accepted, rated) = judge.accepted()?;
    let share = (rated > 0).then(|| percent(accepted as f64 / rated as f64));
    Some(context! {
        share => share.unwrap_or_else(|| "–".to_owned()),
        told => format!("{accepted} of {rated} rated rewrites have a similarity of at least {threshold}, according to {}", judge.id),
    })
}
