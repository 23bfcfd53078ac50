//! Transformations that need no generator: pure functions of the text, its parameters and, for
//! random draws, a seed.

pub mod multi_swap;
pub mod noise;
pub mod random_keywords;
pub mod stopwords;
