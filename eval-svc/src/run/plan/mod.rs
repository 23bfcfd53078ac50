//! The plan of a run: distinct texts, tables of datasets, units to score. Pure.

pub(super) mod ceiling;
pub(super) mod copies;
pub(super) mod encoders;
pub(super) mod forecast;
pub(super) mod judge;
pub(super) mod order;
pub(super) mod pilot;
pub(super) mod power;
pub(super) mod prepare;
pub(super) mod probe;
pub(super) mod prompting;
pub(super) mod requests;
pub(super) mod rounds;
pub(super) mod table;
pub(super) mod transformations;

use std::collections::BTreeMap;

use isomer_proto::encoder::v1::Encoder;
use isomer_service_kit::WorkMemory;

use self::{
    ceiling::Ceiling,
    encoders::{EncoderVariant, served},
    judge::PlannedJudge,
    prompting::Prompting,
    table::{Corpus, RequestModes, Table, TextRequest},
    transformations::PlannedTransformation,
};
use crate::{form::Form, gate::Bound, search_form::SearchForm, stored_form::StoredForm, suite::Suite, work::Producer};

/// The producer of each kind of text, by its description: the label of a transformation, or a kind
/// of changed copies.
pub(crate) type Producers = BTreeMap<String, Producer>;

/// The planned work of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Memory of the data sets, if a request waits for the plan. A run in the background reserves
    /// none.
    pub _memory: WorkMemory,
    /// The suite, including the request's overrides.
    pub suite: Suite,
    /// Digest of the suite's text.
    pub suite_digest: String,
    /// Generator id; empty: the transform service's default.
    pub generator: String,
    /// Encoders, as they described themselves; each is followed by its forms, then by its
    /// prompt variants.
    pub encoders: Vec<Encoder>,
    /// The kind of each encoder.
    pub variants: Vec<EncoderVariant>,
    /// Their prompts.
    pub prompting: Vec<Prompting>,
    /// Position of the baseline encoder.
    pub baseline: Option<usize>,
    /// The gate's rules, if there are any.
    pub gate: Option<Bound>,
    /// The judge that rates the transformed texts, if there is one.
    pub judge: Option<PlannedJudge>,
    /// The producers of the texts; empty until the transform service was queried.
    pub producers: Producers,
    pub transformations: Vec<PlannedTransformation>,
    /// Distinct texts.
    pub corpus: Corpus,
    /// Datasets.
    pub tables: Vec<Table>,
    /// Texts to transform.
    pub requests: RequestModes<Vec<TextRequest>>,
    /// The run's limits; unlimited until the forecast.
    pub ceiling: Ceiling,
}

/// The scored texts of a dataset: the originals, or their transformed texts under a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Variant {
    /// The original texts.
    Original,
    /// The transformed texts.
    Transformed {
        /// Position in [`Plan::transformations`].
        transformation: usize,
        /// Position in the suite's seeds.
        seed: usize,
    },
}

impl Plan {
    /// Whether it is a variant of another encoder.
    pub(crate) fn is_variant(&self, encoder: usize) -> bool {
        self.served(encoder) != encoder
    }

    /// The stored form of an encoder's vectors, if it is one.
    pub(crate) fn form(&self, encoder: usize) -> Option<StoredForm> {
        match self.variants.get(encoder)? {
            EncoderVariant::Form(Form::Stored(form)) => Some(*form),
            _ => None,
        }
    }

    /// The search of an encoder, if it is not the one by its vectors alone.
    pub(crate) fn search(&self, encoder: usize) -> Option<SearchForm> {
        match self.variants.get(encoder)? {
            EncoderVariant::Form(Form::Search(form)) => Some(*form),
            _ => None,
        }
    }

    /// Position of the encoder whose variant this is. Its service has only that one.
    pub(crate) fn served(&self, encoder: usize) -> usize {
        served(&self.variants, encoder)
    }

    /// Position of the encoder whose vectors this one has: a form those of its encoder.
    pub(crate) fn source(&self, encoder: usize) -> usize {
        match self.variants.get(encoder) {
            Some(EncoderVariant::Form(_)) => self.served(encoder),
            _ => encoder,
        }
    }

    /// Seed of every draw that does not depend on the round: the run's first.
    pub(crate) fn first_seed(&self) -> u64 {
        self.suite.seeds.first().copied().unwrap_or_default()
    }

    /// Number of texts to request: those of each transformation, times the seeds.
    pub(crate) fn texts_planned(&self) -> usize {
        let asked = |planned| self.requests.of(planned).len();
        self.transformations.iter().map(asked).sum::<usize>() * self.suite.seeds.len()
    }

    /// Every variant of a dataset, originals first.
    pub(crate) fn variants(&self) -> Vec<Variant> {
        let transformed = (0..self.transformations.len()).flat_map(|transformation| {
            (0..self.suite.seeds.len()).map(move |seed| Variant::Transformed { transformation, seed })
        });
        std::iter::once(Variant::Original).chain(transformed).collect()
    }

    /// Keeps only these data sets (positions, ascending) and the first seeds, as in a run that
    /// stopped early. Returns the new position of each data set.
    pub(crate) fn narrow(&mut self, tables: &[usize], seeds: usize) -> Vec<Option<usize>> {
        let places = (0..self.tables.len())
            .map(|t| tables.iter().position(|kept| *kept == t))
            .collect();
        let mut position = 0;
        self.tables.retain(|_| {
            position += 1;
            tables.contains(&(position - 1))
        });
        self.suite.seeds.truncate(seeds);
        places
    }

    /// Label of the transformation of a variant; `None` for the originals.
    pub(crate) fn label(&self, variant: Variant) -> Option<&str> {
        match variant {
            Variant::Original => None,
            Variant::Transformed { transformation, .. } => {
                Some(self.transformations.get(transformation)?.label.as_str())
            }
        }
    }

    /// Seed of a variant; `None` for the originals.
    pub(crate) fn seed(&self, variant: Variant) -> Option<u64> {
        match variant {
            Variant::Original => None,
            Variant::Transformed { seed, .. } => self.suite.seeds.get(seed).copied(),
        }
    }

    /// Describes a variant, for example `paraphrase, seed 1337`.
    pub(crate) fn describe(&self, variant: Variant) -> String {
        match (self.label(variant), self.seed(variant)) {
            (Some(label), Some(seed)) => format!("{label}, seed {seed}"),
            _ => "original".to_owned(),
        }
    }
}
