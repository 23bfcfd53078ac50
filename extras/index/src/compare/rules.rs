//! The gate of a comparison. Its rules test a limit against the values of single queries, with
//! bounds that hold whatever the distribution of these values, like the rules of a check on items.

use std::str::FromStr;

use isomer_config::key_values::KeyValues;
use isomer_stats::gate::{
    Limit, Verdict,
    bounded::Range,
    items::{Cluster, Evidence, Stratum, decide_items},
};

use super::{Comparison, PerQuery};
use crate::error::{IndexError, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelevanceMeasure {
    /// nDCG at k.
    Ndcg,
    /// Recall of relevant documents at k.
    Recall,
    /// Reciprocal rank at k.
    Mrr,
}

impl RelevanceMeasure {
    /// All measures, with their names.
    pub const ALL: [(&'static str, Self); 3] = [("ndcg", Self::Ndcg), ("recall", Self::Recall), ("mrr", Self::Mrr)];

    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, of)| *of == self);
        named.map_or("", |(name, _)| *name)
    }

    fn at(self) -> usize {
        Self::ALL.iter().position(|(_, of)| *of == self).unwrap_or_default()
    }
}

/// The measure that a rule limits, with its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RuleLimit {
    /// The second may be at most this many points below the first (non-inferiority).
    MaxDrop {
        /// Points, 0 to 100.
        points: f64,
        /// The measure.
        of: RelevanceMeasure,
    },
    /// At least this percentage of the first k documents is the same.
    MinOverlap(f64),
    /// Each index finds at least this percentage of the k documents of an exact search.
    MinIndexRecall(f64),
}

/// The limits by name. `max_drop` is the name that rules of a check have for a margin.
const LIMITS: [(&str, fn(f64, RelevanceMeasure) -> RuleLimit); 4] = [
    ("margin", |points, of| RuleLimit::MaxDrop { points, of }),
    ("max_drop", |points, of| RuleLimit::MaxDrop { points, of }),
    ("min_overlap", |percent, _| RuleLimit::MinOverlap(percent)),
    ("min_index_recall", |percent, _| RuleLimit::MinIndexRecall(percent)),
];
/// An example for messages about a rule.
const EXAMPLE: &str = "margin=2";

impl FromStr for RuleLimit {
    type Err = String;

    /// Reads `margin=2,of=ndcg`.
    fn from_str(text: &str) -> Result<Self, String> {
        let keys: Vec<&str> = LIMITS.iter().map(|(name, _)| *name).chain(["of"]).collect();
        let given = KeyValues::read(text, &keys, EXAMPLE)?;
        let (kind, value) = given.limit(&LIMITS, EXAMPLE)?;
        let of = given.choice(
            "of",
            "measure",
            RelevanceMeasure::ALL.map(|(_, of)| of),
            RelevanceMeasure::name,
        )?;
        let rule = kind(value, of.unwrap_or(RelevanceMeasure::Ndcg));
        if of.is_some() && !matches!(rule, Self::MaxDrop { .. }) {
            return Err("`of` names a measure of relevance, which this limit does not have; leave it out".to_owned());
        }
        rule.in_range()
    }
}

impl RuleLimit {
    /// The rule, if its limit is in range.
    fn in_range(self) -> Result<Self, String> {
        let (Self::MaxDrop { points: value, .. } | Self::MinOverlap(value) | Self::MinIndexRecall(value)) = self;
        match (0.0..=100.0).contains(&value) {
            true => Ok(self),
            false => Err(format!("{value} is not a limit; give a number from 0 to 100")),
        }
    }

    /// The rule in words.
    pub fn title(&self, k: usize) -> String {
        match self {
            Self::MaxDrop { points, of } => format!("{} at {k} falls by at most {points} points", of.name()),
            Self::MinOverlap(percent) => format!("at least {percent} % of the first {k} documents are the same"),
            Self::MinIndexRecall(percent) => {
                format!("each index finds at least {percent} % of the {k} documents of an exact search")
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct RuleResult {
    /// The rule in words.
    pub title: String,
    pub verdict: Verdict,
    /// The estimate, in points or percent.
    pub estimate: f64,
    /// Its one-sided bounds.
    pub bounds: Option<(f64, f64)>,
    pub limit: f64,
    /// Number of clusters of queries of equal text.
    pub units: usize,
    /// Number of clusters needed to decide, if the rule is undecided and the number is known.
    pub needed: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GateResult {
    /// Fail if one rule fails, pass if all pass.
    pub verdict: Verdict,
    /// Probability of error of each rule on each side.
    pub alpha: f64,
    pub rules: Vec<RuleResult>,
}

/// Decides rules on a comparison; `None` without rules.
///
/// # Errors
/// If a rule needs judgements or an exact search that the comparison lacks, or `alpha` is not
/// between 0 and 0.5.
pub fn decide(comparison: &Comparison, rules: &[RuleLimit], alpha: f64) -> Result<Option<GateResult>> {
    let results: Vec<RuleResult> = rules
        .iter()
        .map(|rule| one(comparison, *rule, alpha))
        .collect::<Result<_>>()?;
    Ok(
        Verdict::of_all(results.iter().map(|result| result.verdict)).map(|verdict| GateResult {
            verdict,
            alpha,
            rules: results,
        }),
    )
}

/// Checks a rule before the first search.
///
/// # Errors
/// If such a comparison cannot decide it, or its limit is out of range.
pub fn check(rule: RuleLimit, judged: bool) -> Result<()> {
    rule.in_range()
        .map_err(|message| refused(message, "change the limit of the rule"))?;
    if matches!(rule, RuleLimit::MaxDrop { .. }) && !judged {
        return Err(refused(
            "a rule on relevance needs judgements".to_owned(),
            "give --qrels, or rules on overlap alone",
        ));
    }
    Ok(())
}

fn refused(message: String, hint: &'static str) -> IndexError {
    IndexError::Setting {
        field: "rule",
        message,
        hint,
    }
}

fn one(comparison: &Comparison, rule: RuleLimit, alpha: f64) -> Result<RuleResult> {
    check(rule, comparison.judged > 0)?;
    let per_query = &comparison.per_query;
    let (values, range, limit) = match rule {
        RuleLimit::MaxDrop { points, of } => {
            let drop = |query: &PerQuery| {
                let [a, b] = query.relevance.as_ref()?;
                Some((a[of.at()] - b[of.at()]) * 100.0)
            };
            let range = Range {
                low: -100.0,
                high: 100.0,
            };
            (with_clusters(per_query, drop), range, Limit::at_most(points))
        }
        RuleLimit::MinOverlap(percent) => (
            with_clusters(per_query, |query| Some(query.overlap * 100.0)),
            Range { low: 0.0, high: 100.0 },
            Limit::at_least(percent),
        ),
        RuleLimit::MinIndexRecall(percent) => {
            if comparison.sides.iter().any(|side| side.index_recall.is_none()) {
                let side = comparison.sides.iter().find(|side| side.index_recall.is_none());
                return Err(refused(
                    format!(
                        "{} cannot be searched exactly, so that the recall of its index is not known",
                        side.map_or("", |side| side.name.as_str())
                    ),
                    "leave the rule out",
                ));
            }
            // For each query, the worse of the two counts.
            let worse = |query: &PerQuery| {
                let [a, b] = query.index_recall;
                Some(a?.min(b?) * 100.0)
            };
            (
                with_clusters(per_query, worse),
                Range { low: 0.0, high: 100.0 },
                Limit::at_least(percent),
            )
        }
    };
    let stratum = Stratum {
        weight: 1.0,
        evidence: Evidence::Items {
            clusters: values,
            range,
        },
    };
    let decision = decide_items(limit, alpha, &[stratum])?;
    Ok(RuleResult {
        title: rule.title(comparison.k),
        verdict: decision.verdict,
        estimate: decision.estimate,
        bounds: decision.low.zip(decision.high),
        limit: limit.value,
        units: decision.units,
        needed: decision.need.and_then(|need| need.units),
    })
}

/// The values of the queries that have one, summed by cluster.
fn with_clusters(queries: &[PerQuery], of: impl Fn(&PerQuery) -> Option<f64>) -> Vec<Cluster> {
    let mut clusters: std::collections::BTreeMap<u32, Cluster> = std::collections::BTreeMap::new();
    for query in queries {
        if let Some(value) = of(query) {
            let own = clusters.entry(query.cluster).or_insert(Cluster { sum: 0.0, items: 0 });
            own.sum += value;
            own.items += 1;
        }
    }
    clusters.into_values().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rules_are_read_and_wrong_ones_say_what_to_write() {
        let drop = |points, of| RuleLimit::MaxDrop { points, of };
        for (text, wanted) in [
            ("margin=2", drop(2.0, RelevanceMeasure::Ndcg)),
            ("max_drop = 1.5, of = recall", drop(1.5, RelevanceMeasure::Recall)),
            ("min_overlap=80", RuleLimit::MinOverlap(80.0)),
            ("min_index_recall=95", RuleLimit::MinIndexRecall(95.0)),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for (text, part) in [
            ("margin", "KEY=VALUE"),
            ("margin=-1", "from 0 to 100"),
            ("margin=nan", "a number"),
            ("margin=1,min_overlap=2", "second limit"),
            ("of=ndcg", "no limit"),
            ("margin=1,of=map", "ndcg, recall, mrr"),
            ("min_overlap=80,of=mrr", "leave it out"),
            ("drop=1", "unknown key `drop`"),
        ] {
            let error = text.parse::<RuleLimit>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
