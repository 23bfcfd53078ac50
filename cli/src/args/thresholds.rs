//! `isomer thresholds`

use std::path::PathBuf;

use clap::Args;
use isomer_eval::report::thresholds::ThresholdTarget;

/// `isomer thresholds`
#[derive(Args, Debug)]
#[command(
    after_help = "RUN and OLD are each a report's folder, its report.json, or the id of a run. The items behind a run's scores are\nread from items.json beside the report (`isomer check --items`), else from where the run is kept: this machine,\nor --server. A service loads thresholds.json, and refuses scores of another vector_space. Examples:\n  isomer thresholds isomer-report --target precision=0.95\n  isomer thresholds 01JD9QF0ZC7T --server 127.0.0.1:50051 --target f1 --dataset SprintDuplicateQuestions\n  isomer thresholds candidate --from released --target fpr=0.01      and a map from the released encoder's scores"
)]
pub(crate) struct ThresholdsArgs {
    /// The check: a report's folder or report.json, or the id of a run.
    #[arg(value_name = "RUN")]
    pub(crate) check: String,
    /// Encoder of RUN [default: the only one].
    #[arg(long, env = "ISOMER_ENCODER", value_name = "ID")]
    pub(crate) encoder: Option<String>,
    /// Goal of a threshold on the original texts: `precision=P` or `fpr=R` (the lowest threshold
    /// that reaches it), or `f1` (the highest F1).
    #[arg(long, env = "ISOMER_TARGET", value_name = "TARGET", default_value = "precision=0.95", value_parser = target)]
    pub(crate) target: ThresholdTarget,
    /// Only this data set; repeat or separate by commas [default: all of the run].
    #[arg(
        long = "dataset",
        env = "ISOMER_ONLY_DATASETS",
        value_name = "NAME,…",
        value_delimiter = ','
    )]
    pub(crate) datasets: Vec<String>,
    /// A search returns at most K documents of a query: a document is accepted if it is among them
    /// and its similarity is at least the threshold. At most 20.
    #[arg(long, env = "ISOMER_THRESHOLDS_K", value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) k: u32,
    /// Gold score from which a graded pair (STS) is positive. Without it graded pairs have no
    /// threshold.
    #[arg(long, env = "ISOMER_STS_CUT", value_name = "GOLD")]
    pub(crate) sts_cut: Option<f64>,
    /// An earlier check, from whose encoder's scores a monotone map to RUN's is fitted. It may be
    /// the same check, for two of its encoders.
    #[arg(long, env = "ISOMER_FROM", value_name = "OLD")]
    pub(crate) from: Option<String>,
    /// Encoder of OLD [default: the only one].
    #[arg(long, env = "ISOMER_FROM_ENCODER", value_name = "ID", requires = "from")]
    pub(crate) from_encoder: Option<String>,
    /// Where the two checks have other data sets, texts, transformations or seeds, map what they
    /// share, and list the rest as not mapped.
    #[arg(long, env = "ISOMER_THRESHOLDS_SHARED_ONLY", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) shared: bool,
    /// Folder for thresholds.json and thresholds.md.
    #[arg(
        long,
        env = "ISOMER_THRESHOLDS_OUT",
        default_value = "isomer-thresholds",
        value_name = "DIR"
    )]
    pub(crate) out: PathBuf,
}

fn target(text: &str) -> Result<ThresholdTarget, String> {
    let number = |value: &str| {
        let value: f64 = value.parse().map_err(|_| format!("{value} is not a number"))?;
        if value > 0.0 && value < 1.0 {
            Ok(value)
        } else {
            Err(format!("{value} is not between 0 and 1, both exclusive"))
        }
    };
    match text.split_once('=') {
        Some(("precision", value)) => Ok(ThresholdTarget::Precision { at: number(value)? }),
        Some(("fpr", value)) => Ok(ThresholdTarget::Fpr { at: number(value)? }),
        None if text == "f1" => Ok(ThresholdTarget::F1),
        _ => Err("give precision=P, fpr=R or f1, e.g. precision=0.95".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_others_are_refused_with_an_example() {
        assert_eq!(target("precision=0.9"), Ok(ThresholdTarget::Precision { at: 0.9 }));
        assert_eq!(target("fpr=0.01"), Ok(ThresholdTarget::Fpr { at: 0.01 }));
        assert_eq!(target("f1"), Ok(ThresholdTarget::F1));
        for text in [
            "precision",
            "recall=0.5",
            "precision=1",
            "fpr=0",
            "precision=x",
            "f1=0.5",
            "precision=NaN",
        ] {
            assert!(target(text).is_err(), "{text}");
        }
    }
}
