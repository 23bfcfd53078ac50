//! Summarises comparisons as a share of texts with bounds.

use std::collections::BTreeMap;

use super::{Comparison, Kind, Stratum, drawn};
use crate::stats;

/// The summary of comparisons; the parent module describes the averages.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tally {
    /// Distinct texts.
    pub(crate) texts: u64,
    pub(crate) comparisons: u64,
    /// Mean over texts of the share of their comparisons that are separated; `None` without texts.
    pub(crate) separation: Option<f64>,
    /// Texts whose drawn comparison is separated. The bounds are computed from this number.
    pub(crate) drawn_separated: u64,
    /// Comparisons that tie.
    pub(crate) tied: u64,
    /// Comparisons without a cosine.
    pub(crate) undefined: u64,
    /// Comparisons omitted because the encoder truncated one of the texts.
    pub(crate) cut: u64,
    /// Mean over texts of cos(x+, x) − cos(x+, x−) in units of the parallel gap.
    pub(crate) margin: Option<f64>,
    /// Mean over texts of the share that word overlap alone would separate.
    pub(crate) overlap_alone: Option<f64>,
    /// Mean over texts of the share with cos(x, x+) > cos(x, x−).
    pub(crate) nearer_than_change: Option<f64>,
}

/// Comparisons of a text: kind, then transformation, then seeds (and data sets that share the
/// text).
type TextComparisons<'a> = BTreeMap<Kind, BTreeMap<usize, Vec<&'a Comparison>>>;

/// Computes the summary. `content` returns a text of the corpus, for the draw.
pub(crate) fn tally<'a>(
    comparisons: impl Iterator<Item = &'a Comparison>,
    seed: u64,
    content: impl Fn(u32) -> &'a str,
) -> Tally {
    let mut texts: BTreeMap<u32, TextComparisons<'a>> = BTreeMap::new();
    let (mut count, mut tied, mut undefined, mut cut) = (0, 0, 0, 0);
    for one in comparisons {
        if one.cut {
            cut += 1;
            continue;
        }
        count += 1;
        tied += u64::from(one.tied());
        undefined += u64::from(one.difference().is_none());
        let kinds = texts.entry(one.triple.counts_as).or_default();
        let transformations = kinds.entry(one.triple.kind).or_default();
        transformations.entry(one.transformation).or_default().push(one);
    }
    let over_texts = |value: &dyn Fn(&Comparison) -> Option<f64>| {
        let of_texts: Vec<f64> = texts.values().filter_map(|text| of_text(text, value)).collect();
        stats::mean(&of_texts)
    };
    let share = |holds: bool| Some(f64::from(u8::from(holds)));
    let decided = texts.iter().filter(|(text, own)| {
        let one = draw(own, seed, content(**text));
        one.is_some_and(Comparison::separated)
    });
    Tally {
        texts: texts.len() as u64,
        comparisons: count,
        separation: over_texts(&|one| share(one.separated())),
        drawn_separated: decided.count() as u64,
        tied,
        undefined,
        cut,
        margin: over_texts(&Comparison::margin),
        overlap_alone: over_texts(&|one| share(one.triple.stratum == Stratum::Fewer)),
        nearer_than_change: over_texts(&|one| share(one.nearer_than_change())),
    }
}

/// Mean over kinds of the mean over transformations of the mean over the rest.
fn of_text(text: &TextComparisons<'_>, value: &dyn Fn(&Comparison) -> Option<f64>) -> Option<f64> {
    let of_kind = |kind: &BTreeMap<usize, Vec<&Comparison>>| {
        let of_transformation = |all: &Vec<&Comparison>| {
            let values: Vec<f64> = all.iter().filter_map(|one| value(one)).collect();
            stats::mean(&values)
        };
        stats::mean(&kind.values().filter_map(of_transformation).collect::<Vec<f64>>())
    };
    stats::mean(&text.values().filter_map(of_kind).collect::<Vec<f64>>())
}

/// One comparison of a text, drawn in the steps in which [`of_text`] averages.
fn draw<'a>(text: &TextComparisons<'a>, seed: u64, content: &str) -> Option<&'a Comparison> {
    let pick = |step: &str, n: usize| drawn(&["decision", step, content], seed, n);
    let kind = text.values().nth(pick("kind", text.len()))?;
    let transformation = kind.values().nth(pick("transformation", kind.len()))?;
    transformation.get(pick("rest", transformation.len())).copied()
}

impl Tally {
    /// One-sided Clopper–Pearson bounds, each at `1 - alpha`.
    pub(crate) fn bounds(&self, alpha: f64) -> (f64, f64) {
        (
            stats::clopper_pearson_lower(self.drawn_separated, self.texts, alpha),
            stats::clopper_pearson_upper(self.drawn_separated, self.texts, alpha),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::separation::{Cosines, Triple};

    fn one(text: u32, kind: Kind, transformation: usize, seed: usize, difference: Option<f64>) -> Comparison {
        Comparison {
            triple: Triple {
                text,
                counts_as: text,
                rewrite: 1,
                change: 2,
                kind,
                stratum: Stratum::Fewer,
            },
            table: 0,
            transformation,
            seed,
            cosines: Cosines {
                own: difference.map(|difference| 0.5 + difference),
                other: difference.map(|_| 0.5),
                change: Some(0.5),
            },
            cut: false,
            gap: Some(0.25),
        }
    }

    #[test]
    fn a_text_counts_once_however_many_kinds_transformations_and_seeds_it_has() {
        let mut all = vec![one(7, Kind::Antonym, 0, 0, Some(0.1))];
        // Negation: transformation 0 has 1 of 2 seeds, transformation 1 has none: a quarter.
        all.push(one(7, Kind::Negation, 0, 0, Some(0.1)));
        all.push(one(7, Kind::Negation, 0, 1, Some(-0.1)));
        all.push(one(7, Kind::Negation, 1, 0, Some(0.0)));
        all.push(one(8, Kind::Number, 0, 0, None));
        let sum = tally(all.iter(), 1, |_| "x");
        assert_eq!((sum.texts, sum.comparisons, sum.tied, sum.undefined), (2, 5, 1, 1));
        // Text 7: (1 + 1/4) / 2; text 8, undefined: 0.
        assert!((sum.separation.unwrap() - 0.3125).abs() < 1e-12);
        assert_eq!(sum.overlap_alone, Some(1.0));
        // Only text 7 has margins: antonym 0.4; negation (0 + 0) / 2.
        assert!((sum.margin.unwrap() - 0.2).abs() < 1e-12);
    }

    #[test]
    fn the_drawn_decisions_have_the_share_as_their_expectation() {
        let contents: Vec<String> = (0..4000).map(|text| format!("text {text}")).collect();
        let mut all = Vec::new();
        for text in 0..4000 {
            // Shares: 1/2 (kinds 1 and 0), the second of three comparisons of one kind.
            all.push(one(text, Kind::Antonym, 0, 0, Some(0.1)));
            for seed in 0..3 {
                all.push(one(text, Kind::Number, 0, seed, Some(-0.1)));
            }
        }
        let sum = tally(all.iter(), 1337, |text| contents[text as usize].as_str());
        assert_eq!(sum.separation, Some(0.5));
        // Four standard deviations of a fair coin thrown 4000 times are 126.
        assert!((1874..=2126).contains(&sum.drawn_separated), "{}", sum.drawn_separated);
        let (low, high) = sum.bounds(0.05);
        assert!(low < 0.5 && high > 0.5 && high - low < 0.03, "{low} {high}");
    }

    #[test]
    fn a_comparison_of_a_cut_text_is_left_out_and_texts_that_count_as_one_count_once() {
        let mut all = vec![
            one(1, Kind::Number, 0, 0, Some(0.1)),
            one(2, Kind::Number, 0, 0, Some(0.1)),
        ];
        all.push(Comparison {
            cut: true,
            ..one(3, Kind::Number, 0, 0, Some(0.0))
        });
        let sum = tally(all.iter(), 1, |_| "x");
        assert_eq!((sum.texts, sum.comparisons, sum.cut, sum.tied), (2, 2, 1, 0));
        assert_eq!(sum.separation, Some(1.0));
        all[1].triple.counts_as = 1;
        let sum = tally(all.iter(), 1, |_| "x");
        assert_eq!((sum.texts, sum.comparisons), (1, 2));
    }

    #[test]
    fn nothing_compared_says_nothing() {
        let sum = tally(std::iter::empty(), 1, |_| "");
        assert_eq!((sum.texts, sum.separation, sum.bounds(0.05)), (0, None, (0.0, 1.0)));
    }
}
