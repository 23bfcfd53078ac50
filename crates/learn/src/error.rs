//! The errors of learning and scoring.

/// Invalid input, or a fit that failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LearnError {
    /// No rows or no columns.
    #[error("{what}: there are none ({rows} rows of {cols} columns)")]
    Empty {
        /// The name of the vectors.
        what: &'static str,
        rows: usize,
        /// Columns.
        cols: usize,
    },
    /// A NaN or an infinity.
    #[error("{what}: row {row} has a value that is not finite (column {col})")]
    NotFinite {
        /// The name of the vectors.
        what: &'static str,
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        col: usize,
    },
    /// Two sets of vectors of different widths.
    #[error("{what} have {found} dimensions, {expected} are needed")]
    Width {
        /// The name of the vectors.
        what: &'static str,
        /// Dimensions needed.
        expected: usize,
        /// Dimensions found.
        found: usize,
    },
    /// The numbers of labels and vectors differ.
    #[error("{what}: {expected} are needed, one per vector, {found} given")]
    Labels {
        /// The name of the labels.
        what: &'static str,
        /// Number of vectors.
        expected: usize,
        /// Number of labels.
        found: usize,
    },
    /// Fewer than two classes.
    #[error("{what} are all `{label}`: at least two classes are needed")]
    OneClass {
        /// The name of the labels.
        what: &'static str,
        /// The only one.
        label: String,
    },
    /// A label of the test rows that no train row has.
    #[error("test row {row} has the label `{label}`, which no train row has")]
    LabelNotInTrain {
        /// Test row, from 0.
        row: usize,
        label: String,
    },
    /// A class that no train row has.
    #[error("class {class} has no train rows")]
    ClassWithoutRows { class: usize },
    /// An index outside the data.
    #[error("{what} {value} is outside 0..{limit} (at position {at})")]
    OutOfRange {
        /// The kind of index, e.g. `class`.
        what: &'static str,
        /// Its position in the list.
        at: usize,
        value: usize,
        /// The number of valid indices.
        limit: usize,
    },
    /// Fewer vectors than requested clusters or neighbours.
    #[error("{needed} {what} cannot be made from {found} vectors")]
    TooFew {
        what: &'static str,
        /// The required number of vectors.
        needed: usize,
        /// The available number of vectors.
        found: usize,
    },
    /// An invalid setting.
    #[error("{name} is {value}: {expected}")]
    Setting {
        name: &'static str,
        value: String,
        expected: &'static str,
    },
    /// A loss or gradient that is not finite, caused by very large values in the vectors.
    #[error("the loss is not finite after {iterations} iterations: are the vectors' values very large?")]
    Diverged { iterations: usize },
}
