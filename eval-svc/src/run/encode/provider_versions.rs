//! Versions of the encoders that do not report their settings.
//!
//! The vector space of such an encoder names no weights, so a server may serve another model under
//! the same name. A run encodes a few fixed texts before its first score, and again after the last.
//! Vectors that agree with those of an earlier run have the version of that run. The version is
//! part of the key of every score, drift and separation: scores of another version are not found.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    encoding::{self, EncodedTexts, PromptedEncoder},
    run::{
        RunContext, RunError,
        plan::{Encoders, Layout},
        progress::RunProgress,
        units::digest_of_texts,
    },
    search_form::SearchForm,
};

/// Folder and format of the stored versions of a vector space.
const FOLDER: &str = "provider";
const FORMAT: &str = "isomer.provider/1";
/// The fixed texts. Another list is another [`FORMAT`].
const TEXTS: [&str; 5] = [
    "A violinist tunes her instrument before the concert begins.",
    "The committee postponed its decision because two reports were missing.",
    "Fresh bread",
    "How long does a parcel to Reykjavik take?",
    "In 1912 the harbour froze for 31 days, and no ship left the bay until March.",
];
/// Maximum number of versions that are stored for a vector space.
const MOST_VERSIONS: usize = 16;
/// Texts of one request, before the first score and after the last. The batches differ, because a
/// vector must not depend on the other texts of its batch.
const BATCH_BEFORE: usize = TEXTS.len();
const BATCH_AFTER: usize = 2;

/// The vectors by which a version is recognised.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ProviderVersion {
    /// BLAKE3 (hex) of the vectors when the version was first observed.
    id: String,
    vectors: Vec<Vec<f32>>,
}

impl ProviderVersion {
    fn new(vectors: Vec<Vec<f32>>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for value in vectors.iter().flatten() {
            hasher.update(&value.to_le_bytes());
        }
        Self {
            id: hasher.finalize().to_hex().to_string(),
            vectors,
        }
    }

    /// How other vectors of the texts differ, in words; `None` if they are of this version.
    fn difference(&self, vectors: &[Vec<f32>]) -> Option<String> {
        let columns = |vectors: &[Vec<f32>]| vectors.first().map_or(0, Vec::len);
        if columns(&self.vectors) != columns(vectors) {
            return Some(format!("{} columns", columns(vectors)));
        }
        let mut pairs = self.vectors.iter().zip(vectors);
        pairs.find_map(|(one, two)| encoding::difference(one, two))
    }
}

/// The versions of a run's encoders.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProviderVersions {
    /// By id of the encoder.
    found: BTreeMap<String, ProviderVersion>,
}

impl ProviderVersions {
    /// Observes the encoders of a plan. `recorded`: versions that an earlier leader of the run
    /// observed.
    ///
    /// # Errors
    /// If an encoder does not answer, or is no longer the one that an earlier leader observed.
    pub(crate) async fn observe(probe: Probe<'_>, recorded: &BTreeMap<String, String>) -> Result<Self, RunError> {
        let Probe {
            context,
            layout,
            encoders,
            progress,
        } = probe;
        let mut versions = Self::default();
        for position in providers(encoders) {
            let id = encoders.id(position);
            let vectors = probe.vectors(position, BATCH_BEFORE).await?;
            let space = layout.tables.first().map(|table| &table.prompts[position].varied_space);
            let parts = [FORMAT, space.map_or("", String::as_str)];
            context.units.fetch_aside(FOLDER, &parts).await;
            let mut known: Vec<ProviderVersion> = context.units.aside(FOLDER, &parts).unwrap_or_default();
            let recorded = recorded.get(id);
            let earlier = recorded.and_then(|recorded| known.iter().find(|one| one.id == *recorded));
            if let Some(difference) = earlier.and_then(|earlier| earlier.difference(&vectors)) {
                return Err(changed(id, &difference));
            }
            // The scores of an earlier leader have its version, which this store may lack.
            let mut others = known.iter().filter(|_| recorded.is_none());
            let same = others.find(|one| one.difference(&vectors).is_none());
            let version = match earlier.or(same) {
                Some(version) => version.clone(),
                None => {
                    if recorded.is_none() && !known.is_empty() {
                        progress.message(format!(
                            "encoder `{id}` has other vectors than in earlier runs: another model answers under its name, and its \
                             scores are computed again"
                        ));
                    }
                    let mut version = ProviderVersion::new(vectors);
                    version.id = recorded.cloned().unwrap_or(version.id);
                    if known.len() == MOST_VERSIONS {
                        known.remove(0);
                    }
                    known.push(version.clone());
                    context
                        .units
                        .put_aside(FOLDER, &parts, &known)
                        .map_err(RunError::Units)?;
                    version
                }
            };
            versions.found.insert(id.to_owned(), version);
        }
        Ok(versions)
    }

    /// The ids of the versions, by id of the encoder.
    pub(crate) fn ids(&self) -> Arc<BTreeMap<String, String>> {
        let all = self.found.iter();
        Arc::new(all.map(|(id, version)| (id.clone(), version.id.clone())).collect())
    }

    /// Makes the versions a part of the names of all vectors of a plan.
    pub(crate) fn apply(&self, layout: &mut Layout, encoders: &Encoders) {
        for position in 0..encoders.len() {
            // A search by terms uses no vectors.
            let lexical = encoders.search(position) == Some(SearchForm::Lexical);
            let Some(version) = self
                .found
                .get(encoders.id(encoders.served(position)))
                .filter(|_| !lexical)
            else {
                continue;
            };
            for prompts in layout.tables.iter_mut().map(|table| &mut table.prompts[position]) {
                for space in [&mut prompts.space, &mut prompts.varied_space] {
                    *space = digest_of_texts([space.as_str(), &version.id].into_iter());
                }
            }
        }
    }

    /// Checks that the encoders still have these versions.
    ///
    /// # Errors
    /// If one does not answer, or has changed.
    pub(crate) async fn confirm(&self, probe: Probe<'_>) -> Result<(), RunError> {
        for position in providers(probe.encoders) {
            let id = probe.encoders.id(position);
            let vectors = probe.vectors(position, BATCH_AFTER).await?;
            if let Some(difference) = self.found.get(id).and_then(|version| version.difference(&vectors)) {
                return Err(changed(id, &difference));
            }
        }
        Ok(())
    }
}

/// Positions of the encoders that do not report their settings.
fn providers(encoders: &Encoders) -> impl Iterator<Item = usize> {
    (0..encoders.len()).filter(|position| !encoders.is_variant(*position) && encoders.is_provider(*position))
}

/// Encodes the fixed texts with the encoders of a run.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) context: &'a RunContext,
    pub(crate) layout: &'a Layout,
    pub(crate) encoders: &'a Encoders,
    pub(crate) progress: &'a RunProgress,
}

impl Probe<'_> {
    /// An encoder's vectors of the fixed texts, under the prompt of the texts that are transformed,
    /// in batches of at most `batch` texts.
    async fn vectors(&self, position: usize, batch: usize) -> Result<Vec<Vec<f32>>, RunError> {
        let planned = &self.encoders[position];
        let table = self.layout.tables.first();
        let prompted = PromptedEncoder {
            work: &*self.context.work,
            encoder: &planned.encoder,
            prompt: planned
                .prompts
                .sent(table.map_or(0, |table| table.varied_slot(position))),
        };
        let observed = prompted.observe(&self.context.clients.encoder, &TEXTS, batch).await;
        let observed: EncodedTexts = observed.map_err(|error| {
            RunError::encoding(&planned.encoder.id, error, |index| {
                format!("the text \"{}\"", TEXTS[index])
            })
        })?;
        self.progress.encoded(TEXTS.len() as u64, &observed.usage);
        Ok((0..TEXTS.len()).map(|text| observed.row(text).to_vec()).collect())
    }
}

fn changed(id: &str, difference: &str) -> RunError {
    RunError::BadVectors {
        id: id.to_owned(),
        message: format!(
            "changed while the run was in progress: {difference} for a fixed text, compared with the start of the run; another \
             model answers now, or its vectors depend on the batch; run again"
        ),
    }
}
