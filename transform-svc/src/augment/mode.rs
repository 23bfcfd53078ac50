//! When variants are used: always, only if they are cached, or only if a plain search was not good
//! enough.

use isomer_proto::transform::v1::{AugmentationMode, AugmentationSpec, CascadeRule, SearchEvidence};
use isomer_service_kit::{Fault, choice};

use super::invalid;

/// Default rank whose score `min_gap` compares with the best score.
const GAP_RANK: u32 = 2;

/// When variants are used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// Whenever they can be generated.
    Generate,
    /// Only if they are cached.
    Cached,
    /// Only if the plain search was not good enough.
    Cascade(Rule),
}

/// The conditions of a cascade. A plain search is not good enough if one of them holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rule {
    results: Option<usize>,
    score: Option<f64>,
    /// The minimum gap, and the rank down to which it is measured.
    gap: Option<(f64, usize)>,
}

/// Reads the mode of a spec and checks the spec's other fields against it.
pub(super) fn read(spec: &AugmentationSpec) -> Result<Mode, Fault> {
    let mode: AugmentationMode = choice("spec.mode", spec.mode)?.unwrap_or_default();
    let budget = spec.generation_budget.is_some();
    match mode {
        AugmentationMode::Budget if !budget => {
            return Err(invalid(
                "spec.generation_budget",
                "this mode needs it",
                "give e.g. 0.2s, or choose AUGMENTATION_MODE_ALWAYS",
            ));
        }
        AugmentationMode::Always | AugmentationMode::Cached if budget => {
            return Err(invalid(
                "spec.generation_budget",
                "this mode has none: it waits for every variant or for no generator",
                "leave it out, or choose AUGMENTATION_MODE_BUDGET",
            ));
        }
        AugmentationMode::Cached if spec.bypass_cache => {
            return Err(invalid(
                "spec.bypass_cache",
                "this mode uses what the caches hold",
                "leave it out, or choose another mode",
            ));
        }
        _ => {}
    }
    if spec.make_missing == Some(true) && spec.bypass_cache {
        return Err(invalid(
            "spec.make_missing",
            "uncached variants cannot be used by the next request",
            "leave bypass_cache or make_missing out",
        ));
    }
    match (mode, &spec.cascade) {
        (AugmentationMode::Cascade, Some(rule)) => self::rule(rule).map(Mode::Cascade),
        (AugmentationMode::Cascade, None) => Err(invalid(
            "spec.cascade",
            "this mode needs it",
            "say when a plain search is not good enough, e.g. min_gap 0.05",
        )),
        (_, Some(_)) => Err(invalid(
            "spec.cascade",
            "it goes with AUGMENTATION_MODE_CASCADE only",
            "set that mode, or leave it out",
        )),
        (AugmentationMode::Cached, None) => Ok(Mode::Cached),
        _ => Ok(Mode::Generate),
    }
}

fn rule(rule: &CascadeRule) -> Result<Rule, Fault> {
    let number = |field: &str, value: Option<f64>| match value {
        Some(value) if !value.is_finite() => Err(invalid(
            field,
            format!("{value} is not a score"),
            "give a finite number",
        )),
        _ => Ok(value),
    };
    let score = number("spec.cascade.min_score", rule.min_score)?;
    let gap = number("spec.cascade.min_gap", rule.min_gap)?;
    if rule.min_results.is_none() && score.is_none() && gap.is_none() {
        return Err(invalid(
            "spec.cascade",
            "it has no condition",
            "set min_results, min_score or min_gap",
        ));
    }
    let rank = match (rule.gap_rank, gap) {
        (Some(_), None) => {
            return Err(invalid(
                "spec.cascade.gap_rank",
                "there is no min_gap",
                "set min_gap, or leave it out",
            ));
        }
        (Some(rank @ 0..=1), Some(_)) => {
            return Err(invalid(
                "spec.cascade.gap_rank",
                format!("there is no gap between the best score and rank {rank}"),
                "give 2 or more",
            ));
        }
        (rank, _) => rank.unwrap_or(GAP_RANK),
    };
    Ok(Rule {
        results: rule.min_results.map(|least| least as usize),
        score,
        gap: gap.map(|least| (least, rank as usize)),
    })
}

impl Mode {
    /// For each item, the reason why it is not augmented; `None` if it is augmented. Empty if the
    /// mode augments all items.
    pub(super) fn plain(self, evidence: &[SearchEvidence], items: usize) -> Result<Vec<Option<String>>, Fault> {
        let Self::Cascade(rule) = self else {
            return match evidence.is_empty() {
                true => Ok(Vec::new()),
                false => Err(invalid(
                    "evidence",
                    "it goes with AUGMENTATION_MODE_CASCADE only",
                    "set that mode, or leave it out",
                )),
            };
        };
        if evidence.is_empty() {
            let first = "there is no evidence of a plain search yet";
            return Ok(vec![Some(first.to_owned()); items]);
        }
        if evidence.len() != items {
            return Err(invalid(
                "evidence",
                format!("{} entries for {items} items", evidence.len()),
                "give one entry per item, empty where nothing was found",
            ));
        }
        evidence
            .iter()
            .enumerate()
            .map(|(index, found)| rule.plain(&found.scores).map_err(|why| wrong_scores(index, &why)))
            .collect()
    }
}

fn wrong_scores(index: usize, why: &str) -> Fault {
    invalid(
        &format!("evidence[{index}].scores"),
        why,
        "give similarities, best first; of distances, their negatives",
    )
}

impl Rule {
    /// The reason why a query is not augmented; `None` if it is augmented.
    fn plain(self, scores: &[f64]) -> Result<Option<String>, String> {
        if let Some(wrong) = scores.iter().find(|score| !score.is_finite()) {
            return Err(format!("{wrong} is not a score"));
        }
        if let Some([a, b]) = scores.array_windows().find(|[a, b]| a < b) {
            return Err(format!("{a} comes before the higher {b}"));
        }
        let Some(best) = scores.first() else {
            // Nothing was found, so the query is augmented under any rule.
            return Ok(None);
        };
        if self.results.is_some_and(|least| scores.len() < least) || self.score.is_some_and(|least| *best < least) {
            return Ok(None);
        }
        let mut held = Vec::new();
        if self.results.is_some() {
            held.push(format!("{} results", scores.len()));
        }
        if self.score.is_some() {
            held.push(format!("best score {best}"));
        }
        if let Some((least, rank)) = self.gap
            && let Some(other) = scores.get(1..).and_then(|rest| rest.get(rank - 2).or(rest.last()))
        {
            let gap = best - other;
            if gap < least {
                return Ok(None);
            }
            held.push(format!("gap {gap}"));
        }
        if held.is_empty() {
            held.push("a single result".to_owned());
        }
        Ok(Some(format!("the plain search was good enough: {}", held.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn augments(rule: CascadeRule, scores: &[f64]) -> bool {
        self::rule(&rule).unwrap().plain(scores).unwrap().is_none()
    }

    #[test]
    fn each_condition_decides_at_its_limit() {
        let results = CascadeRule {
            min_results: Some(3),
            ..CascadeRule::default()
        };
        assert!(augments(results, &[0.9, 0.8]));
        assert!(!augments(results, &[0.9, 0.8, 0.1]));
        let score = CascadeRule {
            min_score: Some(0.5),
            ..CascadeRule::default()
        };
        assert!(augments(score, &[0.499]));
        assert!(!augments(score, &[0.5]));
        let gap = CascadeRule {
            min_gap: Some(0.25),
            ..CascadeRule::default()
        };
        assert!(augments(gap, &[0.75, 0.625, 0.0]));
        assert!(!augments(gap, &[0.75, 0.5, 0.5]));
        assert!(!augments(gap, &[0.75]), "a single result has no gap");
        let further = CascadeRule {
            gap_rank: Some(3),
            ..gap
        };
        assert!(!augments(further, &[0.75, 0.7, 0.25]));
        assert!(augments(further, &[0.75, 0.7, 0.625, 0.0]));
        assert!(augments(further, &[0.75, 0.7]), "the last result counts");
        for rule in [results, score, gap, further] {
            assert!(augments(rule, &[]), "nothing was found");
        }
    }

    #[test]
    fn one_condition_that_holds_is_enough() {
        let rule = CascadeRule {
            min_results: Some(2),
            min_score: Some(0.5),
            min_gap: Some(0.125),
            gap_rank: None,
        };
        assert!(!augments(rule, &[0.75, 0.5]));
        for scores in [&[0.75][..], &[0.4, 0.1], &[0.75, 0.7]] {
            assert!(augments(rule, scores), "{scores:?}");
        }
        let explanation = self::rule(&rule).unwrap().plain(&[0.75, 0.5]).unwrap().unwrap();
        assert!(
            explanation.contains("2 results, best score 0.75, gap 0.25"),
            "{explanation}"
        );
    }

    #[test]
    fn distances_and_what_is_no_number_are_refused() {
        let rule = self::rule(&CascadeRule {
            min_gap: Some(0.1),
            ..CascadeRule::default()
        });
        let rule = rule.unwrap();
        assert!(rule.plain(&[0.1, 0.4, 0.5]).unwrap_err().contains("before the higher"));
        assert!(rule.plain(&[f64::NAN]).is_err());
        assert!(rule.plain(&[0.4, 0.4, 0.1]).is_ok(), "equal scores are in order");
    }
}
