//! A graph, built and searched.

use ndarray::ArrayView2;

use super::{beam::Beams, build, layer::Layer, options::HnswOptions, order::ENTRY, space::Space};
use crate::metric::similarity::Similarity;

/// A graph over documents, which any number of threads can search.
#[derive(Debug)]
pub struct Graph<'a> {
    space: Space<'a>,
    /// The lowest layer is the first.
    pub(super) layers: Vec<Layer>,
    beams: Beams,
}

impl<'a> Graph<'a> {
    /// Builds the graph on all threads of the current pool. `options.ef_search` is not used.
    ///
    /// # Panics
    /// For 2³¹ documents or more.
    pub fn build(documents: ArrayView2<'a, f32>, similarity: Similarity, options: HnswOptions) -> Self {
        let beams = Beams::new(documents.nrows());
        let (space, layers) = build::layers(documents, similarity, options, &beams);
        Self { space, layers, beams }
    }

    /// The nearest documents to a query that the search finds, by row, nearest first: at most `ef`,
    /// which is also the number of candidates held. If `ef` is not less than the number of
    /// documents, every document is found.
    pub fn search(&self, query: &[f32], ef: usize) -> Vec<usize> {
        let Some(lowest) = self.layers.first() else {
            return Vec::new();
        };
        let query = self.space.query(query);
        self.beams.with(|beam| {
            let mut nearest = ENTRY;
            for layer in self.layers.iter().skip(1).rev() {
                nearest = beam.nearest(&self.space, layer.all(), query, nearest);
            }
            // The entry is included, because every document can be reached from it.
            let starts = [nearest, ENTRY];
            beam.search(&self.space, lowest.all(), query, &starts, ef.max(1));
            beam.found().map(|place| self.space.document(place)).collect()
        })
    }
}
