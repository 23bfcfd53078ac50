//! The verdict of a version's check, and its tags.

use std::fmt;

use isomer_proto::{ProtoEnum, eval::v1::Verdict as GateVerdict};

/// The verdict of a version's check. Only [`Verdict::Pass`] gets the alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every rule is kept.
    Pass,
    /// A rule is broken.
    Fail,
    /// The data permit neither verdict.
    Undecided,
    /// The scores cannot answer the question.
    Invalid,
    /// The version contains no encoder that can be checked.
    Unsupported,
    /// The version exceeds a bound.
    Refused,
    /// The check cannot be made, for a permanent reason.
    Error,
}

isomer_names::names!(Verdict {
    Pass = "pass", Fail = "fail", Undecided = "undecided", Invalid = "invalid", Unsupported = "unsupported",
    Refused = "refused", Error = "error"
});

impl Verdict {
    /// The verdict of a gate. A gate without rules, or with a verdict unknown to this version, has
    /// passed nothing.
    pub fn of_gate(verdict: GateVerdict) -> (Self, Option<&'static str>) {
        match Self::named(verdict.name()) {
            Some(own) => (own, None),
            None => (
                Self::Error,
                Some("the suite has no rule, so nothing was decided: give one with --rule"),
            ),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The tags of a version. All begin with `isomer.`, and webhooks about them are ignored.
pub mod tag {
    /// The verdict; written after the others, so that they exist when it does.
    pub const VERDICT: &str = "isomer.verdict";
    /// The reason, in words.
    pub const REASON: &str = "isomer.reason";
    /// Id of the run of Isomer.
    pub const RUN: &str = "isomer.run";
    /// Id of the run of MLflow that has metrics and report.
    pub const RECORD: &str = "isomer.record";
    /// Name and digest of the suite.
    pub const SUITE: &str = "isomer.suite";
    /// The version with which it was compared, or `none`.
    pub const BASELINE: &str = "isomer.baseline";
    /// sha256 over the checked files.
    pub const FILES: &str = "isomer.files_sha256";
    /// sha256 over paths and sizes of all files of the version; written after the verdict.
    pub const LISTING: &str = "isomer.listing_sha256";
    /// sha256 of the weights.
    pub const WEIGHTS: &str = "isomer.weights_sha256";
    /// sha256 of `report.json`.
    pub const REPORT: &str = "isomer.report_sha256";
    pub const VERSION: &str = "isomer.version";
    /// `due` from before a version gets the alias of passed versions until it is the champion, if
    /// versions that pass are promoted.
    pub const PROMOTION: &str = "isomer.promotion";
    /// The value of [`PROMOTION`].
    pub const DUE: &str = "due";

    /// All tags except the verdict.
    pub const DETAILS: [&str; 11] = [
        REASON, RUN, RECORD, SUITE, BASELINE, FILES, LISTING, WEIGHTS, REPORT, VERSION, PROMOTION,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_passed_gate_passes() {
        for verdict in [
            GateVerdict::Fail,
            GateVerdict::Undecided,
            GateVerdict::Invalid,
            GateVerdict::Unspecified,
        ] {
            assert_ne!(Verdict::of_gate(verdict).0, Verdict::Pass, "{verdict:?}");
        }
        assert_eq!(Verdict::of_gate(GateVerdict::Pass), (Verdict::Pass, None));
    }

    #[test]
    fn every_tag_is_an_own_one() {
        let mut all = tag::DETAILS.iter().chain([&tag::VERDICT]);
        assert!(all.all(|key| key.starts_with(crate::evidence::PREFIX)));
    }
}
