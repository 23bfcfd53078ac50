//! Texts that an encoder cut at its length.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many of some texts an encoder cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CutCount {
    /// Texts encoded, each distinct one once.
    pub texts: u64,
    /// Of these, texts that the encoder cut.
    pub cut: u64,
    /// Of these, texts of which the encoder did not say whether it cut them.
    pub unknown: u64,
}

impl CutCount {
    /// A count of texts whose truncation is unknown.
    pub fn unknown(texts: u64) -> Self {
        Self {
            texts,
            cut: 0,
            unknown: texts,
        }
    }

    /// Counts one more text; `None`: the encoder does not say.
    pub fn add(&mut self, cut: Option<bool>) {
        self.texts += 1;
        match cut {
            Some(cut) => self.cut += u64::from(cut),
            None => self.unknown += 1,
        }
    }

    /// Adds other texts.
    pub fn extend(&mut self, more: Self) {
        self.texts += more.texts;
        self.cut += more.cut;
        self.unknown += more.unknown;
    }

    /// Share of the texts that was cut. `None` without texts, or if for one of them it is not
    /// known.
    pub fn share(self) -> Option<f64> {
        (self.texts > 0 && self.unknown == 0).then(|| self.cut as f64 / self.texts as f64)
    }

    /// Whether every text was cut. `None` where that is not known.
    pub fn all_cut(self) -> Option<bool> {
        match self.share() {
            Some(share) => Some(share >= 1.0),
            // One text that was not cut is enough to know.
            None if self.texts > self.cut + self.unknown => Some(false),
            None => None,
        }
    }
}

impl FromIterator<Option<bool>> for CutCount {
    fn from_iter<I: IntoIterator<Item = Option<bool>>>(texts: I) -> Self {
        let mut count = Self::default();
        texts.into_iter().for_each(|cut| count.add(cut));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_nought() {
        let told: CutCount = [Some(true), Some(false), Some(false), Some(false)]
            .into_iter()
            .collect();
        assert_eq!((told.share(), told.all_cut()), (Some(0.25), Some(false)));
        let silent: CutCount = [None, None].into_iter().collect();
        assert_eq!(silent, CutCount::unknown(2));
        assert_eq!((silent.share(), silent.all_cut()), (None, None));
        let partly: CutCount = [Some(true), None].into_iter().collect();
        assert_eq!((partly.share(), partly.all_cut()), (None, None));
        let one_whole: CutCount = [Some(true), None, Some(false)].into_iter().collect();
        assert_eq!((one_whole.share(), one_whole.all_cut()), (None, Some(false)));
        let all: CutCount = [Some(true)].into_iter().collect();
        assert_eq!(all.all_cut(), Some(true));
        assert_eq!(CutCount::default().share(), None);
    }
}
