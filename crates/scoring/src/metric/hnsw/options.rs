//! Settings of building and searching.

/// Settings of building and searching a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswOptions {
    /// Candidates considered for each document's links; more build slower and find more. At least
    /// 1.
    pub ef_construction: usize,
    /// Candidates held while a query is answered, never fewer than the documents wanted; more are
    /// slower and find more. At least 1.
    pub ef_search: usize,
    /// Seed of the order in which documents enter the graph, and of their layers.
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
