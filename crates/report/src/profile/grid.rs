//! The scores of a run as a grid.

use super::{Axis, LanguageGroup};
use crate::terms::ChannelDose;

/// A transformation as the profile uses it.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name with parameters.
    pub label: String,
    pub axis: Axis,
    /// Channel and dose, if it is noise.
    pub noise: Option<ChannelDose>,
}

impl Column {
    /// A transformation that is not noise.
    pub fn new(label: impl Into<String>, axis: Axis) -> Self {
        Self {
            label: label.into(),
            axis,
            noise: None,
        }
    }
}

/// Main scores x 100, complete: every encoder on every dataset, original and under every
/// transformation and seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Encoder ids.
    pub encoders: Vec<String>,
    /// Whether each encoder is a variant of another, which statistics over encoders leave out.
    pub variants: Vec<bool>,
    /// Dataset names.
    pub datasets: Vec<String>,
    /// The group of each dataset: its languages or parts are averaged before any statistic over
    /// datasets.
    pub groups: Vec<String>,
    /// Transformations.
    pub columns: Vec<Column>,
    pub seeds: Vec<u64>,
    /// `[encoder][dataset]`.
    pub original: Vec<Vec<f64>>,
    /// `[encoder][dataset][transformation][seed]`.
    pub transformed: Vec<Vec<Vec<Vec<f64>>>>,
    /// `[dataset][transformation]`: whether all seeds gave the same texts.
    pub same_texts: Vec<Vec<bool>>,
    /// Kind of task of each dataset, by which split halves are stratified.
    pub tasks: Vec<String>,
    /// Whether each dataset is in English.
    pub languages: Vec<LanguageGroup>,
}

impl Grid {
    /// An empty grid (NaN everywhere) of this layout.
    pub fn new(encoders: Vec<String>, datasets: Vec<String>, columns: Vec<Column>, seeds: Vec<u64>) -> Self {
        let seeded = vec![vec![f64::NAN; seeds.len()]; columns.len()];
        Self {
            original: vec![vec![f64::NAN; datasets.len()]; encoders.len()],
            transformed: vec![vec![seeded; datasets.len()]; encoders.len()],
            same_texts: vec![vec![false; columns.len()]; datasets.len()],
            tasks: vec![String::new(); datasets.len()],
            languages: vec![LanguageGroup::Unknown; datasets.len()],
            groups: datasets.clone(),
            variants: vec![false; encoders.len()],
            encoders,
            datasets,
            columns,
            seeds,
        }
    }

    /// A grid of tests, its scores not yet filled in.
    #[cfg(test)]
    pub(crate) fn of(encoders: &[&str], datasets: &[&str], columns: &[(&str, Axis)], seeds: &[u64]) -> Self {
        let names = |own: &[&str]| own.iter().map(|name| (*name).to_owned()).collect();
        let columns = columns.iter().map(|(label, axis)| Column::new(*label, *axis));
        Self::new(names(encoders), names(datasets), columns.collect(), seeds.to_vec())
    }

    /// An encoder's scores on a data set: the original, then every transformation and seed.
    pub(crate) fn scores(&self, encoder: usize, dataset: usize) -> Vec<f64> {
        let transformed = self.transformed[encoder][dataset].iter().flatten();
        std::iter::once(&self.original[encoder][dataset])
            .chain(transformed)
            .copied()
            .collect()
    }

    /// Axes that occur, in the order of the tables.
    pub fn axes(&self) -> Vec<Axis> {
        Axis::SCORED
            .into_iter()
            .filter(|axis| self.columns.iter().any(|column| column.axis == *axis))
            .collect()
    }

    /// The grid without variants of encoders.
    #[must_use]
    pub fn without_variants(&self) -> Self {
        let mut grid = self.clone();
        let is_plain = |e: &usize| !self.variants[*e];
        let plain: Vec<usize> = (0..self.encoders.len()).filter(is_plain).collect();
        grid.encoders = plain.iter().map(|e| self.encoders[*e].clone()).collect();
        grid.original = plain.iter().map(|e| self.original[*e].clone()).collect();
        grid.transformed = plain.iter().map(|e| self.transformed[*e].clone()).collect();
        grid.variants = vec![false; plain.len()];
        grid
    }

    /// The same grid over some of its datasets.
    pub fn select(&self, datasets: &[usize]) -> Self {
        fn of<T: Clone>(all: &[T], chosen: &[usize]) -> Vec<T> {
            chosen.iter().filter_map(|d| all.get(*d)).cloned().collect()
        }
        Self {
            encoders: self.encoders.clone(),
            variants: self.variants.clone(),
            datasets: of(&self.datasets, datasets),
            groups: of(&self.groups, datasets),
            columns: self.columns.clone(),
            seeds: self.seeds.clone(),
            original: self.original.iter().map(|scores| of(scores, datasets)).collect(),
            transformed: self.transformed.iter().map(|scores| of(scores, datasets)).collect(),
            same_texts: of(&self.same_texts, datasets),
            tasks: of(&self.tasks, datasets),
            languages: of(&self.languages, datasets),
        }
    }

    /// Indices of the datasets of each group, in the order of their first members.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members: Vec<Vec<usize>> = Vec::new();
        for d in 0..self.datasets.len() {
            match members.iter_mut().find(|own| self.groups[own[0]] == self.groups[d]) {
                Some(own) => own.push(d),
                None => members.push(vec![d]),
            }
        }
        members
    }

    /// The grid of the groups: each is the mean of its datasets, seed by seed, and counts as one
    /// dataset. A group of one keeps the dataset's name.
    #[must_use]
    pub fn by_group(&self) -> Self {
        let members = self.members();
        if members.len() == self.datasets.len() {
            return self.clone();
        }
        let average =
            |own: &[usize], of: &dyn Fn(usize) -> f64| own.iter().map(|d| of(*d)).sum::<f64>() / own.len() as f64;
        let name = |own: &Vec<usize>| match own.as_slice() {
            [one] => self.datasets[*one].clone(),
            _ => self.groups[own[0]].clone(),
        };
        let original = (0..self.encoders.len()).map(|e| {
            let scores = members.iter().map(|own| average(own, &|d| self.original[e][d]));
            scores.collect()
        });
        let transformed = (0..self.encoders.len()).map(|e| {
            let of_group = |own: &Vec<usize>| -> Vec<Vec<f64>> {
                let of_seed = |c: usize, s: usize| average(own, &|d| self.transformed[e][d][c][s]);
                (0..self.columns.len())
                    .map(|c| (0..self.seeds.len()).map(|s| of_seed(c, s)).collect())
                    .collect()
            };
            members.iter().map(of_group).collect()
        });
        let same = |own: &Vec<usize>| -> Vec<bool> {
            (0..self.columns.len())
                .map(|c| own.iter().all(|d| self.same_texts[*d][c]))
                .collect()
        };
        Self {
            encoders: self.encoders.clone(),
            variants: self.variants.clone(),
            datasets: members.iter().map(name).collect(),
            groups: members.iter().map(name).collect(),
            columns: self.columns.clone(),
            seeds: self.seeds.clone(),
            original: original.collect(),
            transformed: transformed.collect(),
            same_texts: members.iter().map(same).collect(),
            tasks: members.iter().map(|own| self.tasks[own[0]].clone()).collect(),
            languages: members
                .iter()
                .map(|own| LanguageGroup::of_all(own.iter().map(|d| self.languages[*d])))
                .collect(),
        }
    }

    /// Indices of the datasets of a language group.
    pub fn of_language(&self, group: LanguageGroup) -> Vec<usize> {
        (0..self.datasets.len())
            .filter(|d| self.languages[*d] == group)
            .collect()
    }

    /// Transformations of an axis.
    pub(super) fn columns_of(&self, axis: Axis) -> Vec<usize> {
        (0..self.columns.len())
            .filter(|c| self.columns[*c].axis == axis)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::profile;

    /// Two encoders, four data sets; the last three are the languages of one.
    fn grid() -> Grid {
        let column = Column::new("paraphrase", Axis::Lexical);
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut grid = Grid::new(
            names(&["a", "b"]),
            names(&["x", "y (de)", "y (fr)", "y (ar)"]),
            vec![column],
            vec![1, 2],
        );
        grid.groups = names(&["x", "y", "y", "y"]);
        grid.original = vec![vec![80.0, 60.0, 50.0, 40.0], vec![81.0, 61.0, 51.0, 41.0]];
        // Encoder a loses 2 on x, and 1, 2 and 9 on the languages: 4 on average.
        let drops = [2.0, 1.0, 2.0, 9.0];
        for (d, drop) in drops.into_iter().enumerate() {
            for e in 0..2 {
                let now = grid.original[e][d] - drop * (1 + e) as f64;
                grid.transformed[e][d][0] = vec![now - 0.5, now + 0.5];
            }
        }
        grid
    }

    #[test]
    fn a_data_set_in_many_languages_counts_once() {
        let made = profile(&grid(), Some(0));
        let encoder = &made.encoders[0];
        // (80 + 50) / 2 and (2 + 4) / 2; data set by data set it would be 57.5 and 3.5.
        assert_eq!(encoder.original, 65.0);
        assert_eq!(encoder.total.as_ref().map(|total| total.delta), Some(-3.0));
        assert_eq!(encoder.transformations[0].shift.as_ref().map(|shift| shift.n), Some(2));
        assert_eq!((made.n_datasets, made.n_groups, encoder.datasets.len()), (4, 2, 4));
        let scope = &made.scopes[0];
        assert_eq!(
            (scope.datasets.len(), scope.groups.as_slice()),
            (4, &["x".to_owned(), "y".to_owned()][..])
        );
        assert_eq!(scope.rank_stability[0].n, 2);
        assert_eq!(made.shifts[0].shift.n, 2);
        // Encoder b starts 1 above and loses twice as much: its total is 2 below a's, tested over
        // two groups.
        let total = made
            .baseline
            .as_ref()
            .and_then(|one| one.comparisons.iter().find(|one| one.quantity == "total"));
        assert_eq!(
            total.map(|one| (one.shift.n, one.shift.mean_difference)),
            Some((2, -2.0))
        );
        assert_eq!(made.counted(), "2 groups of 4 data sets");
    }

    #[test]
    fn a_group_in_english_and_another_language_is_split_between_the_scopes_first() {
        let mut grid = grid();
        grid.languages = ["en", "en", "fr", "ar"]
            .map(|code| LanguageGroup::of(std::iter::once(code), None))
            .to_vec();
        let made = profile(&grid, None);
        let groups: Vec<usize> = made.scopes.iter().map(|scope| scope.groups.len()).collect();
        assert_eq!(groups, [2, 2, 1]);
        // A language that is alone in its scope keeps its own name.
        assert_eq!(made.scopes[1].groups, ["x", "y (de)"]);
        assert_eq!(made.scopes[2].groups, ["y"]);
    }

    #[test]
    fn groups_of_one_change_nothing() {
        let mut grid = grid();
        grid.groups = ["p", "q", "r", "s"].map(str::to_owned).to_vec();
        let by_group = grid.by_group();
        assert_eq!(
            (by_group.datasets, by_group.original),
            (grid.datasets.clone(), grid.original.clone())
        );
    }
}
