//! Reads score requests.

use std::path::Path;

use isomer_proto::{
    ProtoEnum,
    common::v1::Similarity as ProtoSimilarity,
    eval::v1::{
        self as proto, DatasetInput, DatasetRef, MetricProfile, ScoreRequest, SearchIndex, TaskOptions, dataset_ref,
        score_request::Input, search_index,
    },
};
use isomer_service_kit::{Fault, choice};

use crate::{
    config::EvalConfig,
    dataset::{DEFAULT_SAMPLE_SEED, HubRef, InlineFile, LoadOptions, Source},
    error::EvalError,
    locate::DatasetRequest,
    metric::{HnswOptions, Similarity, ranking::CUTOFFS},
    search_form::SearchForm,
    task::{Profile, SearchMode, TaskType},
};

/// Maximum number of fits of a classification: each uses all test rows.
const MOST_EXPERIMENTS: u32 = 1000;

/// Bytes of memory for the rows of a sent file, for each byte of the file.
const ROWS: usize = 4;
/// Bytes of a document in the result list of a query.
const RANKED: usize = 16;

/// Approximate memory of scoring in bytes, in addition to the decoded message: the rows of sent
/// files as texts and vectors, or the result lists of the queries.
pub(super) fn working_bytes(request: &ScoreRequest) -> usize {
    match &request.input {
        Some(Input::Dataset(input)) => {
            let source = input.dataset.as_ref().and_then(|dataset| dataset.source.as_ref());
            let Some(dataset_ref::Source::Inline(inline)) = source else {
                return 0;
            };
            let files = inline.files.iter().map(|file| file.content.len());
            files.fold(0_usize, usize::saturating_add).saturating_mul(ROWS)
        }
        Some(Input::Retrieval(vectors)) => {
            let deepest = CUTOFFS.iter().copied().max().unwrap_or_default();
            let listed = vectors.document_ids.len().min(deepest);
            vectors.query_ids.len().saturating_mul(listed).saturating_mul(RANKED)
        }
        _ => 0,
    }
}

/// The task of a request; `None` if it does not name one. Unknown numbers are refused.
pub(super) fn task(number: i32) -> Result<Option<TaskType>, Fault> {
    let given = proto::TaskType::given(number).map_err(|_| unknown_task())?;
    let ours = |task: proto::TaskType| task.among(TaskType::ALL, TaskType::name).ok_or_else(unknown_task);
    given.map(ours).transpose()
}

/// The error for an unknown task type.
pub(super) fn unknown_task() -> Fault {
    let names = TaskType::ALL.map(TaskType::name).join(", ");
    Fault::invalid("task_type", "is not a known task type").hint(format!("give one of {names}"))
}

pub(super) fn profile(request: &ScoreRequest) -> Result<Profile, Fault> {
    let profile: Option<MetricProfile> = choice("profile", request.profile)?;
    let found = profile.and_then(|profile| profile.among(Profile::ALL, Profile::name));
    Ok(found.unwrap_or_default())
}

pub(super) fn task_to_proto(task: TaskType) -> proto::TaskType {
    proto::TaskType::named(task.name()).unwrap_or_default()
}

/// The similarity for a request's vectors; cosine by default.
pub(super) fn similarity(number: i32) -> Result<Similarity, Fault> {
    let similarity: Option<ProtoSimilarity> = choice("similarity", number)?;
    let found = similarity.and_then(|similarity| similarity.among(Similarity::ALL, Similarity::name));
    Ok(found.unwrap_or_default())
}

/// The search mode that a request asks for, validated.
pub(super) fn search(index: Option<SearchIndex>) -> Result<SearchMode, Fault> {
    let Some(index) = index else {
        return Ok(SearchMode::Exact);
    };
    let Some(search_index::Kind::Hnsw(wanted)) = index.kind else {
        return Err(Fault::invalid("index.kind", "no kind of index is named")
            .hint("give hnsw, or leave index out for the exact search"));
    };
    let default = HnswOptions::default();
    let width = |field: &str, given: Option<u32>, default: usize| match given {
        Some(0) => {
            let message = "is 0, so no candidate would be compared";
            Err(Fault::invalid(format!("index.hnsw.{field}"), message).hint(format!("leave it out for {default}")))
        }
        Some(given) => Ok(given as usize),
        None => Ok(default),
    };
    Ok(SearchMode::Hnsw(HnswOptions {
        ef_construction: width("ef_construction", wanted.ef_construction, default.ef_construction)?,
        ef_search: width("ef_search", wanted.ef_search, default.ef_search)?,
        seed: wanted.seed.unwrap_or(default.seed),
    }))
}

/// Refuses an index for a task without a search.
pub(super) fn searches(task: TaskType, search: SearchMode) -> Result<(), Fault> {
    if search == SearchMode::Exact || task == TaskType::Retrieval {
        return Ok(());
    }
    let message = format!("{task} does not search, so an index has no use");
    Err(Fault::invalid("index", message).hint("leave it out, or choose a retrieval task"))
}

/// The search form of a request, validated; `None`: by vectors alone.
pub(super) fn form(input: &DatasetInput, search: SearchMode) -> Result<Option<SearchForm>, Fault> {
    if input.form.is_empty() {
        return Ok(None);
    }
    let wrong = |message: String| Fault::invalid("dataset.form", message);
    let form: SearchForm = input.form.parse().map_err(wrong)?;
    if search != SearchMode::Exact {
        let message = format!("`{form}` searches all documents, and an index is asked for");
        return Err(wrong(message).hint("leave one of the two out"));
    }
    if form == SearchForm::Lexical && input.augmentation.is_some() {
        let message = format!("`{form}` uses no vectors, so there is nothing to augment");
        return Err(wrong(message).hint("leave one of the two out, or choose hybrid:rrf"));
    }
    Ok(Some(form))
}

/// Refuses a search form for a task without a search.
pub(super) fn finds(task: TaskType, form: Option<SearchForm>) -> Result<(), Fault> {
    match form {
        Some(form) if task != TaskType::Retrieval => {
            let message = format!("{task} does not search, so `{form}` has no use");
            Err(Fault::invalid("dataset.form", message).hint("leave it out, or choose a retrieval task"))
        }
        _ => Ok(()),
    }
}

/// The options of a request, validated.
pub(super) fn options(options: Option<TaskOptions>) -> Result<TaskOptions, Fault> {
    let options = options.unwrap_or_default();
    if options.samples_per_label == Some(0) {
        return Err(Fault::invalid("options.samples_per_label", "is 0").hint("leave it out for 8"));
    }
    if options
        .experiments
        .is_some_and(|fits| !(1..=MOST_EXPERIMENTS).contains(&fits))
    {
        return Err(Fault::invalid("options.experiments", "is out of range")
            .hint(format!("give 1 to {MOST_EXPERIMENTS}, or leave it out for 10")));
    }
    if options.train_limit == Some(0) {
        return Err(Fault::invalid("options.train_limit", "is 0").hint("leave it out for all rows"));
    }
    match options.max_fraction {
        Some(share) if !(share > 0.0 && share <= 1.0) => Err(Fault::invalid(
            "options.max_fraction",
            format!("{share} is not a share"),
        )
        .hint("give a number in (0, 1]")),
        _ => Ok(options),
    }
}

/// The dataset that a request names, and the requested part of it.
pub(super) fn dataset(
    config: &EvalConfig,
    input: &mut DatasetInput,
    task: Option<TaskType>,
    asked: &TaskOptions,
) -> Result<DatasetRequest, Fault> {
    let missing = || {
        Fault::invalid("dataset.dataset", "no data set is named")
            .hint("give builtin, path, catalogue, hub_id or inline")
    };
    let DatasetRef {
        source,
        split,
        language,
        name,
        config: configuration,
        revision,
        fields,
        languages,
    } = input.dataset.take().ok_or_else(missing)?;
    let some = |text: String| (!text.is_empty()).then_some(text);
    let mut root = None;
    let mut source = match source.ok_or_else(missing)? {
        dataset_ref::Source::Builtin(name) => Source::Builtin(name),
        dataset_ref::Source::Path(path) => {
            let permitted = config.data_path(Path::new(&path)).map_err(EvalError::from)?;
            root = permitted.root;
            Source::Path(permitted.path)
        }
        dataset_ref::Source::Inline(files) => {
            let files = files.files.into_iter().map(|f| InlineFile {
                path: f.path,
                content: f.content,
            });
            Source::Inline(files.collect())
        }
        dataset_ref::Source::HubId(id) => Source::Hub(HubRef::parse(&id).ok_or_else(|| {
            Fault::invalid("dataset.dataset.hub_id", format!("`{id}` is not an id of a data set"))
                .hint("write org/name, or org/name:configuration@revision")
        })?),
        dataset_ref::Source::Catalogue(name) => Source::Catalogue(name),
        dataset_ref::Source::Named(name) => Source::named(&name),
    };
    for (field, given) in [("config", some(configuration)), ("revision", some(revision))] {
        let Some(given) = given else { continue };
        let Source::Hub(hub) = &mut source else {
            let field = format!("dataset.dataset.{field}");
            return Err(
                Fault::invalid(field, "only a data set on the hub has one").hint("leave it out, or give hub_id")
            );
        };
        if field == "config" {
            hub.config = Some(given);
        } else {
            hub.revision = Some(given);
        }
    }
    let mut fields: Vec<(String, String)> = fields.into_iter().collect();
    fields.sort();
    if let Some((ours, _)) = fields
        .iter()
        .find(|(ours, theirs)| ours.is_empty() || theirs.is_empty())
    {
        return Err(Fault::invalid(
            "dataset.dataset.fields",
            format!("the mapping of `{ours}` has an empty name"),
        )
        .hint("map Isomer's name to the data's, e.g. sentence1 to text_a"));
    }
    let options = LoadOptions {
        language: some(language),
        languages,
        limit: input.limit.map(|limit| limit as usize),
        sample_seed: input.sample_seed.unwrap_or(DEFAULT_SAMPLE_SEED),
        fields,
        name: some(name),
        train_limit: asked.train_limit.map(|count| count as usize),
        samples_per_label: asked.samples_per_label.map(|count| count as usize),
        experiments: asked.experiments.map(|count| count as usize),
        legacy_clustering: asked.legacy_clustering,
        max_fraction: asked.max_fraction,
        root,
        ..LoadOptions::default()
    };
    Ok(DatasetRequest {
        task,
        source,
        split: some(split),
        options,
    })
}

#[cfg(test)]
mod tests {
    use isomer_proto::eval::v1::{DatasetInput, InlineFile as ProtoFile, InlineFiles, PairVectors, RetrievalVectors};

    use super::*;

    fn needed(input: Input) -> usize {
        working_bytes(&ScoreRequest {
            input: Some(input),
            ..ScoreRequest::default()
        })
    }

    #[test]
    fn sent_files_and_result_lists_need_memory_beside_the_message() {
        let file = |bytes| ProtoFile {
            path: "test.jsonl".to_owned(),
            content: vec![b' '; bytes],
        };
        let sent = |files| {
            let inline = InlineFiles { files };
            let dataset = DatasetRef {
                source: Some(dataset_ref::Source::Inline(inline)),
                ..DatasetRef::default()
            };
            Input::Dataset(DatasetInput {
                dataset: Some(dataset),
                ..DatasetInput::default()
            })
        };
        assert_eq!(needed(sent(vec![file(1000), file(500)])), 6000);
        let retrieval = |queries: usize, documents: usize| {
            Input::Retrieval(RetrievalVectors {
                query_ids: vec![String::new(); queries],
                document_ids: vec![String::new(); documents],
                ..RetrievalVectors::default()
            })
        };
        // The length of a list is at most the largest cut-off.
        assert_eq!(needed(retrieval(10, 50)), 10 * 50 * 16);
        assert_eq!(needed(retrieval(10, 50_000)), 10 * 1000 * 16);
        assert_eq!(needed(Input::Pairs(PairVectors::default())), 0);
        let builtin = DatasetRef {
            source: Some(dataset_ref::Source::Builtin("quick/sts".to_owned())),
            ..DatasetRef::default()
        };
        let of_server = DatasetInput {
            dataset: Some(builtin),
            ..DatasetInput::default()
        };
        assert_eq!(needed(Input::Dataset(of_server)), 0);
    }
}
