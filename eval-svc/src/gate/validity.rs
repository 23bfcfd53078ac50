//! Checks whether a rule's scores are based on rewritten texts.
//!
//! An unchanged text costs no encoder any points, a rewrite with another meaning costs a good
//! encoder many points, and of a truncated text only the beginning is scored. Beyond a share of
//! such texts a rule is *invalid*: it neither passes nor fails. The share is computed over the
//! texts that the rule covers, in two ways, and the worse one counts: pooled over all texts, and
//! averaged in the same order as the rule's estimate (seeds, transformations of an axis, axes, data
//! sets). The second detects a small data set without any rewrites; the first detects a large one.

use std::{collections::BTreeMap, ops::AddAssign};

use isomer_scoring::chance::ChanceLevel;

use super::{
    ValidityLimit,
    bound::{BoundRule, Quantity},
    limits::ResolvedLimits,
};
use crate::{
    change::Change,
    profile::{Axis, Column, Grid},
    report::RewriteShare,
    stats,
    truncation::CutCount,
};

/// Rewrites of one data set under one transformation and seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rewrites {
    /// Distinct texts to be rewritten.
    pub texts: u64,
    /// Of these, texts that stayed unchanged.
    pub unchanged: u64,
    pub near_copies: u64,
    /// Of these, texts that share the rewrite of a text with other words.
    pub same: u64,
    /// Of these, texts with an alarm of a meaning guard.
    pub guarded: u64,
}

impl Rewrites {
    /// Counts a text. `lengthened`: the transformation may add to a text, so that a rewrite may
    /// contain the original.
    pub(crate) fn add(&mut self, change: Change, lengthened: bool, guarded: bool) {
        self.texts += 1;
        self.guarded += u64::from(guarded);
        match change {
            Change::Unchanged => self.unchanged += 1,
            Change::NearCopy => self.near_copies += 1,
            Change::Contained => self.near_copies += u64::from(!lengthened),
            Change::Changed => {}
        }
    }

    /// The share that a limit applies to. If no text was rewritten, all of them count as unchanged.
    fn share(self, limit: ValidityLimit) -> Option<f64> {
        let part = match limit {
            ValidityLimit::MaxUnchanged if self.texts == 0 => return Some(1.0),
            ValidityLimit::MaxUnchanged => self.unchanged,
            ValidityLimit::MaxNearCopies => self.near_copies,
            ValidityLimit::MaxSameRewrites => self.same,
            ValidityLimit::MaxGuarded => self.guarded,
            _ => return None,
        };
        Some(share(part, self.texts).unwrap_or(0.0))
    }
}

impl AddAssign for Rewrites {
    fn add_assign(&mut self, other: Self) {
        self.texts += other.texts;
        self.unchanged += other.unchanged;
        self.near_copies += other.near_copies;
        self.same += other.same;
        self.guarded += other.guarded;
    }
}

/// Rewrites of a run, `[dataset][transformation][seed]`.
pub(crate) type RewriteCounts = Vec<Vec<Vec<Rewrites>>>;

/// Texts of one variant of a data set, as an encoder encoded them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EncodingCounts {
    /// Counts of truncated texts.
    pub cut: CutCount,
    /// Texts with a vector of length 0; absent if unknown.
    pub zero: Option<u64>,
}

impl EncodingCounts {
    /// Share of texts known to be truncated; `None` if unknown for all.
    fn cut(self) -> Option<f64> {
        let CutCount { texts, cut, unknown } = self.cut;
        (unknown < texts).then(|| cut as f64 / texts as f64)
    }

    fn zero(self) -> Option<f64> {
        share(self.zero?, self.cut.texts)
    }
}

impl AddAssign for EncodingCounts {
    fn add_assign(&mut self, other: Self) {
        // Texts without information say nothing about the others.
        self.zero = match (self.zero, other.zero) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.cut.extend(other.cut);
    }
}

/// Texts of a data set that an encoder truncated or confused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Counts over the original texts.
    pub original: EncodingCounts,
    /// Counts over their rewrites, `[transformation][seed]`.
    pub transformed: Vec<Vec<EncodingCounts>>,
    /// Original texts that have another text's vector, and the number of texts checked; absent if
    /// unknown.
    pub shared: Option<(u64, u64)>,
    /// Two of these texts.
    pub example: Option<[String; 2]>,
}

/// Truncated texts of a run, `[encoder][dataset]`.
pub(crate) type CutCounts = Vec<Vec<Cut>>;

/// Ratings of one data set under one transformation and seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RatingCounts {
    /// Rewrites with a rating.
    pub rated: u64,
    /// Of these, rewrites accepted by the judge.
    pub accepted: u64,
}

impl RatingCounts {
    fn share(self) -> Option<f64> {
        share(self.accepted, self.rated)
    }
}

impl AddAssign for RatingCounts {
    fn add_assign(&mut self, other: Self) {
        self.rated += other.rated;
        self.accepted += other.accepted;
    }
}

/// Ratings of a run, `[dataset][transformation][seed]`.
pub(crate) type RatedCounts = Vec<Vec<Vec<RatingCounts>>>;

/// The level of original scores relative to those of permuted labels, by position of the encoder
/// and of the data set. Unknown levels are missing.
pub(crate) type ChanceLevels = BTreeMap<(usize, usize), ChanceLevel>;

/// Counts of the texts of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// Counts of changed texts.
    pub rewrites: &'a RewriteCounts,
    /// Counts of truncated texts.
    pub cuts: &'a CutCounts,
    /// The ratings; absent without a judge, or if the judge does not distinguish pairs with a known
    /// rating.
    pub ratings: Option<&'a RatedCounts>,
    /// Whether the original scores are above chance.
    pub levels: &'a ChanceLevels,
    /// Share of leaked rows of each data set; absent for tasks without leaks.
    pub leaks: &'a [Option<f64>],
    /// Items of each data set whose score can differ.
    pub items: &'a [usize],
    /// Whether each encoder is one whose service does not report its settings.
    pub providers: &'a [bool],
}

impl Facts<'_> {
    /// The limits of a rule on an encoder.
    pub(super) fn limits(&self, rule: &BoundRule, encoder: usize) -> ResolvedLimits {
        match self.providers.get(encoder) {
            Some(true) => rule.limits.of_provider(),
            _ => rule.limits,
        }
    }
}

/// The texts with results that a rule covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoveredTexts<'a> {
    pub facts: &'a Facts<'a>,
    /// Positions of the data sets.
    pub datasets: &'a [usize],
    /// Number of seeds, starting with the first.
    pub seeds: usize,
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
    /// The mean in the order of an estimate; cells without a value are skipped.
    fn averaged(&self, cell: impl Fn(usize, usize, usize) -> Option<f64>) -> Option<f64> {
        let mean = |values: &mut dyn Iterator<Item = f64>| stats::mean(&values.collect::<Vec<f64>>());
        let of_column = |d, t| mean(&mut (0..self.seeds).filter_map(|s| cell(d, t, s)));
        let of_axis = |d, own: &[usize]| mean(&mut own.iter().filter_map(|t| of_column(d, *t)));
        let of_dataset = |d| mean(&mut self.axes.iter().filter_map(|own| of_axis(d, own)));
        mean(&mut self.datasets.iter().filter_map(|d| of_dataset(*d)))
    }

    fn pooled<T: Copy + Default + AddAssign>(&self, all: &[Vec<Vec<T>>]) -> T {
        let mut sum = T::default();
        for d in self.datasets {
            for t in self.axes.iter().flatten() {
                let seeds = all.get(*d).and_then(|own| own.get(*t)).into_iter().flatten();
                seeds.take(self.seeds).for_each(|one| sum += *one);
            }
        }
        sum
    }
}

/// A cell of `[dataset][transformation][seed]`.
fn cell<T: Copy>(all: &[Vec<Vec<T>>], d: usize, t: usize, s: usize) -> Option<T> {
    all.get(d)?.get(t)?.get(s).copied()
}

/// Shares of the texts that a rule covers.
#[derive(Debug, Default)]
pub(super) struct Shares {
    pub known: BTreeMap<ValidityLimit, f64>,
    /// Absent for a rule on the original texts.
    rewrites: Option<RewriteTotals>,
    /// Two original texts with one vector.
    example: Option<[String; 2]>,
}

/// Numbers behind the shares of rewrites.
#[derive(Debug, Clone, Copy)]
struct RewriteTotals {
    /// Texts x transformations x seeds.
    texts: u64,
    rated: u64,
}

impl Shares {
    /// Adds a share; of two shares for one limit, the worse one counts.
    fn add(&mut self, limit: ValidityLimit, shares: impl IntoIterator<Item = Option<f64>>) {
        for share in shares.into_iter().flatten() {
            let worse = self.known.get(&limit).map_or(share, |known| limit.worse(*known, share));
            self.known.insert(limit, worse);
        }
    }

    /// The shares in the report's form; `None` for a rule on the original texts.
    pub(super) fn report(&self) -> Option<RewriteShare> {
        let RewriteTotals { texts, rated } = self.rewrites?;
        let of = |limit| self.known.get(&limit).copied();
        Some(RewriteShare {
            texts,
            unchanged: of(ValidityLimit::MaxUnchanged).unwrap_or(1.0),
            near_copies: of(ValidityLimit::MaxNearCopies).unwrap_or(0.0),
            cut: of(ValidityLimit::MaxCut),
            rated,
            accepted: of(ValidityLimit::MinAccepted),
        })
    }

    /// The reason why a rule cannot be decided on these texts; `None` if it can. An encoder that is
    /// `worse` than its baseline may be so because it cuts or mixes up texts, so these shares do
    /// not excuse it.
    pub(super) fn invalid(&self, limits: ResolvedLimits, separation: bool, worse: bool) -> Option<String> {
        if !separation && self.rewrites.is_some_and(|all| all.texts == 0) {
            return Some("no text was rewritten, so its scores say nothing about robustness".to_owned());
        }
        // Separation ignores texts that were not rewritten, and no other rule counts them. It reads
        // no labels.
        let left_out = [
            ValidityLimit::MaxUnchanged,
            ValidityLimit::MaxNearCopies,
            ValidityLimit::MaxLeak,
            ValidityLimit::MinItems,
        ];
        let of_encoder = [ValidityLimit::MaxZero, ValidityLimit::MaxShared, ValidityLimit::MaxCut];
        let counted = self
            .known
            .iter()
            .filter(|(limit, _)| !(separation && left_out.contains(limit) || worse && of_encoder.contains(limit)));
        counted.into_iter().find_map(|(limit, share)| {
            let reason = limit.broken(*share, limits.of(*limit))?;
            Some(
                match self.example.as_ref().filter(|_| *limit == ValidityLimit::MaxShared) {
                    Some([one, other]) => format!("{reason}; for example, \"{one}\" and \"{other}\" have one vector"),
                    None => reason,
                },
            )
        })
    }
}

/// The shares of the texts that a rule covers. Each is computed pooled and averaged, and the worse
/// one counts.
pub(super) fn shares(rule: &BoundRule, encoder: usize, columns: &[Column], covered: CoveredTexts<'_>) -> Shares {
    let CoveredTexts { facts, datasets, seeds } = covered;
    let mut shares = Shares::default();
    let encoded = facts.cuts.get(encoder).map_or(&[][..], Vec::as_slice);
    let own: Vec<&Cut> = datasets.iter().filter_map(|d| encoded.get(*d)).collect();
    let mut originals = EncodingCounts::default();
    own.iter().for_each(|one| originals += one.original);
    let mean = |of: fn(EncodingCounts) -> Option<f64>| {
        let each: Vec<f64> = own.iter().filter_map(|one| of(one.original)).collect();
        stats::mean(&each)
    };
    shares.add(ValidityLimit::MaxZero, [originals.zero(), mean(EncodingCounts::zero)]);
    let shared: Vec<(u64, u64)> = own.iter().filter_map(|one| one.shared).collect();
    let each: Vec<f64> = shared.iter().filter_map(|(part, texts)| share(*part, *texts)).collect();
    let (part, texts) = shared
        .iter()
        .fold((0, 0), |(a, b), (part, texts)| (a + part, b + texts));
    shares.add(ValidityLimit::MaxShared, [share(part, texts), stats::mean(&each)]);
    shares.example = own.iter().find_map(|one| one.example.clone());
    // Other data sets do not dilute a leak in one data set.
    shares.add(
        ValidityLimit::MaxLeak,
        datasets.iter().map(|d| facts.leaks.get(*d).copied().flatten()),
    );
    let items = datasets.iter().filter_map(|d| facts.items.get(*d));
    shares.add(ValidityLimit::MinItems, items.map(|items| Some(*items as f64)));
    let Some(axes) = axes(rule.quantity, columns) else {
        shares.add(ValidityLimit::MaxCut, [originals.cut(), mean(EncodingCounts::cut)]);
        return shares;
    };
    let cells = Cells { axes, datasets, seeds };
    let rewrites = cells.pooled(facts.rewrites);
    // A data set without known rewrites counts as one without any rewrites.
    let known = |d, t, s| match cell(facts.rewrites, d, t, s) {
        Some(own) => Some(own),
        None if s == 0 => Some(Rewrites::default()),
        None => None,
    };
    for limit in ValidityLimit::ALL {
        let averaged = cells.averaged(|d, t, s| known(d, t, s)?.share(limit));
        shares.add(limit, [rewrites.share(limit), averaged]);
    }
    let transformed: Vec<Vec<Vec<EncodingCounts>>> = encoded.iter().map(|one| one.transformed.clone()).collect();
    let all = cells.pooled(&transformed);
    let averaged =
        |of: fn(EncodingCounts) -> Option<f64>| cells.averaged(|d, t, s| cell(&transformed, d, t, s).and_then(of));
    shares.add(ValidityLimit::MaxCut, [all.cut(), averaged(EncodingCounts::cut)]);
    shares.add(ValidityLimit::MaxZero, [all.zero(), averaged(EncodingCounts::zero)]);
    let ratings = facts.ratings.map_or(&[][..], Vec::as_slice);
    let rated = cells.pooled(ratings);
    let averaged = cells.averaged(|d, t, s| cell(ratings, d, t, s).and_then(RatingCounts::share));
    shares.add(ValidityLimit::MinAccepted, [rated.share(), averaged]);
    shares.rewrites = Some(RewriteTotals {
        texts: rewrites.texts,
        rated: rated.rated,
    });
    shares
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
        Quantity::Total => Axis::SCORED
            .into_iter()
            .filter(|axis| axis.in_total())
            .map(of_axis)
            .filter(|own| !own.is_empty())
            .collect(),
    })
}

/// Data sets of a rule whose original scores are at chance level: a drop from such a score gives no
/// information.
#[derive(Debug, Default)]
pub(super) struct ChanceDatasets {
    /// Data sets that were tested.
    tested: usize,
    /// Those that are not above chance, with their scores.
    names: Vec<String>,
    /// Those that are below chance.
    inverted: Vec<String>,
}

impl ChanceDatasets {
    /// Finds these data sets for a rule on a drop or a margin; the result is empty for other rules.
    pub(super) fn of(rule: &BoundRule, encoder: usize, grid: &Grid, covered: CoveredTexts<'_>) -> Self {
        let mut found = Self::default();
        for dataset in covered.datasets.iter().filter(|_| rule.compares_scores()) {
            let name = || format!("{} ({:.1})", grid.datasets[*dataset], grid.original[encoder][*dataset]);
            let Some(level) = covered.facts.levels.get(&(encoder, *dataset)) else {
                continue;
            };
            found.tested += 1;
            match level {
                ChanceLevel::Above => {}
                ChanceLevel::At => found.names.push(name()),
                ChanceLevel::Below => found.inverted.push(name()),
            }
        }
        found
    }

    /// Share of the tested data sets.
    pub(super) fn share(&self) -> Option<f64> {
        share((self.names.len() + self.inverted.len()) as u64, self.tested as u64)
    }

    /// The reason if the share is beyond its limit.
    pub(super) fn invalid(&self, limits: ResolvedLimits) -> Option<String> {
        let limit = ValidityLimit::MaxAtChance;
        let reason = limit.broken(self.share()?, limits.of(limit))?;
        Some(if self.inverted.is_empty() {
            format!(
                "{reason}: {}; check labels and encoder, add items, or leave these data sets out of the rule",
                self.names.join(", ")
            )
        } else {
            format!(
                "{reason}: permuted labels give a higher score on {}; gold scores or labels may be inverted",
                self.inverted.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Basis, Limits, Rule, RuleKind, RuleLimit, RuleLocation, Texts, Unit, When};

    fn columns() -> Vec<Column> {
        [
            ("paraphrase", Axis::Lexical),
            ("expansion", Axis::Length),
            ("random_keywords", Axis::Augmentation),
        ]
        .map(|(label, axis)| Column::new(label, axis))
        .to_vec()
    }

    fn rule(quantity: Quantity) -> BoundRule {
        BoundRule {
            rule: Rule {
                name: None,
                limit: RuleLimit::new(RuleKind::MaxDrop, 3.0),
                fail_at: None,
                of: String::new(),
                task: None,
                dataset: None,
                form: None,
                basis: None,
                unit: None,
                texts: Texts::All,
                when: When::Always,
                limits: Limits::default(),
                place: RuleLocation::default(),
            },
            title: String::new(),
            quantity,
            encoders: vec![0],
            datasets: vec![0, 1],
            units: 2,
            basis: Basis::SignedRank,
            unit: Unit::Group,
            unit_by_default: true,
            limits: Limits::default().settled(),
        }
    }

    fn of(quantity: Quantity, facts: &Facts<'_>, datasets: &[usize], seeds: usize) -> Shares {
        shares(&rule(quantity), 0, &columns(), CoveredTexts { facts, datasets, seeds })
    }

    fn rewrites(counts: &RewriteCounts) -> Facts<'_> {
        Facts {
            rewrites: counts,
            cuts: const { &Vec::new() },
            ratings: None,
            levels: const { &ChanceLevels::new() },
            leaks: &[],
            providers: &[],
            items: &[],
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
                ..Rewrites::default()
            }
        };
        (0..2)
            .map(|d| (0..3).map(|t| (0..2).map(|s| cell(d, t, s)).collect()).collect())
            .collect()
    }

    fn unchanged(quantity: Quantity, counts: &RewriteCounts, datasets: &[usize], seeds: usize) -> f64 {
        let shares = of(quantity, &rewrites(counts), datasets, seeds);
        shares
            .known
            .get(&ValidityLimit::MaxUnchanged)
            .copied()
            .unwrap_or(f64::NAN)
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
        // Nothing was rewritten in the control and under the second seed.
        let counts = counts(|_, t, s| if t == 2 || s == 1 { (4, 4) } else { (0, 4) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 1), 0.0);
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.5);
        assert_eq!(unchanged(Quantity::Transformation(2), &counts, &[0, 1], 1), 1.0);
        assert_eq!(unchanged(Quantity::Axis(Axis::Augmentation), &counts, &[0, 1], 1), 1.0);
        assert!(
            of(Quantity::Original, &rewrites(&counts), &[0, 1], 1)
                .report()
                .is_none()
        );
    }

    #[test]
    fn a_data_set_without_a_single_rewrite_is_unchanged_altogether() {
        let counts = counts(|d, _, _| if d == 0 { (0, 0) } else { (0, 10) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.5);
        let none = of(Quantity::Total, &rewrites(&Vec::new()), &[0, 1], 2);
        assert!(none.invalid(Limits::default().settled(), false, false).is_some());
        assert!(none.invalid(Limits::default().settled(), true, false).is_none());
    }

    #[test]
    fn every_limit_makes_a_rule_invalid_beyond_it_and_not_at_it() {
        for limit in ValidityLimit::ALL {
            let at = limit.default_share();
            let said = |share: f64| {
                let shares = Shares {
                    known: BTreeMap::from([(limit, share)]),
                    rewrites: Some(RewriteTotals { texts: 10, rated: 10 }),
                    example: None,
                };
                shares.invalid(Limits::default().settled(), false, false)
            };
            assert_eq!(said(at), None);
            let beyond = if limit.is_maximum() { at + 0.02 } else { at - 0.02 };
            assert!(said(beyond).is_some_and(|why| why.contains(limit.name())), "{limit:?}");
        }
    }

    #[test]
    fn separation_leaves_out_texts_that_were_not_rewritten() {
        for limit in ValidityLimit::ALL {
            let shares = Shares {
                known: BTreeMap::from([(limit, if limit.is_maximum() { 1.0 } else { 0.0 })]),
                rewrites: Some(RewriteTotals { texts: 0, rated: 0 }),
                example: None,
            };
            let left_out = matches!(
                limit,
                ValidityLimit::MaxUnchanged
                    | ValidityLimit::MaxNearCopies
                    | ValidityLimit::MaxLeak
                    | ValidityLimit::MinItems
            );
            let said = shares.invalid(Limits::default().settled(), true, false);
            assert_eq!(said.is_none(), left_out, "{limit:?}");
        }
    }

    #[test]
    fn what_an_encoder_does_to_texts_does_not_excuse_that_it_is_worse() {
        for limit in ValidityLimit::ALL {
            let shares = Shares {
                known: BTreeMap::from([(limit, if limit.is_maximum() { 1.0 } else { 0.0 })]),
                rewrites: Some(RewriteTotals { texts: 10, rated: 10 }),
                example: None,
            };
            let of_encoder = matches!(
                limit,
                ValidityLimit::MaxZero | ValidityLimit::MaxShared | ValidityLimit::MaxCut
            );
            let said = shares.invalid(Limits::default().settled(), false, true);
            assert_eq!(said.is_none(), of_encoder, "{limit:?}");
        }
    }

    #[test]
    fn each_kind_of_rewrite_counts_for_its_limit() {
        let mut counted = Rewrites::default();
        counted.add(Change::Unchanged, false, false);
        counted.add(Change::NearCopy, true, true);
        counted.add(Change::Contained, false, false);
        counted.add(Change::Contained, true, false);
        counted.same = 2;
        let shares = ValidityLimit::ALL.map(|limit| counted.share(limit));
        let wanted = [
            None,
            None,
            None,
            None,
            None,
            Some(0.25),
            Some(0.5),
            Some(0.5),
            Some(0.25),
            None,
            None,
        ];
        assert_eq!(shares, wanted);
    }

    #[test]
    fn a_leak_in_one_data_set_is_not_diluted() {
        let counts = counts(|_, _, _| (0, 10));
        let facts = Facts {
            leaks: &[Some(0.01), None, Some(0.31)],
            ..rewrites(&counts)
        };
        let leak = |datasets: &[usize]| {
            let found = of(Quantity::Original, &facts, datasets, 1);
            found.known.get(&ValidityLimit::MaxLeak).copied()
        };
        assert_eq!(
            [leak(&[0, 1, 2]), leak(&[0, 1]), leak(&[1])],
            [Some(0.31), Some(0.01), None]
        );
    }

    #[test]
    fn a_small_data_set_is_not_made_up_for_by_a_large_one() {
        let counts = counts(|_, _, _| (0, 10));
        for quantity in [Quantity::Original, Quantity::Total] {
            let invalid = |items: &[usize]| {
                let facts = Facts {
                    items,
                    ..rewrites(&counts)
                };
                of(quantity, &facts, &[0, 1], 1).invalid(Limits::default().settled(), false, false)
            };
            assert!(invalid(&[9, 2000]).is_some_and(|why| why.contains("min_items")));
            assert_eq!(invalid(&[10, 2000]), None);
        }
    }

    #[test]
    fn what_a_judge_does_not_accept_is_noticed_in_a_small_data_set_too() {
        let counts = counts(|_, _, _| (0, 10));
        let rate = |of: fn(usize) -> RatingCounts| -> RatedCounts { (0..2).map(|d| vec![vec![of(d); 2]; 3]).collect() };
        let accepted = |ratings: &RatedCounts| {
            let facts = Facts {
                ratings: Some(ratings),
                ..rewrites(&counts)
            };
            of(Quantity::Total, &facts, &[0, 1], 2)
                .report()
                .and_then(|share| share.accepted)
        };
        let small = rate(|d| match d {
            0 => RatingCounts {
                rated: 90,
                accepted: 90,
            },
            _ => RatingCounts { rated: 10, accepted: 0 },
        });
        assert_eq!(accepted(&small), Some(0.5));
        let large = rate(|d| match d {
            0 => RatingCounts { rated: 90, accepted: 0 },
            _ => RatingCounts {
                rated: 10,
                accepted: 10,
            },
        });
        assert_eq!(accepted(&large), Some(0.1));
        // A text without a rating is neither accepted nor rejected.
        assert_eq!(accepted(&rate(|_| RatingCounts::default())), None);
    }

    #[test]
    fn cut_texts_count_for_their_own_encoder_and_unknown_ones_do_not() {
        let counts = counts(|_, _, _| (0, 10));
        let cut = |cut: u64, unknown: u64| {
            let encoded = EncodingCounts {
                cut: CutCount {
                    texts: 10,
                    cut,
                    unknown,
                },
                zero: (unknown == 0).then_some(cut),
            };
            Cut {
                original: encoded,
                transformed: vec![vec![encoded; 2]; 3],
                shared: Some((cut, 10)),
                example: None,
            }
        };
        let cuts = vec![vec![cut(10, 0); 2], vec![cut(0, 10); 2], vec![cut(1, 0); 2]];
        let facts = Facts {
            cuts: &cuts,
            ..rewrites(&counts)
        };
        let limits = [ValidityLimit::MaxCut, ValidityLimit::MaxZero, ValidityLimit::MaxShared];
        for quantity in [Quantity::Total, Quantity::Original] {
            let of = |encoder| {
                let covered = CoveredTexts {
                    facts: &facts,
                    datasets: &[0, 1],
                    seeds: 2,
                };
                let found = shares(&rule(quantity), encoder, &columns(), covered);
                limits.map(|limit| found.known.get(&limit).copied())
            };
            assert_eq!(of(0), [Some(1.0); 3]);
            assert_eq!(of(1), [None, None, Some(0.0)]);
            assert_eq!(of(2), [Some(0.1); 3]);
            assert_eq!(of(3), [None; 3]);
        }
    }
}
