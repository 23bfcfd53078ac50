//! The gate of a comparison. Its rules test a limit against the values of single queries, with
//! bounds that hold whatever the distribution of these values, like the rules of a check on items.

use isomer_stats::gate::{
    Limit, Verdict,
    bounded::Range,
    items::{Cluster, Evidence, Stratum, decide_items},
};

use super::{Compared, PerQuery};
use crate::error::{IndexError, Result};

/// A measure of relevance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// nDCG at k.
    Ndcg,
    /// Recall of relevant documents at k.
    Recall,
    /// Reciprocal rank at k.
    Mrr,
}

impl Of {
    /// All measures, with their names.
    pub const ALL: [(&'static str, Self); 3] = [("ndcg", Self::Ndcg), ("recall", Self::Recall), ("mrr", Self::Mrr)];

    fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, of)| *of == self)
            .map_or("", |(name, _)| *name)
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
        of: Of,
    },
    /// At least this percentage of the first k documents is the same.
    MinOverlap(f64),
    /// Each index finds at least this percentage of the k documents of an exact search.
    MinIndexRecall(f64),
}

impl RuleLimit {
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
pub fn decide(compared: &Compared, rules: &[RuleLimit], alpha: f64) -> Result<Option<GateResult>> {
    let results: Vec<RuleResult> = rules
        .iter()
        .map(|rule| one(compared, *rule, alpha))
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
    let (RuleLimit::MaxDrop { points: value, .. } | RuleLimit::MinOverlap(value) | RuleLimit::MinIndexRecall(value)) =
        rule;
    if !(0.0..=100.0).contains(&value) {
        return Err(refused(format!("{value} is not a limit"), "give 0 to 100"));
    }
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

fn one(compared: &Compared, rule: RuleLimit, alpha: f64) -> Result<RuleResult> {
    check(rule, compared.judged > 0)?;
    let per_query = &compared.per_query;
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
            if compared.sides.iter().any(|side| side.index_recall.is_none()) {
                let side = compared.sides.iter().find(|side| side.index_recall.is_none());
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
        title: rule.title(compared.k),
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
