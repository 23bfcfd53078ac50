//! The texts of a run: distinct texts with their numbers, and the tables of its data sets. Pure.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    ops::Range,
    sync::Arc,
};

use super::{datasets::LoadedDataset, transformations::PlannedTransformation};
use crate::{
    dataset::{Dataset, Text},
    prompts::{DatasetPrompts, Part},
    report::CopyCounts,
    separation::{Kind, TextCopies},
    suite::DatasetSpec,
};

/// Number of a prompt among those of an encoder; 0 is the encoder's default.
pub(crate) type Slot = usize;
/// A vector of an encoder: a text under a prompt.
pub(crate) type Key = (Slot, u32);

/// Distinct texts of a run, each with a number.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    texts: Vec<Text>,
    numbers: HashMap<Text, u32>,
}

impl Corpus {
    /// The text's number; equal texts have equal numbers.
    pub(crate) fn intern<T: AsRef<str> + Into<Text>>(&mut self, text: T) -> u32 {
        if let Some(number) = self.numbers.get(text.as_ref()) {
            return *number;
        }
        // The numbers of 2³² distinct texts do not fit in memory, so none ever saturates.
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let text: Text = text.into();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// Number of texts.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// A copy of the text with a number, which shares its bytes.
    pub(crate) fn text(&self, number: u32) -> Text {
        let text = self.texts.get(number as usize).cloned();
        text.unwrap_or_else(|| String::new().into())
    }

    /// The text with a number.
    pub(crate) fn get(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }
}

/// A dataset of the run.
#[derive(Debug)]
pub(crate) struct Table {
    /// The data.
    pub dataset: Arc<Dataset>,
    /// The suite's entry for it.
    pub spec: DatasetSpec,
    /// Number of each text, in the dataset's order.
    pub texts: Vec<u32>,
    /// For each text that is transformed, its position in [`super::layout::Layout::requests`].
    pub requests: RequestModes<Vec<Option<usize>>>,
    /// Prompts of its texts, by encoder.
    pub prompts: Vec<TablePrompts>,
    /// Copies of its texts with changed meaning; empty if separation is not measured.
    pub copies: Copies,
}

impl Table {
    /// The data set with the suite's entry for it.
    pub(crate) fn loaded(&self) -> LoadedDataset {
        LoadedDataset {
            dataset: Arc::clone(&self.dataset),
            spec: self.spec.clone(),
        }
    }

    /// The group of data sets that it belongs to.
    pub(crate) fn group(&self) -> String {
        self.spec.group_of(self.dataset.name())
    }

    /// Its documents, if its corpus is searched in shards of at most `shard` documents.
    pub(crate) fn sharded_documents(&self, shard: usize) -> Option<Range<usize>> {
        let labels = self.dataset.retrieval()?;
        let queries = labels.query_ids.len();
        (labels.document_ids.len() > shard).then(|| queries..queries + labels.document_ids.len())
    }

    /// Keys of the vectors of its texts under an encoder, in the order of the data set.
    pub(crate) fn keys(&self, encoder: usize, texts: &[u32]) -> Vec<Key> {
        let Some(prompts) = self.prompts.get(encoder) else {
            return texts.iter().map(|text| (0, *text)).collect();
        };
        let task = self.dataset.task();
        let roles = self.dataset.texts().iter().map(|text| text.role);
        texts
            .iter()
            .zip(roles)
            .map(|(text, role)| (prompts.slot(Part::of(task, role)), *text))
            .collect()
    }

    /// Keys of the vectors of its changed copies.
    pub(crate) fn copy_keys(&self, encoder: usize) -> impl Iterator<Item = Key> {
        let slot = self.varied_slot(encoder);
        let all = self.copies.chosen.iter().flat_map(|one| &one.copies);
        all.map(move |(_, copy)| (slot, *copy))
    }

    /// The prompt under which texts, rewrites and changed copies are encoded: that of the texts
    /// that are transformed.
    pub(crate) fn varied_slot(&self, encoder: usize) -> Slot {
        self.prompts.get(encoder).map_or(0, TablePrompts::varied)
    }
}

/// A text to transform, once per transformation and seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextRequest {
    /// The text's place, for example `stsb/test/12:sentence1`, from which its random draws are
    /// derived. Empty if nothing is drawn.
    pub id: String,
    pub text: u32,
    /// The language of the text's side, if the dataset names one.
    pub language: Option<String>,
}

/// A value for each of the two ways to request texts.
#[derive(Debug, Default)]
pub(crate) struct RequestModes<T> {
    /// Each distinct text once, however many datasets contain it.
    pub distinct: T,
    /// Each text as often as it occurs, with its id, because each occurrence has its own draw.
    pub each: T,
}

impl<T> RequestModes<T> {
    /// The value for the way that a transformation uses.
    pub(crate) fn of(&self, planned: &PlannedTransformation) -> &T {
        if planned.transformation.draws_per_text() {
            &self.each
        } else {
            &self.distinct
        }
    }
}

/// The prompts of one data set's texts under one encoder.
#[derive(Debug, Default)]
pub(crate) struct TablePrompts {
    pub(crate) prompts: DatasetPrompts,
    pub(crate) slots: Vec<(Part, Slot)>,
    /// Name of the vectors of the whole data set: the vector space with the prompt of each part.
    pub(crate) space: String,
    /// The same for the texts that are transformed.
    pub(crate) varied_space: String,
}

impl TablePrompts {
    fn slot(&self, part: Part) -> Slot {
        let found = self.slots.iter().find(|(own, _)| *own == part);
        found.map_or(0, |(_, slot)| *slot)
    }

    /// The slot of documents.
    pub(crate) fn of_documents(&self) -> Slot {
        self.slot(Part::Document)
    }

    /// The slot of the texts that are transformed, which are the first part of their task.
    pub(crate) fn varied(&self) -> Slot {
        self.slots.first().map_or(0, |(_, slot)| *slot)
    }
}

/// The changed copies of a data set's texts.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Texts that may be compared, with the copies made by rules; empty once the texts are chosen.
    pub(crate) candidates: Vec<TextCopies<String>>,
    /// Texts that are compared, with the numbers of their copies.
    pub(crate) chosen: Vec<TextCopies<u32>>,
    /// Of these, texts for which the generator was asked for copies.
    pub(crate) requested: HashSet<u32>,
    /// Counts of the copies requested from the transform service, by kind.
    pub(crate) counts: BTreeMap<Kind, CopyCounts>,
}

/// Lays out the datasets' texts. Every distinct text gets a number. Every (text, language) that is
/// transformed gets a place in the requests: one in `RequestModes::distinct`, and one per
/// occurrence in `RequestModes::each`.
pub(crate) fn lay_out(datasets: Vec<LoadedDataset>) -> (Corpus, Vec<Table>, RequestModes<Vec<TextRequest>>) {
    let mut corpus = Corpus::default();
    let mut requests = RequestModes::<Vec<TextRequest>>::default();
    let mut positions: HashMap<(u32, Option<String>), usize> = HashMap::new();
    let mut tables = Vec::with_capacity(datasets.len());
    for LoadedDataset { dataset, spec } in datasets {
        let mut table = Table {
            texts: Vec::new(),
            requests: RequestModes::default(),
            prompts: Vec::new(),
            copies: Copies::default(),
            dataset: dataset.clone(),
            spec,
        };
        let place = match dataset.language() {
            Some(language) => format!("{}/{}.{language}", dataset.name(), dataset.split()),
            None => format!("{}/{}", dataset.name(), dataset.split()),
        };
        let drawn = drawn_ids(&dataset);
        for (position, text) in dataset.texts().iter().enumerate() {
            let number = corpus.intern(&text.text);
            let language = dataset.language_of(text.role).map(str::to_owned);
            table.texts.push(number);
            // An empty text cannot be transformed.
            let transformed = text.transformable && !text.text.trim().is_empty();
            let request = |id: String| TextRequest {
                id,
                text: number,
                language: language.clone(),
            };
            table
                .requests
                .distinct
                .push(transformed.then(|| match positions.entry((number, language.clone())) {
                    Entry::Occupied(position) => *position.get(),
                    Entry::Vacant(position) => {
                        requests.distinct.push(request(String::new()));
                        *position.insert(requests.distinct.len() - 1)
                    }
                }));
            table.requests.each.push(transformed.then(|| {
                let id = drawn.get(&position).map_or(text.id.as_str(), String::as_str);
                requests.each.push(request(format!("{place}/{id}")));
                requests.each.len() - 1
            }));
        }
        tables.push(table);
    }
    (corpus, tables, requests)
}

/// Ids, by position, of the texts of items that were drawn individually. An id names the item's
/// place in the order of the draw instead of its row: rows are numbered within the sample, and a
/// larger sample must request the same texts.
fn drawn_ids(dataset: &Dataset) -> HashMap<usize, String> {
    let Some(order) = dataset.order() else {
        return HashMap::new();
    };
    let items = dataset.item_texts().into_iter().zip(order);
    let of_item = |(own, place): (Vec<u32>, &u32)| {
        let named = own.into_iter().enumerate();
        named
            .map(|(i, text)| (text as usize, format!("drawn {place}:{i}")))
            .collect::<Vec<_>>()
    };
    items.flat_map(of_item).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        dataset::{self, InlineFile, LoadOptions, Source},
        suite::DatasetSource,
        task::TaskType,
    };

    fn sts(language: Option<&str>, rows: &[(&str, &str)]) -> LoadedDataset {
        let rows: Vec<String> = rows
            .iter()
            .enumerate()
            .map(|(i, (a, b))| serde_json::json!({"sentence1": a, "sentence2": b, "score": i}).to_string())
            .collect();
        let name = language.map_or("test.jsonl".to_owned(), |l| format!("test.{l}.jsonl"));
        let source = Source::Inline(vec![InlineFile {
            path: name,
            content: rows.join("\n").into_bytes(),
        }]);
        let options = LoadOptions {
            language: language.map(str::to_owned),
            ..LoadOptions::default()
        };
        let dataset = dataset::load(TaskType::Sts, &source, &options).unwrap();
        let spec = DatasetSpec {
            task: TaskType::Sts,
            source: DatasetSource::Builtin("x".into()),
            name: None,
            split: None,
            language: None,
            languages: Vec::new(),
            group: None,
            limit: None,
            train_limit: None,
            sample_seed: None,
            fields: Vec::new(),
            ignore_identical_ids: false,
            samples_per_label: None,
            max_fraction: None,
            legacy_clustering: false,
            sets: None,
            leak: None,
            origin: "t:1".into(),
        };
        LoadedDataset {
            dataset: Arc::new(dataset),
            spec,
        }
    }

    #[test]
    fn a_text_that_occurs_in_two_datasets_is_asked_for_once() {
        let (corpus, tables, requests) = lay_out(vec![
            sts(None, &[("a cat", "a dog"), ("a cat", "a bird")]),
            sts(None, &[("a dog", "a cow"), ("x", "y")]),
        ]);
        let texts = |requests: &[TextRequest]| -> Vec<String> {
            requests
                .iter()
                .map(|request| corpus.get(request.text).to_owned())
                .collect()
        };
        let asked = texts(&requests.distinct);
        assert_eq!(asked, ["a cat", "a dog", "a bird", "a cow", "x", "y"]);
        assert_eq!(tables[0].requests.distinct, [Some(0), Some(1), Some(0), Some(2)]);
        assert_eq!(tables[1].requests.distinct, [Some(1), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn each_side_of_a_pair_has_its_own_language() {
        let (corpus, tables, requests) = lay_out(vec![sts(Some("en-ar"), &[("taxi", "كلب"), ("a cow", "taxi")])]);
        let languages = |requests: &[TextRequest]| -> Vec<(String, String)> {
            let one = |request: &TextRequest| {
                (
                    corpus.get(request.text).to_owned(),
                    request.language.clone().unwrap_or_default(),
                )
            };
            requests.iter().map(one).collect()
        };
        let expected = [("taxi", "en"), ("كلب", "ar"), ("a cow", "en"), ("taxi", "ar")];
        let expected = expected.map(|(text, language)| (text.to_owned(), language.to_owned()));
        // Both ways of requesting: each distinct text once (a text in two languages counts as two),
        // and each occurrence of a text.
        assert_eq!(languages(&requests.distinct), expected);
        assert_eq!(languages(&requests.each), expected);
        assert_eq!(tables[0].requests.distinct, [Some(0), Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn a_region_or_a_script_is_no_second_language() {
        for tag in ["pt-BR", "zh-Hant"] {
            let (_, _, requests) = lay_out(vec![sts(Some(tag), &[("a", "b"), ("c", "d")])]);
            assert!(
                requests.distinct.iter().all(|one| one.language.as_deref() == Some(tag)),
                "{tag}"
            );
        }
    }

    #[test]
    fn equal_sides_of_a_pair_are_asked_for_apart_where_something_is_drawn_for_each() {
        let (_, tables, requests) = lay_out(vec![sts(Some("en"), &[("a cat", "a cat"), ("a dog", "a cow")])]);
        assert_eq!(tables[0].requests.each, [Some(0), Some(1), Some(2), Some(3)]);
        let name = tables[0].dataset.name();
        let ids: Vec<&str> = requests.each.iter().map(|request| request.id.as_str()).collect();
        let rows = ["0:sentence1", "0:sentence2", "1:sentence1", "1:sentence2"];
        assert_eq!(ids, rows.map(|row| format!("{name}/test.en/{row}")));
        assert!(requests.distinct.iter().all(|request| request.id.is_empty()));
        assert_eq!(requests.distinct.len(), 3);
    }

    #[test]
    fn the_same_text_in_another_language_is_another_request() {
        let (_, _, requests) = lay_out(vec![
            sts(Some("en"), &[("chat", "b"), ("c", "d")]),
            sts(Some("fr"), &[("chat", "e"), ("f", "g")]),
        ]);
        let languages: Vec<Option<&str>> = requests
            .distinct
            .iter()
            .filter(|r| r.text == 0)
            .map(|r| r.language.as_deref())
            .collect();
        assert_eq!(languages, [Some("en"), Some("fr")]);
    }
}
