//! Labels as numbers.

use std::fmt::Display;

use crate::LearnError;

/// The classes: distinct labels in order. Strings are ordered by code point, as in Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Classes<'a, L>(Vec<&'a L>);

impl<'a, L: Ord> Classes<'a, L> {
    pub(crate) fn of(labels: impl IntoIterator<Item = &'a L>) -> Self {
        let mut distinct: Vec<&L> = labels.into_iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        Self(distinct)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The classes, in order.
    pub(crate) fn into_inner(self) -> Vec<&'a L> {
        self.0
    }

    pub(crate) fn number(&self, label: &L) -> Option<usize> {
        self.0.binary_search(&label).ok()
    }

    /// The numbers of labels that are all known.
    pub(crate) fn numbers<'l>(&self, labels: impl IntoIterator<Item = &'l L>) -> Vec<usize>
    where
        L: 'l,
    {
        labels.into_iter().filter_map(|l| self.number(l)).collect()
    }
}

impl<L: Ord + Display> Classes<'_, L> {
    /// Requires at least two classes.
    pub(crate) fn check_several(&self, what: &'static str) -> Result<(), LearnError> {
        match self.0.as_slice() {
            [only] => Err(LearnError::OneClass {
                what,
                label: only.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Requires every test label to be one of these classes.
    pub(crate) fn check_test(&self, labels: &[L]) -> Result<(), LearnError> {
        match labels.iter().position(|l| self.number(l).is_none()) {
            Some(row) => Err(LearnError::LabelNotInTrain {
                row,
                label: labels[row].to_string(),
            }),
            None => Ok(()),
        }
    }
}
