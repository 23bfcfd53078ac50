//! Settings of the judge: its model, scales, sample and threshold.

pub use isomer_report::terms::Scale;
use serde::{Deserialize, Serialize};

/// The judge that rates transformed texts. A missing setting is taken from the next source:
/// request, suite, default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Judge {
    /// Generator id of the judge; [`Judge::NOBODY`]: no judge, even if the suite names one.
    pub generator: Option<String>,
    /// Maximum number of texts of each data set, transformation and seed; 0: all; default
    /// [`Judge::SAMPLE`].
    pub sample: Option<u32>,
    /// The scales; empty: similarity.
    pub scales: Vec<Scale>,
    /// Minimum similarity of an accepted rewrite; default [`Judge::ACCEPT`].
    pub accept: Option<f64>,
}

/// A judge with all settings resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JudgeSettings {
    /// Generator id.
    pub(crate) generator: String,
    /// Maximum number of texts of each data set, transformation and seed; 0: all.
    pub(crate) sample: u32,
    /// The scales: distinct, in a fixed order; at least one.
    pub(crate) scales: Vec<Scale>,
    /// Minimum similarity of an accepted rewrite.
    pub(crate) accept: f64,
}

/// Checks that a threshold of similarity is valid.
///
/// # Errors
/// The accepted values.
pub fn check_accept(accept: f64) -> Result<(), String> {
    let (low, high) = Scale::Similarity.range();
    if accept > f64::from(low) && accept <= f64::from(high) {
        Ok(())
    } else {
        Err(format!(
            "is {accept}, should be a similarity above {low} and at most {high}"
        ))
    }
}

impl Judge {
    /// Default number of texts rated per data set, transformation and seed.
    pub const SAMPLE: u32 = 50;
    /// Default minimum similarity, 0 to 5, of an accepted rewrite (HTEB's threshold for human
    /// ratings).
    pub const ACCEPT: f64 = Scale::ACCEPT;
    /// The generator id that means no judge.
    pub const NOBODY: &'static str = "none";

    /// This judge, overridden by another's settings.
    #[must_use]
    pub fn overlaid(mut self, over: &Self) -> Self {
        self.generator = over.generator.clone().or(self.generator);
        self.sample = over.sample.or(self.sample);
        self.accept = over.accept.or(self.accept);
        if !over.scales.is_empty() {
            self.scales.clone_from(&over.scales);
        }
        self
    }

    /// The settings with the defaults filled in; `None` without a judge.
    ///
    /// # Errors
    /// If a setting is given but no judge is named.
    pub(crate) fn settled(&self) -> Result<Option<JudgeSettings>, String> {
        let Some(generator) = &self.generator else {
            let set = match (self.sample, self.scales.first(), self.accept) {
                (None, None, None) => return Ok(None),
                (Some(sample), _, _) => format!("a sample of {sample} texts"),
                (None, Some(scale), _) => format!("the scale `{}`", scale.name()),
                (None, None, Some(accept)) => format!("a threshold of {accept}"),
            };
            return Err(format!("{set} is given, but no judge"));
        };
        if generator == Self::NOBODY {
            return Ok(None);
        }
        let mut scales = self.scales.clone();
        scales.sort_unstable();
        scales.dedup();
        if scales.is_empty() {
            scales.push(Scale::Similarity);
        }
        Ok(Some(JudgeSettings {
            generator: generator.clone(),
            sample: self.sample.unwrap_or(Self::SAMPLE),
            scales,
            accept: self.accept.unwrap_or(Self::ACCEPT),
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn judge(generator: Option<&str>, sample: Option<u32>, scales: &[Scale]) -> Judge {
        Judge {
            generator: generator.map(str::to_owned),
            sample,
            scales: scales.to_vec(),
            accept: None,
        }
    }

    #[test]
    fn a_request_is_laid_over_the_suite_and_the_rest_is_default() {
        let suite = judge(Some("local:a"), Some(7), &[]);
        let over = judge(None, None, &[Scale::Fluency, Scale::Quality, Scale::Fluency]);
        let settled = suite.clone().overlaid(&over).settled().unwrap().unwrap();
        assert_eq!((settled.generator.as_str(), settled.sample), ("local:a", 7));
        assert_eq!(settled.scales, [Scale::Quality, Scale::Fluency]);
        let plain = judge(Some("local:b"), None, &[]).settled().unwrap().unwrap();
        assert_eq!((plain.sample, plain.scales), (Judge::SAMPLE, vec![Scale::Similarity]));
        let nobody = judge(Some(Judge::NOBODY), None, &[]);
        assert_eq!(suite.overlaid(&nobody).settled(), Ok(None));
        assert_eq!(Judge::default().settled(), Ok(None));
    }

    #[test]
    fn settings_of_a_judge_that_nobody_names_are_a_mistake() {
        let complaint = judge(None, Some(20), &[]).settled().unwrap_err();
        assert!(complaint.contains("a sample of 20 texts"), "{complaint}");
        assert!(
            judge(None, None, &[Scale::Quality])
                .settled()
                .unwrap_err()
                .contains("`quality`")
        );
    }
}
