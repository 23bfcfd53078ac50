//! A graph for approximate search: a hierarchy of navigable small worlds.
//!
//! Source: Malkov & Yashunin 2016, arXiv 1603.09320; the numbers of algorithms are theirs. The
//! graph is built on all cores and is the same, link for link, whatever their number: documents
//! enter in rounds, as in ParlayANN (Manohar et al. 2024, arXiv 2305.04359). All documents of a
//! round search the graph as it was before the round. Their links, and the links back to them, are
//! then made by a rule that does not depend on the order of the work.
//!
//! * `options`: settings of building and searching.
//! * `graph`: a graph, built and searched.
//! * `space`: distances of rows.
//! * `layer`: links of one layer.
//! * `beam`: the search of one layer.
//! * `order`: the order of entering.
//! * `build`: layers and rounds.
//! * `repair`: links to documents that cannot be reached without.
//!
//! Documents are known by their *place*, the order in which they enter: the documents of a layer
//! are then the first of the layer below. Vectors in standard layout are not copied. Beside them a
//! graph holds about 280 bytes a document, and a byte a document for each thread that searches.

mod beam;
mod build;
mod graph;
mod layer;
mod options;
mod order;
mod repair;
mod space;
#[cfg(test)]
mod tests;

pub use graph::Graph;
pub use layer::{LINKS, LOWEST_LINKS};
pub use options::HnswOptions;
