//! A graph for approximate search: hierarchical navigable small worlds.
//!
//! Source: Malkov & Yashunin 2016, arXiv 1603.09320, whose numbering of algorithms is used. The
//! graph is built on all cores and is the same, link for link, whatever their number: documents are
//! inserted in rounds, as in ParlayANN (Manohar et al. 2024, arXiv 2305.04359). All documents of a
//! round search the graph as it was before the round. Their links, and the links back to them, are
//! then created by a rule that does not depend on the order of the work.
//!
//! * `options`: settings of building and searching.
//! * `graph`: a graph, built and searched.
//! * `space`: distances of rows.
//! * `layer`: links of one layer.
//! * `beam`: the search of one layer.
//! * `order`: the order of insertion.
//! * `build`: layers and rounds.
//! * `repair`: links to documents that would otherwise be unreachable.
//!
//! Documents are identified by their *place*, the order of their insertion, so that the documents
//! of a layer are the first of the layer below. Vectors in standard layout are not copied. In
//! addition to them a graph takes about 280 bytes per document, and one byte per document for each
//! searching thread.

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
