//! Scores of searches by terms, alone or fused with vectors. They are computed where the run is
//! led, which has the texts.

use std::sync::Arc;

use ndarray::Array2;

use super::text_set::TextSet;
use crate::{
    compute::Compute,
    dataset::{Dataset, Text},
    encoding,
    lexical::{Analysis, LexicalIndex},
    metric::Similarity,
    run::{
        RunError,
        encode::{EncoderVectors, inputs::Inputs, vectors::Encodings},
        plan::{
            Layout,
            table::{Corpus, Key},
        },
    },
    search_form::{SearchForm, SearchInput, analysis},
    task::Profile,
    work::{ScoreFailure, ScoreRecord},
};

/// The index of documents that was built last. Transformations leave documents as they are, so the
/// variants of a data set share one.
#[derive(Debug, Default)]
pub(crate) struct LastIndex(Option<BuiltIndex>);

/// An index, and what it was built of.
#[derive(Debug)]
struct BuiltIndex {
    documents: Vec<u32>,
    analysis: Analysis,
    index: Arc<LexicalIndex>,
}

impl LastIndex {
    /// The work for the score of a set in a form of an encoder.
    pub(crate) async fn task(
        &mut self,
        encoder: &EncoderVectors<'_>,
        set: &TextSet,
        form: SearchForm,
    ) -> Result<SearchTask, RunError> {
        let (inputs, layout) = (encoder.inputs, encoder.inputs.layout);
        let keys = match form.hybrid() {
            Some(_) => set.keys(layout, encoder.position),
            None => Vec::new(),
        };
        Ok(SearchTask {
            form,
            dataset: Arc::clone(&layout.tables[set.table].dataset),
            documents: self.of(inputs, set).await?,
            queries: texts(layout, sides(layout, set).0),
            vectors: encoder.stored(set.table).matrix(&keys)?,
            similarity: encoding::similarity(&encoder.planned().encoder),
            profile: layout.suite.profile,
        })
    }

    /// The index of a set's documents.
    async fn of(&mut self, inputs: Inputs<'_>, set: &TextSet) -> Result<Arc<LexicalIndex>, RunError> {
        let (_, documents) = sides(inputs.layout, set);
        let analysis = analysis(&inputs.layout.tables[set.table].dataset);
        let same = |last: &&BuiltIndex| last.documents == documents && last.analysis == analysis;
        if let Some(last) = self.0.as_ref().filter(same) {
            return Ok(Arc::clone(&last.index));
        }
        let (texts, language) = (texts(inputs.layout, documents), analysis.clone());
        let built = inputs
            .context
            .compute
            .batch(move || LexicalIndex::new(&texts, language));
        let index = Arc::new(built.await?);
        self.0 = Some(BuiltIndex {
            documents: documents.to_vec(),
            analysis,
            index: Arc::clone(&index),
        });
        Ok(index)
    }
}

/// The texts of a set that are queries, and those that are documents.
fn sides<'a>(layout: &Layout, set: &'a TextSet) -> (&'a [u32], &'a [u32]) {
    let labels = layout.tables[set.table].dataset.retrieval();
    let queries = labels.map_or(0, |labels| labels.query_ids.len());
    set.texts.split_at(queries.min(set.texts.len()))
}

fn texts(layout: &Layout, numbers: &[u32]) -> Vec<Text> {
    numbers.iter().map(|text| layout.corpus.text(*text)).collect()
}

/// The remaining work for a score.
pub(crate) struct SearchTask {
    form: SearchForm,
    dataset: Arc<Dataset>,
    documents: Arc<LexicalIndex>,
    queries: Vec<Text>,
    vectors: Array2<f32>,
    similarity: Similarity,
    profile: Profile,
}

impl SearchTask {
    /// Scores on a thread of runs.
    pub(crate) async fn score(self, compute: Compute) -> Result<ScoreRecord, ScoreFailure> {
        let scored = compute.batch(move || {
            self.form.score(SearchInput {
                dataset: &self.dataset,
                documents: &self.documents,
                queries: &self.queries,
                vectors: self.vectors.view(),
                similarity: self.similarity,
                profile: self.profile,
            })
        });
        match scored.await {
            Ok(scored) => scored.map(ScoreRecord::from).map_err(ScoreFailure::Undefined),
            Err(error) => Err(ScoreFailure::Stopped(error.to_string())),
        }
    }
}

/// Texts that are searched by their terms: none is truncated, and none has the vector of another.
pub(crate) struct LexicalEncodings<'a>(pub(crate) &'a Corpus);

impl Encodings for LexicalEncodings<'_> {
    fn cut(&self, _position: usize, _key: Key) -> Option<Option<bool>> {
        Some(Some(false))
    }

    fn zero(&self, _position: usize, _key: Key) -> Option<bool> {
        Some(false)
    }

    fn digest(&self, _position: usize, key: Key) -> Option<[u8; blake3::OUT_LEN]> {
        Some(*blake3::hash(self.0.get(key.1).as_bytes()).as_bytes())
    }
}
