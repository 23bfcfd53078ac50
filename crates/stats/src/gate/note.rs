//! Remarks on a decision for its readers.

/// The reason why a decision is missing, or a caveat of the decision. The caller supplies the name
/// of its units: [`Note::in_words`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Note {
    /// The bounds lie on both sides of the limit.
    Straddles,
    /// A single unit has no bounds.
    OneUnit {
        /// Number of units that would have bounds.
        needed: usize,
    },
    /// This number of units is too small for a signed-rank bound at this probability of error.
    NoSignedRankBound {
        units: usize,
        /// The probability of error.
        alpha: f64,
        /// Number of units that would have a bound.
        needed: usize,
    },
}

impl Note {
    /// The note in words. `one` and `many` name the units: `data set`, `data sets`.
    pub fn in_words(&self, one: &str, many: &str) -> String {
        match self {
            Self::Straddles => "the bounds straddle the limit".to_owned(),
            Self::OneUnit { needed } => format!("one {one} only: no test is possible; {needed} or more are needed"),
            Self::NoSignedRankBound { units, alpha, needed } => {
                format!("{units} {many} allow no signed-rank bound at {alpha}; {needed} or more are needed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Note;

    #[test]
    fn the_units_have_the_callers_name() {
        let one = Note::OneUnit { needed: 5 };
        assert_eq!(
            one.in_words("data set", "data sets"),
            "one data set only: no test is possible; 5 or more are needed"
        );
        let few = Note::NoSignedRankBound {
            units: 4,
            alpha: 0.05,
            needed: 5,
        };
        assert_eq!(
            few.in_words("item", "items"),
            "4 items allow no signed-rank bound at 0.05; 5 or more are needed"
        );
    }
}
