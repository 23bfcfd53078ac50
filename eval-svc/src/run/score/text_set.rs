//! The texts of a data set under one variant: the inputs of one score of each encoder.

use crate::{
    encoding,
    run::{
        encode::{inputs::Inputs, vectors::calibration},
        plan::{Layout, Variant, table::Key},
        transform::{
            TextResults,
            pairs::{Pair, pairs_of, texts_of},
        },
        units::{DriftKey, UnitKey, digest_of_texts},
    },
    search_form::SearchForm,
};

/// A dataset's texts under one variant.
pub(crate) struct TextSet {
    pub(crate) table: usize,
    pub(crate) variant: Variant,
    pub(crate) texts: Vec<u32>,
    pub(crate) digest: String,
    /// Texts with their transformed texts; empty for the originals.
    pub(crate) pairs: Vec<Pair>,
    /// Digest of the pairs' texts.
    pub(crate) pairs_digest: String,
}

impl TextSet {
    pub(crate) fn of(layout: &Layout, text_results: &TextResults, table: usize, variant: Variant) -> Self {
        let texts = texts_of(layout, text_results, table, variant);
        let pairs = pairs_of(layout, text_results, table, variant);
        let both = pairs.iter().flat_map(|(original, rewrite)| [original, rewrite]);
        Self {
            table,
            variant,
            digest: digest_of_texts(texts.iter().map(|text| layout.corpus.get(*text))),
            texts,
            pairs_digest: digest_of_texts(both.map(|text| layout.corpus.get(*text))),
            pairs,
        }
    }

    /// The vectors of its texts under an encoder, in their order.
    pub(crate) fn keys(&self, layout: &Layout, encoder: usize) -> Vec<Key> {
        layout.tables[self.table].keys(encoder, &self.texts)
    }

    /// The vectors that its score needs and that are kept: all except the documents of a large
    /// corpus, and those on which a stored form is calibrated. A search by terms needs none.
    pub(crate) fn score_keys(&self, inputs: Inputs<'_>, encoder: usize) -> Vec<Key> {
        let Inputs { layout, encoders, .. } = inputs;
        if encoders.search(encoder) == Some(SearchForm::Lexical) {
            return Vec::new();
        }
        let mut keys = self.keys(layout, encoder);
        let table = &layout.tables[self.table];
        if let Some(documents) = table.sharded_documents(inputs.context.config.shard_documents) {
            keys.truncate(documents.start);
        }
        keys.extend(calibration(layout, encoders, encoder, self.table));
        keys
    }

    /// The vectors that its drift needs: both sides of every pair, and those on which a stored form
    /// is calibrated. Searches have no drift of their own.
    pub(crate) fn drift_keys(&self, inputs: Inputs<'_>, encoder: usize) -> Vec<Key> {
        let Inputs { layout, encoders, .. } = inputs;
        if encoders.search(encoder).is_some() {
            return Vec::new();
        }
        let slot = layout.tables[self.table].prompts[encoder].varied();
        let both = self.pairs.iter().flat_map(|(original, rewrite)| [*original, *rewrite]);
        let calibrating = calibration(layout, encoders, encoder, self.table);
        both.map(|text| (slot, text)).chain(calibrating).collect()
    }

    /// The key of its score under an encoder: everything that the score depends on.
    pub(crate) fn unit_key(&self, inputs: Inputs<'_>, encoder: usize) -> UnitKey {
        let Inputs { layout, encoders, .. } = inputs;
        let table = &layout.tables[self.table];
        let dataset = &table.dataset;
        // The similarity belongs to the encoder's description rather than to its vectors.
        let similarity = encoding::similarity(&encoders[encoder].encoder);
        UnitKey {
            vector_space: table.prompts[encoder].space.clone(),
            dataset: dataset.digest().to_owned(),
            texts: self.digest.clone(),
            task: match dataset.own_main_score(layout.suite.profile) {
                Some(main) => format!("{}, main score {main}", dataset.task()),
                None => dataset.task().name().to_owned(),
            },
            profile: format!("{}, {similarity:?}", layout.suite.profile.stamp()),
        }
    }

    /// The inputs of its drift under an encoder.
    pub(crate) fn drift_key<'a>(&'a self, layout: &'a Layout, encoder: usize) -> DriftKey<'a> {
        DriftKey {
            vector_space: &layout.tables[self.table].prompts[encoder].varied_space,
            pairs: &self.pairs_digest,
        }
    }
}
