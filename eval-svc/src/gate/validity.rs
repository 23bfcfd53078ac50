//! Checks whether a rule's scores are about rewritten texts at all.
//!
//! A text that stayed unchanged costs no encoder any points, a rewrite with another meaning costs a
//! good encoder many points, and of a text that was cut, only the beginning is scored. Beyond a
//! share of such texts a rule is *invalid*: it neither passes nor fails. The share is taken over
//! the texts that the rule looks at, in two ways, and the worse one counts: pooled over all texts,
//! and averaged in the same order as the rule's estimate (seeds, transformations of an axis, axes,
//! data sets). The second detects a small data set of which nothing was rewritten; the first
//! detects a large one.

use super::{
    bound::{BoundRule, Quantity},
    limits::Settled,
};
use crate::{
    change::Change,
    profile::{Axis, Column},
    report::{RewriteShare, percent},
    stats,
    truncation::CutCount,
};

/// Rewrites of one data set under one transformation and seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rewrites {
    /// Distinct texts that were to be rewritten.
    pub texts: u64,
    /// Of these, texts that stayed unchanged.
    pub unchanged: u64,
    /// Of these, texts in which one word differs.
    pub near_copies: u64,
}

impl Rewrites {
    /// Counts how texts changed.
    pub(crate) fn count(changes: impl IntoIterator<Item = Change>) -> Self {
        let mut counted = Self::default();
        for change in changes {
            counted.texts += 1;
            match change {
                Change::Unchanged => counted.unchanged += 1,
                Change::NearCopy => counted.near_copies += 1,
                Change::Changed => {}
            }
        }
        counted
    }

    /// If no text was rewritten, all of them count as unchanged.
    fn unchanged(self) -> f64 {
        share(self.unchanged, self.texts).unwrap_or(1.0)
    }

    fn near_copies(self) -> f64 {
        share(self.near_copies, self.texts).unwrap_or(0.0)
    }
}

/// Rewrites of a run, `[dataset][transformation][seed]`.
pub(crate) type RewriteCounts = Vec<Vec<Vec<Rewrites>>>;

/// Texts of a data set that an encoder cut, or mixed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Of the originals.
    pub original: CutCount,
    /// Of the rewrites, `[transformation][seed]`.
    pub transformed: Vec<Vec<CutCount>>,
    /// Original texts that have another text's vector, and the number of texts checked; absent if
    /// that is not known.
    pub shared: Option<(u64, u64)>,
}

/// Cut texts of a run, `[encoder][dataset]`.
pub(crate) type CutCounts = Vec<Vec<Cut>>;

/// Ratings of one data set under one transformation and seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rated {
    /// Rewrites that have a rating.
    pub rated: u64,
    /// Of these, rewrites that the judge accepts.
    pub accepted: u64,
}

/// Ratings of a run, `[dataset][transformation][seed]`.
pub(crate) type RatedCounts = Vec<Vec<Vec<Rated>>>;

/// Counts of the texts of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// Whether they changed.
    pub rewrites: &'a RewriteCounts,
    /// Whether they were cut.
    pub cuts: &'a CutCounts,
    /// The ratings; absent without a judge, or if it does not tell pairs of known rating apart.
    pub ratings: Option<&'a RatedCounts>,
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// The cells that a rule uses: the data sets, the transformations axis by axis, and the number of
/// seeds.
struct Cells<'a> {
    axes: Vec<Vec<usize>>,
    datasets: &'a [usize],
    seeds: usize,
}

impl Cells<'_> {
    /// The mean in the order of an estimate; cells without a value are left out.
    fn averaged(&self, cell: impl Fn(usize, usize, usize) -> Option<f64>) -> Option<f64> {
        let mean = |values: &mut dyn Iterator<Item = f64>| stats::mean(&values.collect::<Vec<f64>>());
        let of_column = |d, t| mean(&mut (0..self.seeds).filter_map(|s| cell(d, t, s)));
        let of_axis = |d, own: &[usize]| mean(&mut own.iter().filter_map(|t| of_column(d, *t)));
        let of_dataset = |d| mean(&mut self.axes.iter().filter_map(|own| of_axis(d, own)));
        mean(&mut self.datasets.iter().filter_map(|d| of_dataset(*d)))
    }

    fn pooled<T: Copy>(&self, all: &[Vec<Vec<T>>], mut add: impl FnMut(T)) {
        for d in self.datasets {
            for t in self.axes.iter().flatten() {
                let seeds = all.get(*d).and_then(|own| own.get(*t)).into_iter().flatten();
                seeds.take(self.seeds).for_each(|one| add(*one));
            }
        }
    }
}

/// A cell of `[dataset][transformation][seed]`.
fn cell<T: Copy>(all: &[Vec<Vec<T>>], (d, t, s): (usize, usize, usize)) -> Option<T> {
    all.get(d)?.get(t)?.get(s).copied()
}

/// Counts of the rewrites that a rule looks at; `None` for a rule on the original texts.
pub(super) fn rewrite_share(
    rule: &BoundRule,
    encoder: usize,
    columns: &[Column],
    facts: &Facts<'_>,
    datasets: &[usize],
    seeds: usize,
) -> Option<RewriteShare> {
    let cells = Cells {
        axes: axes(rule.quantity, columns)?,
        datasets,
        seeds,
    };
    let mut all = Rewrites::default();
    cells.pooled(facts.rewrites, |one| {
        all.texts += one.texts;
        all.unchanged += one.unchanged;
        all.near_copies += one.near_copies;
    });
    // A data set without known rewrites counts as one of which nothing was rewritten.
    let known = |d, t, s| match cell(facts.rewrites, (d, t, s)) {
        Some(own) => Some(own),
        None if s == 0 => Some(Rewrites::default()),
        None => None,
    };
    let averaged = |of: fn(Rewrites) -> f64| cells.averaged(|d, t, s| known(d, t, s).map(of)).unwrap_or(of(all));
    let cuts: Vec<Vec<Vec<CutCount>>> = match facts.cuts.get(encoder) {
        Some(own) => own.iter().map(|one| one.transformed.clone()).collect(),
        None => Vec::new(),
    };
    let mut cut = CutCount::default();
    cells.pooled(&cuts, |one| cut.extend(one));
    let ratings = facts.ratings.map_or(&[][..], Vec::as_slice);
    let mut rated = Rated::default();
    cells.pooled(ratings, |one| {
        rated.rated += one.rated;
        rated.accepted += one.accepted;
    });
    let accepted = |one: Rated| share(one.accepted, one.rated);
    Some(RewriteShare {
        texts: all.texts,
        unchanged: averaged(Rewrites::unchanged).max(all.unchanged()),
        near_copies: averaged(Rewrites::near_copies).max(all.near_copies()),
        cut: worse(
            known_cut(cut),
            cells.averaged(|d, t, s| cell(&cuts, (d, t, s)).and_then(known_cut)),
            f64::max,
        ),
        rated: rated.rated,
        accepted: worse(
            accepted(rated),
            cells.averaged(|d, t, s| cell(ratings, (d, t, s)).and_then(accepted)),
            f64::min,
        ),
    })
}

fn worse(one: Option<f64>, other: Option<f64>, of: fn(f64, f64) -> f64) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(of(one, other)),
        (one, other) => one.or(other),
    }
}

/// Share of texts that are known to be cut; `None` if nothing is known.
fn known_cut(count: CutCount) -> Option<f64> {
    (count.unknown < count.texts).then(|| count.cut as f64 / count.texts as f64)
}

/// Share of the original texts that have another text's vector, the larger of pooled and averaged
/// over data sets.
pub(super) fn shared_vectors(encoder: usize, facts: &Facts<'_>, datasets: &[usize]) -> Option<f64> {
    let own = facts.cuts.get(encoder)?;
    let known = || datasets.iter().filter_map(|d| own.get(*d)?.shared);
    let each: Vec<f64> = known().filter_map(|(shared, texts)| share(shared, texts)).collect();
    let (shared, texts) = known().fold((0, 0), |(a, b), (shared, texts)| (a + shared, b + texts));
    worse(share(shared, texts), stats::mean(&each), f64::max)
}

/// The reason if the encoder mixes up too many texts for a decision.
pub(super) fn mixed_up(shared: f64, limits: Settled) -> Option<String> {
    exceeds(shared, limits.max_shared).then(|| {
        format!(
            "{} of the original texts it looks at have the vector of a text with other words (max_shared is {}): the encoder mixes up its answers, or \
             does not read these texts",
            percent(shared),
            percent(limits.max_shared)
        )
    })
}

/// Share of the original texts that the encoder cut, the larger of pooled and averaged over data
/// sets.
pub(super) fn cut_originals(encoder: usize, facts: &Facts<'_>, datasets: &[usize]) -> Option<f64> {
    let of = |d: &usize| {
        facts
            .cuts
            .get(encoder)
            .and_then(|own| own.get(*d))
            .map(|one| one.original)
    };
    let mut all = CutCount::default();
    datasets.iter().filter_map(of).for_each(|one| all.extend(one));
    let each: Vec<f64> = datasets.iter().filter_map(of).filter_map(known_cut).collect();
    worse(known_cut(all), stats::mean(&each), f64::max)
}

/// Transformations that a quantity uses, axis by axis; `None` if it uses none.
fn axes(quantity: Quantity, columns: &[Column]) -> Option<Vec<Vec<usize>>> {
    let of_axis = |axis: Axis| -> Vec<usize> { (0..columns.len()).filter(|c| columns[*c].axis == axis).collect() };
    Some(match quantity {
        Quantity::Original => return None,
        // The transformations whose texts separation counts as rewrites.
        Quantity::Separation(_) => vec![of_axis(Axis::Lexical), of_axis(Axis::Length)],
        Quantity::Transformation(column) => vec![vec![column]],
        Quantity::Axis(axis) => vec![of_axis(axis)],
        Quantity::Total => Axis::ALL
            .into_iter()
            .filter(|axis| axis.in_total())
            .map(of_axis)
            .filter(|own| !own.is_empty())
            .collect(),
    })
}

/// Whether a share exceeds its limit by more than the rounding error of a mean of shares.
fn exceeds(share: f64, limit: f64) -> bool {
    share > limit + 1e-9
}

/// Why a rule cannot be decided on these rewrites; `None` if it can.
pub(super) fn invalid(share: RewriteShare, limits: Settled) -> Option<String> {
    if share.texts == 0 {
        return Some("no text was rewritten, so its scores say nothing about robustness".to_owned());
    }
    if exceeds(share.unchanged, limits.max_unchanged) {
        return Some(format!(
            "{} of the texts it looks at stayed as they were (max_unchanged is {}): its scores say nothing about robustness; use a \
             stronger generator",
            percent(share.unchanged),
            percent(limits.max_unchanged)
        ));
    }
    if exceeds(share.near_copies, limits.max_near_copies) {
        return Some(format!(
            "{} of the rewrites it looks at differ from the original in one word only (max_near_copies is {}): its scores say nothing about \
             robustness; use a stronger generator",
            percent(share.near_copies),
            percent(limits.max_near_copies)
        ));
    }
    if let Some(accepted) = share
        .accepted
        .filter(|accepted| exceeds(limits.min_accepted, *accepted))
    {
        return Some(format!(
            "invalid rewrites: the judge accepts {} of the {} that it rated (min_accepted is {}), so the scores say more about the generator \
             than about robustness; use a stronger generator",
            percent(accepted),
            share.rated,
            percent(limits.min_accepted)
        ));
    }
    share.cut.and_then(|cut| cut_short(cut, limits))
}

/// The reason if the encoder cut too many texts for a decision.
pub(super) fn cut_short(cut: f64, limits: Settled) -> Option<String> {
    exceeds(cut, limits.max_cut).then(|| {
        format!(
            "the encoder cut {} of the texts it looks at (max_cut is {}): its scores speak of their beginnings; use an encoder that reads \
             longer texts, or shorter ones",
            percent(cut),
            percent(limits.max_cut)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Basis, Limits, Place, Rule, RuleLimit, Texts, Unit};

    fn columns() -> Vec<Column> {
        [
            ("paraphrase", Axis::Lexical),
            ("expansion", Axis::Length),
            ("random_keywords", Axis::Augmentation),
        ]
        .map(|(label, axis)| Column {
            label: label.to_owned(),
            axis,
        })
        .to_vec()
    }

    fn rule(quantity: Quantity) -> BoundRule {
        BoundRule {
            rule: Rule {
                name: None,
                limit: RuleLimit::MaxDrop(3.0),
                of: String::new(),
                task: None,
                dataset: None,
                basis: None,
                unit: None,
                texts: Texts::All,
                limits: Limits::default(),
                place: Place::default(),
            },
            title: String::new(),
            quantity,
            datasets: vec![0, 1],
            units: 2,
            basis: Basis::SignedRank,
            unit: Unit::Group,
            unit_by_default: true,
            limits: Limits::default().settled(),
        }
    }

    fn of(quantity: Quantity, facts: &Facts<'_>, datasets: &[usize], seeds: usize) -> Option<RewriteShare> {
        rewrite_share(&rule(quantity), 0, &columns(), facts, datasets, seeds)
    }

    fn rewrites(counts: &RewriteCounts) -> Facts<'_> {
        Facts {
            rewrites: counts,
            cuts: const { &Vec::new() },
            ratings: None,
        }
    }

    /// Two data sets, three transformations, two seeds; `of` gives the number of unchanged texts
    /// and of texts.
    fn counts(of: impl Fn(usize, usize, usize) -> (u64, u64)) -> RewriteCounts {
        let cell = |d, t, s| {
            let (unchanged, texts) = of(d, t, s);
            Rewrites {
                texts,
                unchanged,
                near_copies: 0,
            }
        };
        (0..2)
            .map(|d| (0..3).map(|t| (0..2).map(|s| cell(d, t, s)).collect()).collect())
            .collect()
    }

    fn unchanged(quantity: Quantity, counts: &RewriteCounts, datasets: &[usize], seeds: usize) -> f64 {
        of(quantity, &rewrites(counts), datasets, seeds).map_or(f64::NAN, |share| share.unchanged)
    }

    #[test]
    fn a_small_dead_data_set_counts_as_much_as_in_the_estimate() {
        let counts = counts(|d, _, _| if d == 0 { (0, 1000) } else { (10, 10) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.5);
        // Cells without results do not count.
        assert_eq!(unchanged(Quantity::Total, &counts, &[0], 2), 0.0);
    }

    #[test]
    fn a_large_dead_data_set_counts_by_its_texts() {
        let counts = counts(|d, _, _| if d == 0 { (990, 990) } else { (0, 10) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.99);
    }

    #[test]
    fn only_what_the_rule_looks_at_counts() {
        // In the control and the second seed nothing was rewritten.
        let counts = counts(|_, t, s| if t == 2 || s == 1 { (4, 4) } else { (0, 4) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 1), 0.0);
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.5);
        assert_eq!(unchanged(Quantity::Transformation(2), &counts, &[0, 1], 1), 1.0);
        assert_eq!(unchanged(Quantity::Axis(Axis::Augmentation), &counts, &[0, 1], 1), 1.0);
        assert!(of(Quantity::Original, &rewrites(&counts), &[0, 1], 1).is_none());
    }

    #[test]
    fn a_data_set_without_a_single_rewrite_is_unchanged_altogether() {
        let counts = counts(|d, _, _| if d == 0 { (0, 0) } else { (0, 10) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.5);
        let none = of(Quantity::Total, &rewrites(&Vec::new()), &[0, 1], 2);
        assert!(none.is_some_and(|share| share.texts == 0 && invalid(share, Limits::default().settled()).is_some()));
    }

    const WHOLE: RewriteShare = RewriteShare {
        texts: 10,
        unchanged: 0.0,
        near_copies: 0.0,
        cut: None,
        rated: 0,
        accepted: None,
    };

    #[test]
    fn limits_are_inclusive() {
        let said = |share: RewriteShare| invalid(share, Limits::default().settled());
        let at = RewriteShare {
            unchanged: 0.1,
            near_copies: 0.5,
            cut: Some(0.9),
            rated: 10,
            accepted: Some(0.5),
            ..WHOLE
        };
        assert_eq!(said(at), None);
        let beyond = [
            (RewriteShare { unchanged: 0.11, ..at }, "stayed as they were"),
            (RewriteShare { near_copies: 0.6, ..at }, "one word only"),
            (
                RewriteShare {
                    accepted: Some(0.4),
                    ..at
                },
                "invalid rewrites",
            ),
            (RewriteShare { cut: Some(0.91), ..at }, "the encoder cut 91"),
        ];
        for (share, words) in beyond {
            assert!(said(share).is_some_and(|why| why.contains(words)), "{words}");
        }
    }

    #[test]
    fn what_a_judge_does_not_accept_is_noticed_in_a_small_data_set_too() {
        let counts = counts(|_, _, _| (0, 10));
        let rate = |of: fn(usize) -> Rated| -> RatedCounts { (0..2).map(|d| vec![vec![of(d); 2]; 3]).collect() };
        let accepted = |ratings: &RatedCounts| {
            let facts = Facts {
                ratings: Some(ratings),
                ..rewrites(&counts)
            };
            of(Quantity::Total, &facts, &[0, 1], 2).and_then(|share| share.accepted)
        };
        let small = rate(|d| match d {
            0 => Rated {
                rated: 90,
                accepted: 90,
            },
            _ => Rated { rated: 10, accepted: 0 },
        });
        assert_eq!(accepted(&small), Some(0.5));
        let large = rate(|d| match d {
            0 => Rated { rated: 90, accepted: 0 },
            _ => Rated {
                rated: 10,
                accepted: 10,
            },
        });
        assert_eq!(accepted(&large), Some(0.1));
        // A text without a rating is neither accepted nor refused.
        assert_eq!(accepted(&rate(|_| Rated::default())), None);
    }

    #[test]
    fn cut_texts_count_for_their_own_encoder_and_unknown_ones_do_not() {
        let counts = counts(|_, _, _| (0, 10));
        let cut = |cut: u64, unknown: u64| Cut {
            shared: Some((cut, 10)),
            original: CutCount {
                texts: 10,
                cut,
                unknown,
            },
            transformed: vec![
                vec![
                    CutCount {
                        texts: 10,
                        cut,
                        unknown
                    };
                    2
                ];
                3
            ],
        };
        let cuts = vec![vec![cut(10, 0); 2], vec![cut(0, 10); 2], vec![cut(1, 0); 2]];
        let facts = Facts {
            cuts: &cuts,
            ..rewrites(&counts)
        };
        let of = |encoder| {
            let share = rewrite_share(&rule(Quantity::Total), encoder, &columns(), &facts, &[0, 1], 2);
            (
                share.and_then(|share| share.cut),
                cut_originals(encoder, &facts, &[0, 1]),
            )
        };
        assert_eq!(of(0), (Some(1.0), Some(1.0)));
        assert_eq!(of(1), (None, None));
        assert_eq!(of(2), (Some(0.1), Some(0.1)));
        assert_eq!(of(3), (None, None));
        let shared = |encoder| shared_vectors(encoder, &facts, &[0, 1]);
        assert_eq!([0, 1, 2, 3].map(shared), [Some(1.0), Some(0.0), Some(0.1), None]);
        let limits = Limits::default().settled();
        assert!(mixed_up(0.1, limits).is_none() && mixed_up(0.2, limits).is_some());
    }
}
