//! The plan of a run: distinct texts, tables of datasets, units to score. Pure.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

use isomer_proto::encoder::v1::Encoder;
use isomer_service_kit::WorkMemory;

use super::{
    ceiling::Ceiling,
    judge::PlannedJudge,
    prompting::{Prompting, TablePrompts},
    separation::Copies,
};
use crate::{
    dataset::{Dataset, Text},
    form::Form,
    gate::Bound,
    profile::Axis,
    prompts::variant::PromptVariant,
    search_form::SearchForm,
    stored_form::StoredForm,
    suite::{DatasetSpec, Suite, Transformation},
    work::Producer,
};

/// Distinct texts of a run, each with a number.
#[derive(Debug, Default)]
pub(super) struct Corpus {
    texts: Vec<Text>,
    numbers: HashMap<Text, u32>,
}

impl Corpus {
    /// The text's number; equal texts have equal numbers.
    pub(super) fn intern<T: AsRef<str> + Into<Text>>(&mut self, text: T) -> u32 {
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
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// A copy of the text with a number, which shares its bytes.
    pub(super) fn text(&self, number: u32) -> Text {
        let text = self.texts.get(number as usize).cloned();
        text.unwrap_or_else(|| String::new().into())
    }

    /// The text with a number.
    pub(super) fn get(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }
}

/// An encoder of a run as its service has it, or a variant of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EncoderVariant {
    /// As the service has it.
    Plain,
    /// With its vectors stored, or its documents searched, in another way.
    Form(Form),
    /// With other prompts.
    Prompts(PromptVariant),
}

/// Position of the encoder whose variant this is.
pub(super) fn served(variants: &[EncoderVariant], encoder: usize) -> usize {
    (0..=encoder)
        .rev()
        .find(|position| variants.get(*position) == Some(&EncoderVariant::Plain))
        .unwrap_or(encoder)
}

/// A dataset of the run.
#[derive(Debug)]
pub(super) struct Table {
    /// The data.
    pub dataset: Arc<Dataset>,
    /// The suite's entry for it.
    pub spec: DatasetSpec,
    /// Number of each text, in the dataset's order.
    pub texts: Vec<u32>,
    /// For each text that is transformed, its position in [`Plan::requests`].
    pub requests: Asked<Vec<Option<usize>>>,
    /// Prompts of its texts, by encoder.
    pub prompts: Vec<TablePrompts>,
    /// Copies of its texts with changed meaning; empty if separation is not measured.
    pub copies: Copies,
}

impl Table {
    /// The group of data sets that it belongs to.
    pub(super) fn group(&self) -> String {
        self.spec.group_of(self.dataset.name())
    }
}

/// A text to transform, once per transformation and seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextRequest {
    /// The text's place, for example `stsb/test/12:sentence1`, from which its random draws are
    /// derived. Empty if nothing is drawn.
    pub id: String,
    /// The text.
    pub text: u32,
    /// The language of the text's side, if the dataset names one.
    pub language: Option<String>,
}

/// A value for each of the two ways to request texts.
#[derive(Debug, Default)]
pub(super) struct Asked<T> {
    /// Each distinct text once, however many datasets contain it.
    pub distinct: T,
    /// Each text as often as it occurs, with its id, because each occurrence has its own draw.
    pub each: T,
}

impl<T> Asked<T> {
    /// The value for the way that a transformation uses.
    pub(super) fn of(&self, planned: &PlannedTransformation) -> &T {
        if planned.transformation.draws_per_text() {
            &self.each
        } else {
            &self.distinct
        }
    }
}

/// The producer of each kind of text, by its description: the label of a transformation, or a kind
/// of changed copies.
pub(super) type Producers = BTreeMap<String, Producer>;

/// A transformation, with its entry in the service's catalogue.
#[derive(Debug, Clone)]
pub(super) struct PlannedTransformation {
    /// The transformation with its parameters.
    pub transformation: Transformation,
    /// Name with parameters.
    pub label: String,
    /// Its axis.
    pub axis: Axis,
    /// Whether it needs a generator.
    pub needs_generator: bool,
    /// Prompt id and version.
    pub prompt_version: String,
    /// SHA-256 of the prompt.
    pub prompt_digest: String,
}

/// The planned work of a run.
#[derive(Debug)]
pub(super) struct Plan {
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
    /// Transformations.
    pub transformations: Vec<PlannedTransformation>,
    /// Distinct texts.
    pub corpus: Corpus,
    /// Datasets.
    pub tables: Vec<Table>,
    /// Texts to transform.
    pub requests: Asked<Vec<TextRequest>>,
    /// The run's limits; unlimited until the forecast.
    pub ceiling: Ceiling,
}

/// The scored texts of a dataset: the originals, or their transformed texts under a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Variant {
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

/// Lays out the datasets' texts. Every distinct text gets a number. Every (text, language) that is
/// transformed gets a place in the requests: one in `Asked::distinct`, and one per occurrence in
/// `Asked::each`.
pub(super) fn lay_out(datasets: Vec<(Arc<Dataset>, DatasetSpec)>) -> (Corpus, Vec<Table>, Asked<Vec<TextRequest>>) {
    let mut corpus = Corpus::default();
    let mut requests = Asked::<Vec<TextRequest>>::default();
    let mut positions: HashMap<(u32, Option<String>), usize> = HashMap::new();
    let mut tables = Vec::with_capacity(datasets.len());
    for (dataset, spec) in datasets {
        let mut table = Table {
            texts: Vec::new(),
            requests: Asked::default(),
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

impl Plan {
    /// Whether it is a variant of another encoder.
    pub(super) fn is_variant(&self, encoder: usize) -> bool {
        self.served(encoder) != encoder
    }

    /// The stored form of an encoder's vectors, if it is one.
    pub(super) fn form(&self, encoder: usize) -> Option<StoredForm> {
        match self.variants.get(encoder)? {
            EncoderVariant::Form(Form::Stored(form)) => Some(*form),
            _ => None,
        }
    }

    /// The search of an encoder, if it is not the one by its vectors alone.
    pub(super) fn search(&self, encoder: usize) -> Option<SearchForm> {
        match self.variants.get(encoder)? {
            EncoderVariant::Form(Form::Search(form)) => Some(*form),
            _ => None,
        }
    }

    /// Position of the encoder whose variant this is. Its service has only that one.
    pub(super) fn served(&self, encoder: usize) -> usize {
        served(&self.variants, encoder)
    }

    /// Position of the encoder whose vectors this one has: a form those of its encoder.
    pub(super) fn source(&self, encoder: usize) -> usize {
        match self.variants.get(encoder) {
            Some(EncoderVariant::Form(_)) => self.served(encoder),
            _ => encoder,
        }
    }

    /// Number of texts to request: those of each transformation, times the seeds.
    pub(super) fn texts_planned(&self) -> usize {
        let asked = |planned| self.requests.of(planned).len();
        self.transformations.iter().map(asked).sum::<usize>() * self.suite.seeds.len()
    }

    /// Every variant of a dataset, originals first.
    pub(super) fn variants(&self) -> Vec<Variant> {
        let transformed = (0..self.transformations.len()).flat_map(|transformation| {
            (0..self.suite.seeds.len()).map(move |seed| Variant::Transformed { transformation, seed })
        });
        std::iter::once(Variant::Original).chain(transformed).collect()
    }

    /// Keeps only these data sets (positions, ascending) and the first seeds, as in a run that
    /// stopped early. Returns the new position of each data set.
    pub(super) fn narrow(&mut self, tables: &[usize], seeds: usize) -> Vec<Option<usize>> {
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

    /// Describes a variant, for example `paraphrase, seed 1337`.
    pub(super) fn describe(&self, variant: Variant) -> String {
        match variant {
            Variant::Original => "original".to_owned(),
            Variant::Transformed { transformation, seed } => {
                let label = self
                    .transformations
                    .get(transformation)
                    .map_or("", |t| t.label.as_str());
                format!(
                    "{label}, seed {}",
                    self.suite.seeds.get(seed).copied().unwrap_or_default()
                )
            }
        }
    }
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

    fn sts(language: Option<&str>, rows: &[(&str, &str)]) -> (Arc<Dataset>, DatasetSpec) {
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
            origin: "t:1".into(),
        };
        (Arc::new(dataset), spec)
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
