//! The data sets of the papers (HTEB, PTEB, GASE) as data: repository, revision, split and columns.

use std::{collections::BTreeMap, sync::LazyLock};

use isomer_config::spelling::nearest;
use serde::Deserialize;

use super::{FieldMap, HubRef, LoadOptions};
use isomer_scoring::task::TaskType;

/// A data set with a name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// mteb's name of the task, e.g. `Banking77Classification`.
    pub name: String,
    /// Kind of task.
    pub task: TaskType,
    hub: String,
    revision: String,
    /// The split that is scored.
    pub split: String,
    /// Main score under `mteb-v2`.
    pub metric: String,
    /// The fields a robustness check transforms.
    pub transformed: Vec<String>,
    /// Languages as mteb codes them (`eng-Latn`), by subset; a data set without subsets has one,
    /// `default`.
    pub languages: BTreeMap<String, Vec<String>>,
    /// Language subsets, as mteb names and orders them; empty if there is only one, without a name.
    #[serde(default)]
    pub subsets: Vec<String>,
    /// Retrieval: a document with the query's own id does not count as a result.
    #[serde(default)]
    pub ignore_identical_ids: bool,
    /// Classification: train rows per label in each fit; absent: 8.
    pub samples_per_label: Option<usize>,
    /// Clustering: mteb scores it in the older form.
    #[serde(default)]
    pub legacy_clustering: bool,
    /// Clustering in the current form: the rows are sets, which mteb joins to one list of
    /// documents.
    #[serde(default)]
    pub joined_sets: bool,
    /// Clustering: single documents are cut into this many sets, as mteb's rows are.
    pub sets: Option<usize>,
    /// The data set that corrects this one in mteb. A superseded data set is listed nowhere, but
    /// its name is accepted.
    pub superseded_by: Option<String>,
    #[serde(default)]
    fields: BTreeMap<String, String>,
    /// The papers' collections that contain it.
    #[serde(default, rename = "family")]
    pub families: Vec<Membership>,
}

/// A paper's collection that contains a data set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// One of [`FAMILIES`].
    pub name: String,
    /// The subsets that the paper used; empty: all.
    #[serde(default)]
    pub subsets: Vec<String>,
}

/// Collections of the papers.
pub const FAMILIES: [&str; 4] = ["hteb-english", "hteb-multilingual", "pteb", "gase"];

impl Entry {
    /// Its repository at the pinned revision.
    pub fn hub(&self) -> HubRef {
        HubRef {
            repo: self.hub.clone(),
            config: None,
            revision: Some(self.revision.clone()),
        }
    }

    /// Its columns whose names differ from ours.
    pub fn fields(&self) -> FieldMap {
        let pair = |(ours, theirs): (&String, &String)| (ours.clone(), theirs.clone());
        self.fields.iter().map(pair).collect()
    }

    /// Fills in options that are not set.
    #[cfg(feature = "locate")]
    pub(crate) fn apply(&'static self, options: &mut LoadOptions) {
        for (ours, theirs) in self.fields() {
            if !options.fields.iter().any(|(known, _)| *known == ours) {
                options.fields.push((ours, theirs));
            }
        }
        options.name.get_or_insert_with(|| self.name.clone());
        options.ignore_identical_ids |= self.ignore_identical_ids;
        options.legacy_clustering |= self.legacy_clustering;
        if options.samples_per_label.is_none() {
            options.samples_per_label = self.samples_per_label;
        }
        options.sets = options.sets.or(self.sets);
        options.entry = Some(self);
    }

    /// Notes for users on data that were loaded with these options.
    pub(crate) fn notes(&self, options: &LoadOptions) -> Vec<String> {
        let superseded = self.superseded_by.as_ref().map(|current| {
            format!(
                "mteb has replaced {} by {current}, which corrects its rows or its scores",
                self.name
            )
        });
        let layout = self.sets.filter(|sets| options.sets != Some(*sets)).map(|sets| {
            let chosen = options.sets.unwrap_or(1);
            format!(
                "clustered in sets of another number ({chosen}) than mteb's ({sets}): the scores differ by up to 0.28"
            )
        });
        superseded.into_iter().chain(layout).collect()
    }

    /// mteb's codes of the languages of a subset.
    pub fn languages_of(&self, subset: Option<&str>) -> Option<&[String]> {
        self.languages.get(subset.unwrap_or("default")).map(Vec::as_slice)
    }
}

/// All of them, by name.
pub fn entries() -> &'static [Entry] {
    #[derive(Deserialize)]
    struct File {
        dataset: Vec<Entry>,
    }
    static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        match toml::from_str::<File>(include_str!("../catalogue/datasets.toml")) {
            Ok(file) => file.dataset,
            // A test reads the file, so a release cannot contain an error here.
            Err(error) => {
                tracing::error!(%error, "the catalogue of data sets is broken; none can be named");
                Vec::new()
            }
        }
    });
    &ENTRIES
}

/// Those that mteb has not replaced.
pub fn current() -> impl Iterator<Item = &'static Entry> {
    entries().iter().filter(|entry| entry.superseded_by.is_none())
}

/// The data set with this name, ignoring case.
pub fn find(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// The name that a typo most likely stands for.
pub fn nearest_name(name: &str) -> Option<&'static str> {
    nearest(name, entries().iter().map(|entry| entry.name.as_str()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(family: &str) -> Vec<&'static Entry> {
        let member = |entry: &&Entry| entry.families.iter().any(|membership| membership.name == family);
        entries().iter().filter(member).collect()
    }

    #[test]
    fn the_papers_have_as_many_data_sets_as_they_say() {
        assert_eq!(FAMILIES.map(|family| of(family).len()), [19, 13, 20, 14]);
    }

    #[test]
    fn every_entry_is_pinned_and_says_what_is_transformed() {
        for entry in entries() {
            let hub = entry.hub();
            assert_eq!(hub.revision.unwrap().len(), 40, "{}", entry.name);
            assert!(HubRef::parse(&hub.repo).is_some(), "{}", entry.name);
            assert!(!entry.transformed.is_empty(), "{}", entry.name);
            let subsets = if entry.subsets.is_empty() {
                vec!["default".to_owned()]
            } else {
                entry.subsets.clone()
            };
            for subset in &subsets {
                assert!(
                    entry.languages_of(Some(subset)).is_some_and(|codes| !codes.is_empty()),
                    "{}",
                    entry.name
                );
            }
            for membership in &entry.families {
                assert!(FAMILIES.contains(&membership.name.as_str()), "{}", entry.name);
                assert!(membership.subsets.iter().all(|s| subsets.contains(s)), "{}", entry.name);
            }
        }
    }

    /// A data set in mteb's package.
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        path: String,
        revision: String,
        splits: Vec<String>,
        metric: String,
        superseded_by: Option<String>,
    }

    #[test]
    fn every_entry_is_as_in_the_metadata_of_mteb() {
        let metadata: Vec<Metadata> = serde_json::from_str(include_str!("../catalogue/metadata.json")).unwrap();
        assert_eq!(metadata.len(), entries().len());
        for entry in entries() {
            let theirs = metadata.iter().find(|theirs| theirs.name == entry.name).unwrap();
            assert_eq!(
                (&entry.hub, &entry.revision, &entry.metric, &entry.superseded_by),
                (&theirs.path, &theirs.revision, &theirs.metric, &theirs.superseded_by),
                "{}",
                entry.name
            );
            assert!(theirs.splits.contains(&entry.split), "{}", entry.name);
        }
    }

    #[test]
    fn a_superseded_data_set_is_in_no_collection_and_its_successor_is_current() {
        let superseded: Vec<&Entry> = entries().iter().filter(|entry| entry.superseded_by.is_some()).collect();
        assert_eq!(superseded.len(), 9);
        for entry in superseded {
            assert!(entry.families.is_empty(), "{}", entry.name);
            let successor = find(entry.superseded_by.as_deref().unwrap()).unwrap();
            assert!(current().any(|one| one.name == successor.name), "{}", entry.name);
            let notes = entry.notes(&LoadOptions::default());
            assert!(notes.len() == 1 && notes[0].contains(&successor.name), "{notes:?}");
        }
    }

    #[test]
    fn no_current_classification_is_scored_on_its_train_split() {
        let classifications = current().filter(|entry| entry.task == TaskType::Classification);
        assert_eq!(classifications.filter(|entry| entry.split == "train").count(), 0);
    }

    #[test]
    fn names_are_found_in_any_case_and_typos_lead_to_them() {
        assert_eq!(find("stsbenchmark").unwrap().name, "STSBenchmark");
        assert_eq!(nearest_name("Banking7Classification"), Some("Banking77Classification"));
    }
}
