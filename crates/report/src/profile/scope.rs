//! The same analysis over all datasets, the English ones and the others, as HTEB reports them side
//! by side. Datasets of unknown language are in neither: they are a scope of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Axis, FriedmanTest, Grid, LanguageGroup, RankShift, RankStability, SplitHalf, TransformationShift,
    build::{self, deltas},
    critical, ranks, reliability,
};
use crate::stats;

/// Datasets that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every dataset of the run.
    All,
    /// Those that are known to be in English.
    English,
    /// Those that are known to be in another language, on one side at least.
    Multilingual,
    /// Those of unknown language.
    Unknown,
}

impl Scope {
    pub fn title(self) -> &'static str {
        match self {
            Self::All => "All data sets",
            Self::English => "English",
            Self::Multilingual => "Multilingual",
            Self::Unknown => "Language not known",
        }
    }
}

/// How far an axis moves scores, whatever the direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisChange {
    /// Axis of variation.
    pub axis: Axis,
    /// Median of the absolute differences, pooled over groups of datasets and the axis'
    /// transformations; encoders and seeds averaged first (HTEB, figure 7).
    pub median_absolute_difference: f64,
    /// Differences pooled.
    pub n: usize,
}

/// Something a reader may look for and why it is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotComputed {
    /// Name of the missing figure.
    pub what: String,
    /// Reason, and the data that it would need.
    pub why: String,
}

/// Comparison of encoders and transformations over a set of datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeProfile {
    /// Datasets that it covers.
    pub scope: Scope,
    /// Their names.
    pub datasets: Vec<String>,
    /// Names of their groups, which everything below counts; a group of one has its data set's
    /// name. Empty in reports of versions that knew no groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Per transformation, over encoders.
    pub shifts: Vec<TransformationShift>,
    /// Per axis.
    pub axis_changes: Vec<AxisChange>,
    /// Kendall's tau-b between original and transformed rankings; empty with one encoder.
    pub rank_stability: Vec<RankStability>,
    /// Places on original and transformed texts; empty with one encoder.
    pub rank_shifts: Vec<RankShift>,
    /// Split-half reliability of the rankings; empty with fewer than three encoders or two
    /// datasets.
    pub reliability: Vec<SplitHalf>,
    /// Friedman's tests; empty with fewer than three encoders or two datasets.
    pub friedman: Vec<FriedmanTest>,
    /// Missing figures, with the reason.
    pub not_computed: Vec<NotComputed>,
}

impl ScopeProfile {
    /// Groups of data sets, which tests count.
    pub fn n(&self) -> usize {
        if self.groups.is_empty() {
            self.datasets.len()
        } else {
            self.groups.len()
        }
    }
}

impl From<LanguageGroup> for Scope {
    fn from(languages: LanguageGroup) -> Self {
        match languages {
            LanguageGroup::English => Self::English,
            LanguageGroup::Other => Self::Multilingual,
            LanguageGroup::Unknown => Self::Unknown,
        }
    }
}

/// All datasets first; then those of each language group, where there are several.
pub(super) fn scopes(grid: &Grid) -> Vec<ScopeProfile> {
    let grid = &grid.without_variants();
    let mut parts: Vec<(LanguageGroup, Vec<usize>)> =
        [LanguageGroup::English, LanguageGroup::Other, LanguageGroup::Unknown]
            .map(|group| (group, grid.of_language(group)))
            .to_vec();
    parts.retain(|(_, own)| !own.is_empty());
    let mut scopes = vec![scope(grid, Scope::All)];
    if parts.len() > 1 {
        scopes.extend(
            parts
                .iter()
                .map(|(group, own)| scope(&grid.select(own), (*group).into())),
        );
    }
    scopes
}

fn scope(apart: &Grid, scope: Scope) -> ScopeProfile {
    let grid = &apart.by_group();
    ScopeProfile {
        scope,
        datasets: apart.datasets.clone(),
        groups: grid.datasets.clone(),
        shifts: build::shifts(grid),
        axis_changes: grid.axes().into_iter().filter_map(|axis| change(grid, axis)).collect(),
        rank_stability: ranks::stability(grid),
        rank_shifts: ranks::shifts(grid),
        reliability: reliability::split_half(grid),
        friedman: critical::tests(grid),
        not_computed: missing(grid),
    }
}

fn change(grid: &Grid, axis: Axis) -> Option<AxisChange> {
    let encoders: Vec<usize> = (0..grid.encoders.len()).collect();
    let absolute: Vec<f64> = grid
        .columns_of(axis)
        .into_iter()
        .flat_map(|c| deltas(grid, &encoders, c))
        .map(f64::abs)
        .collect();
    Some(AxisChange {
        axis,
        median_absolute_difference: stats::median(&absolute)?,
        n: absolute.len(),
    })
}

/// Figures that need more encoders or datasets than these.
fn missing(grid: &Grid) -> Vec<NotComputed> {
    let (encoders, datasets) = (grid.encoders.len(), grid.datasets.len());
    let mut missing = Vec::new();
    let mut say = |what: &str, why: String| {
        missing.push(NotComputed {
            what: what.to_owned(),
            why,
        });
    };
    if datasets == 1 {
        say(
            "Tests and intervals over data sets",
            "one data set: a test pairs data sets, so it takes two and, to reach p < 0.05, six".to_owned(),
        );
    }
    if encoders < 2 {
        say(
            "Rank shifts and Kendall's τ between rankings",
            "one encoder: there is nothing to rank; name more with --model".to_owned(),
        );
    } else if encoders == 2 {
        say(
            "A graded Kendall's τ",
            "two encoders: τ is 1 where they keep their order and −1 where they change it".to_owned(),
        );
    }
    if encoders < 3 || datasets < 2 {
        let why = format!("takes three encoders and two data sets, this run has {encoders} and {datasets}");
        say("Split-half reliability", why.clone());
        say("Friedman's test, critical difference and significance groups", why);
    }
    missing
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Column, Level, profile};
    use super::*;

    /// Four encoders, six datasets of two kinds, one transformation a seed; on dataset 5 two
    /// encoders change places.
    fn grid() -> Grid {
        let column = Column::new("paraphrase", Axis::Lexical);
        let names = |n: usize, c: &str| (0..n).map(|i| format!("{c}{i}")).collect::<Vec<_>>();
        let mut grid = Grid::new(names(4, "e"), names(6, "d"), vec![column], vec![1, 2]);
        for e in 0..4 {
            for d in 0..6 {
                let original = 50.0 + 10.0 * e as f64 + d as f64;
                grid.original[e][d] = original;
                grid.transformed[e][d][0] = vec![original - 2.0, original - 4.0];
            }
        }
        // e2 and e3 change places on d5: 75 − 3 = 72 against 85 − 20 = 65, means over seeds.
        grid.transformed[3][5][0] = vec![64.0, 66.0];
        grid.tasks = ["sts", "sts", "sts", "retrieval", "retrieval", "retrieval"]
            .map(str::to_owned)
            .to_vec();
        grid
    }

    #[test]
    fn a_change_of_places_on_one_dataset_costs_that_dataset_a_third_of_its_tau() {
        let profile = profile(&grid(), None);
        let scope = &profile.scopes[0];
        assert_eq!((profile.scopes.len(), scope.scope), (1, Scope::All));
        let total = scope
            .rank_stability
            .iter()
            .find(|one| one.quantity.level == Level::Total)
            .unwrap();
        // Six pairs of encoders, one of them discordant: (5 − 1) / 6.
        assert!((total.datasets[5].tau.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(total.datasets[0].tau, Some(1.0));
        // Mean (5 + 2/3) / 6; deviations 1/18 five times and −5/18: variance (5/324 + 25/324) / 5 =
        // 6/324.
        assert!((total.tau.unwrap() - 17.0 / 18.0).abs() < 1e-12);
        assert!((total.sd.unwrap() - (6.0f64 / 324.0).sqrt()).abs() < 1e-12);
        assert_eq!((total.n, total.reordered), (6, Some(1)));
        assert_eq!(total.reordered_text().as_deref(), Some("order changes on 1 of 6"));
    }

    #[test]
    fn of_three_encoders_the_share_of_changed_orders_stands_in_for_a_deviation_of_tau() {
        let mut grid = grid();
        grid.encoders.remove(0);
        grid.original.remove(0);
        grid.transformed.remove(0);
        let scope = &profile(&grid, None).scopes[0];
        let total = &scope.rank_stability[0];
        assert_eq!((total.sd, total.n, total.reordered), (None, 6, Some(1)));
        // One of three pairs is discordant on one data set of six: (5 + 1/3) / 6.
        assert!((total.tau.unwrap() - 16.0 / 18.0).abs() < 1e-12);
    }

    #[test]
    fn encoders_that_become_level_do_not_change_places() {
        let mut grid = grid();
        grid.transformed[3][5][0] = vec![72.0, 72.0];
        let scope = &profile(&grid, None).scopes[0];
        assert_eq!(scope.rank_stability[0].reordered, Some(0));
        assert!(scope.rank_stability[0].datasets[5].tau.unwrap() < 1.0);
    }

    #[test]
    fn places_are_by_mean_and_count_from_the_best() {
        let scope = &profile(&grid(), None).scopes[0];
        assert_eq!(scope.rank_shifts[3].original, 1.0);
        // Means under transformation keep their order: e3 loses 20 on one dataset of six, e2 is 10
        // behind.
        assert_eq!(
            (scope.rank_shifts[3].under[0].rank, scope.rank_shifts[3].under[0].gained),
            (1.0, 0.0)
        );
    }

    #[test]
    fn halves_that_agree_have_a_median_of_one() {
        let scope = &profile(&grid(), None).scopes[0];
        let total = scope
            .reliability
            .iter()
            .find(|one| one.quantity.level == Level::Total)
            .unwrap();
        assert_eq!((total.median, total.splits, total.undefined), (Some(1.0), 1000, 0));
    }

    #[test]
    fn friedman_ranks_and_letters_follow_the_scores() {
        let scope = &profile(&grid(), None).scopes[0];
        let test = &scope.friedman[0];
        assert_eq!(test.quantity.level, Level::Original);
        // Always the same order of four over six blocks: chi-squared = 6 x 3 = 18.
        assert!((test.statistic.unwrap() - 18.0).abs() < 1e-12);
        assert_eq!(test.encoders[0].encoder, "e3");
        assert_eq!(test.encoders[0].average_rank, 1.0);
        // Demšar's q for four at 0.05 is 2.569: 2.569 x sqrt(20 / 36) = 1.915; first and third
        // differ by 2.
        assert!((test.critical_difference.unwrap() - 1.915).abs() < 1e-3);
        let letters: Vec<&str> = test.encoders.iter().map(|one| one.letters.as_str()).collect();
        assert_eq!(letters, ["a", "ab", "bc", "c"]);
    }

    #[test]
    fn an_axis_moves_scores_by_the_median_of_its_absolute_differences() {
        let scope = &profile(&grid(), None).scopes[0];
        // Mean over encoders: −3 on five datasets, (−3 x 3 − 20) / 4 = −7.25 on d5 (85 → 65 there).
        assert_eq!(scope.axis_changes[0].median_absolute_difference, 3.0);
        assert_eq!(scope.axis_changes[0].n, 6);
    }

    /// Scopes of a profile with their number of data sets.
    fn scopes(profile: &crate::profile::RobustnessProfile) -> Vec<(Scope, usize)> {
        let one = |scope: &ScopeProfile| (scope.scope, scope.datasets.len());
        profile.scopes.iter().map(one).collect()
    }

    #[test]
    fn languages_are_reported_apart_where_there_are_both() {
        let mut grid = grid();
        grid.languages = vec![LanguageGroup::English; 6];
        grid.languages[4] = LanguageGroup::Other;
        grid.languages[5] = LanguageGroup::Other;
        let profile = profile(&grid, None);
        assert_eq!(
            scopes(&profile),
            [(Scope::All, 6), (Scope::English, 4), (Scope::Multilingual, 2)]
        );
    }

    #[test]
    fn a_data_set_of_unknown_language_is_in_no_scope_that_names_one() {
        let mut grid = grid();
        grid.languages = vec![LanguageGroup::English; 6];
        grid.languages[5] = LanguageGroup::Unknown;
        let profile = profile(&grid, None);
        assert_eq!(
            scopes(&profile),
            [(Scope::All, 6), (Scope::English, 5), (Scope::Unknown, 1)]
        );
        assert_eq!(profile.scopes[2].datasets, ["d5"]);
    }

    #[test]
    fn what_is_missing_is_named_with_its_reason() {
        let mut one = grid().select(&[0]);
        one.encoders.truncate(1);
        one.original.truncate(1);
        one.transformed.truncate(1);
        let scope = &profile(&one, None).scopes[0];
        let whats: Vec<&str> = scope.not_computed.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(whats.len(), 4);
        assert!(scope.rank_stability.is_empty() && scope.friedman.is_empty() && scope.reliability.is_empty());
        assert!(scope.not_computed[0].why.contains("one data set"));
        assert!(scope.not_computed[1].why.contains("one encoder"));
    }
}
