//! Settings of building and searching.

/// Settings of building and searching a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswOptions {
    /// Number of candidates considered for each document's links. A larger number builds more
    /// slowly and finds more. At least 1.
    pub ef_construction: usize,
    /// Number of candidates held during a query, never fewer than the requested documents. A larger
    /// number is slower and finds more. At least 1.
    pub ef_search: usize,
    /// Seed of the insertion order of documents, and of their layers.
    pub seed: u64,
}

impl Default for HnswOptions {
    fn default() -> Self {
        Self {
            ef_construction: 100,
            ef_search: 100,
            seed: 42,
        }
    }
}
