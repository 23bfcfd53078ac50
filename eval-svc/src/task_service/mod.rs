//! gRPC handlers for tasks, which convert protos. The computation is in [`crate::task`].

mod catalogue;
mod clsd;
mod cosines;
mod encode;
mod items;
mod labelled;
mod lists;
pub(crate) mod prompts;
mod request;
mod vectors;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_proto::common::v1::Usage;
use isomer_proto::eval::v1::{
    DatasetInput, ItemScores, ListDatasetsRequest, ListDatasetsResponse, ListTasksRequest, ListTasksResponse,
    ScoreRequest, ScoreResponse, SearchReport, TaskInfo, TaskOptions, item_scores::Column, score_request::Input,
    search_report::Recall, task_service_server::TaskService,
};
use isomer_service_kit::{Fault, Tenant, WorkMemory, page_token};
use isomer_usage::sum;
use ndarray::Array2;
use tonic::{Request, Response, Status};

use crate::{
    clients::EvalClients,
    compute::Compute,
    config::EvalConfig,
    dataset::{self, Dataset},
    error::EvalError,
    locate::DatasetLocator,
    metric::{ApproximateReport, Similarity},
    mteb_result,
    search_form::SearchForm,
    task::{Profile, ScoreError, Scores, SearchMode, TaskType, score_bitext, score_pair_classification, score_sts},
};

/// Maximum number of entries on a page.
const MOST_PER_PAGE: u32 = 1000;

/// Serves `isomer.eval.v1.TaskService`.
#[derive(Debug, Clone)]
pub(crate) struct TaskHandler {
    config: Arc<EvalConfig>,
    clients: EvalClients,
    places: Arc<DatasetLocator>,
    compute: Compute,
}

impl TaskHandler {
    /// A handler that reads datasets as the configuration permits, finds named ones with the
    /// locator, and encodes over the channels.
    pub(crate) fn new(
        config: Arc<EvalConfig>,
        clients: EvalClients,
        places: Arc<DatasetLocator>,
        compute: Compute,
    ) -> Self {
        Self {
            config,
            clients,
            places,
            compute,
        }
    }

    /// The same handler with services that are called for a tenant.
    fn for_tenant(&self, tenant: &Tenant) -> Self {
        Self {
            clients: self.clients.for_tenant(tenant),
            ..self.clone()
        }
    }

    async fn score_dataset(
        &self,
        mut input: DatasetInput,
        settings: ScoreSettings<'_>,
    ) -> Result<ScoreResponse, Fault> {
        let (profile, options, search) = (settings.profile, settings.options, settings.search);
        let (per_item, evidence) = (settings.per_item, settings.evidence);
        let started = Instant::now();
        if input.encoder_id.is_empty() {
            return Err(Fault::invalid("dataset.encoder_id", "no encoder is named")
                .hint("give the id of one, e.g. all-MiniLM-L6-v2"));
        }
        let wanted = request::dataset(&self.config, &mut input, settings.task, options)?;
        let located = self.places.locate(wanted).await.map_err(EvalError::from)?;
        request::searches(located.task, search)?;
        let form = request::form(&input, search)?;
        request::finds(located.task, form)?;
        clsd::check(located.task, &input, options)?;
        let given = prompts::read("dataset.prompts", std::mem::take(&mut input.prompts))?;
        let dataset = blocking(&self.compute, move || {
            dataset::load(located.task, &located.source, &located.options)
        })
        .await?;
        let (dataset, pivot) = clsd::prepare(&self.config, &self.clients, dataset, &input, options).await?;
        let task = dataset.task();
        for note in dataset.notes() {
            tracing::info!(dataset = dataset.name(), "{note}");
        }
        prompts::check(&given, &input.encoder_id, &dataset)?;
        let encoder = encode::describe(&self.clients, &input.encoder_id).await?;
        let choice = prompts::Choice::new(&encoder, &given, &dataset);
        let texts = encode::EncodingTask {
            config: &self.config,
            clients: &self.clients,
            encoder: &encoder,
            prompts: &choice.prompts,
            dataset: &dataset,
        };
        let encoding = Instant::now();
        let encoded = match form {
            Some(SearchForm::Lexical) => encode::nothing(),
            _ => encode::texts(texts, input.augmentation.as_ref()).await?,
        };
        let encoding = encoding.elapsed();
        let (mut columns, mut more) = (BTreeMap::new(), Usage::default());
        if per_item
            && evidence
            && let Some(alone) = input.augmentation.as_ref().and_then(|own| cosines::alone(task, own))
        {
            let variants = encode::texts(texts, Some(&alone)).await?;
            let plain = encode::texts(texts, None).await?;
            columns = cosines::columns(
                &dataset,
                plain.vectors.view(),
                variants.vectors.view(),
                &variants.varied,
            );
            more = sum::total([&variants.usage, &plain.usage]);
        }
        let encode::DatasetVectors {
            vectors,
            similarity,
            vector_space,
            mut usage,
            mut augmentation,
            cut,
            varied: _,
        } = encoded;
        sum::add(&mut usage, &more);
        let dataset = Arc::new(prompts::remarked(dataset, &choice, cut, &encoder.id));
        let scored = Arc::clone(&dataset);
        let mut scores = blocking(&self.compute, move || {
            let vectors = vectors.view();
            match form {
                None => scored.score_searching(vectors, profile, similarity, search),
                Some(form) => form.score_dataset(&scored, vectors, profile, similarity),
            }
        })
        .await?;
        scores.all.extend(dataset.measures().clone());
        if per_item && evidence {
            columns.extend(items::columns(&dataset, &scores));
            scores.per_item.extend(columns);
        }
        tracing::info!(
            dataset = dataset.name(),
            encoder = input.encoder_id,
            key = scores.main_key,
            score = scores.main,
            seconds = started.elapsed().as_secs_f64(),
            "scored"
        );
        let plain = input.augmentation.as_mut().and_then(|wanted| wanted.plain.take());
        let (told, took) = (Arc::clone(&dataset), started.elapsed());
        let written = heavy(&self.compute, move || {
            let mteb_result = mteb_result::to_struct(&mteb_result::document(&told, &scores, took));
            let delta = plain.map(|plain| items::delta(&told, &plain, &scores)).transpose()?;
            let evidence = evidence.then(|| items::evidence(&told, &scores)).transpose()?;
            let ids = per_item.then(|| told.item_ids(&scores));
            let response = response(scores, profile, ids);
            Ok::<_, Fault>((response, mteb_result, delta.flatten(), evidence.flatten()))
        });
        let (mut response, mteb_result, delta, evidence) = written.await??;
        if let Some(report) = &mut augmentation {
            report.delta = delta;
        }
        if let Some(form) = form {
            response.profile_stamp.push_str(&format!("; search by {form}"));
        }
        if let Some(pivot) = &pivot {
            response
                .profile_stamp
                .push_str(&format!("; pivot through {}", pivot.language));
        }
        record(task, started.elapsed());
        let (prompts, unused_prompts) = choice.told();
        Ok(ScoreResponse {
            prompts,
            unused_prompts,
            truncation: Some(prompts::truncation(cut)),
            notes: dataset.notes().iter().cloned().chain(response.notes).collect(),
            mteb_result: Some(mteb_result),
            vector_space,
            usage: Some(usage),
            augmentation,
            pivot,
            evidence,
            task_type: request::task_to_proto(task).into(),
            dataset_digest: dataset.digest().to_owned(),
            encoding: prost_types::Duration::try_from(encoding).ok(),
            ..response
        })
    }
}

/// The settings of a score of a data set.
struct ScoreSettings<'a> {
    /// `None`: the data set's own task.
    task: Option<TaskType>,
    profile: Profile,
    options: &'a TaskOptions,
    search: SearchMode,
    /// Whether the response has values by item.
    per_item: bool,
    /// Whether the response has the evidence of the main score.
    evidence: bool,
}

/// Runs heavy work on a blocking thread, not on the threads that serve requests.
async fn blocking<T, E>(compute: &Compute, work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, Fault>
where
    T: Send + 'static,
    E: Send + 'static,
    EvalError: From<E>,
{
    heavy(compute, work)
        .await?
        .map_err(|error| EvalError::from(error).into())
}

/// Like [`blocking`], for work with any result.
async fn heavy<T: Send + 'static>(compute: &Compute, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    let done = compute.interactive(work).await;
    done.map_err(|error| Fault::internal(format!("scoring stopped: {error}")))
}

/// Builds the response, with values by item if the ids of the items are known.
fn response(scores: Scores, profile: Profile, ids: Option<Vec<String>>) -> ScoreResponse {
    let columns = |columns: BTreeMap<String, Vec<f64>>| {
        let column = |(key, values)| Column { key, values };
        columns.into_iter().map(column).collect()
    };
    let approximate = scores.approximate.as_ref();
    let stamp = match approximate {
        Some(_) => format!("{}; approximate search (hnsw)", profile.stamp()),
        None => profile.stamp().to_owned(),
    };
    ScoreResponse {
        notes: scores.notes,
        search: approximate.map(search_report),
        per_item: ids.map(|ids| ItemScores {
            ids,
            columns: columns(scores.per_item),
        }),
        main_score_key: scores.main_key.to_owned(),
        main_score: scores.main,
        scores: scores.all.into_iter().collect(),
        profile_stamp: stamp,
        items: scores.items,
        ..ScoreResponse::default()
    }
}

fn search_report(report: &ApproximateReport) -> SearchReport {
    let recall = |(k, recall): (&usize, &f64)| Recall {
        k: *k as u32,
        recall: *recall,
    };
    SearchReport {
        index: report.index.clone(),
        recalls: report.recall.iter().map(recall).collect(),
        compared_queries: report.compared as u64,
    }
}

#[tonic::async_trait]
impl TaskService for TaskHandler {
    async fn list_tasks(&self, request: Request<ListTasksRequest>) -> Result<Response<ListTasksResponse>, Status> {
        let request = request.into_inner();
        let size = match request.page_size {
            0 => 100,
            size => size.min(MOST_PER_PAGE),
        } as usize;
        let first = page_token::place("ListTasks", &request.page_token)?;
        let rest = TaskType::ALL.get(first..).unwrap_or_default();
        let tasks = rest.iter().take(size).map(|task| task_info(*task)).collect();
        let next_page_token = if rest.len() > size {
            page_token::token("ListTasks", &(first + size).to_string())
        } else {
            String::new()
        };
        Ok(Response::new(ListTasksResponse { tasks, next_page_token }))
    }

    async fn score(&self, request: Request<ScoreRequest>) -> Result<Response<ScoreResponse>, Status> {
        let own = self.for_tenant(&Tenant::of_request(&request));
        let request = request.into_inner();
        let mut memory = WorkMemory::new();
        memory.grow_to(request::working_bytes(&request))?;
        let started = Instant::now();
        let task = request::task(request.task_type)?;
        let profile = request::profile(&request)?;
        let options = request::options(request.options)?;
        let search = request::search(request.index)?;
        if let Some(task) = task {
            request::searches(task, search)?;
            if let Some(Input::Dataset(input)) = &request.input {
                clsd::check(task, input, &options)?;
            }
        }
        let response = match request.input {
            Some(Input::Dataset(input)) => {
                if request.similarity != 0 {
                    return Err(
                        Fault::invalid("similarity", "a data set is scored by the encoder's own similarity")
                            .hint("leave it out")
                            .into(),
                    );
                }
                let settings = ScoreSettings {
                    task,
                    profile,
                    options: &options,
                    search,
                    per_item: request.per_item,
                    evidence: request.evidence,
                };
                own.score_dataset(input, settings).await?
            }
            Some(input) => {
                let task = task.ok_or_else(request::unknown_task)?;
                if options.tag_parts_of_speech {
                    return Err(clsd::tags_of_other(task).into());
                }
                let similarity = request::similarity(request.similarity)?;
                let per_item = request.per_item;
                let scored = heavy(&self.compute, move || {
                    let input = VectorInput::read(task, input, &options, search)?;
                    let scores = input.score(profile, similarity).map_err(EvalError::from)?;
                    let ids = per_item.then(|| input.ids(&scores));
                    Ok::<_, Fault>(response(scores, profile, ids))
                });
                let response = scored.await??;
                record(task, started.elapsed());
                response
            }
            None => {
                task.ok_or_else(request::unknown_task)?;
                return Err(Fault::invalid("input", "nothing to score")
                    .hint("give the vectors of the task, or a data set and an encoder")
                    .into());
            }
        };
        Ok(Response::new(response))
    }

    async fn list_datasets(
        &self,
        request: Request<ListDatasetsRequest>,
    ) -> Result<Response<ListDatasetsResponse>, Status> {
        Ok(Response::new(catalogue::list(&self.places, &request.into_inner())?))
    }
}

fn record(task: TaskType, took: Duration) {
    metrics::counter!(crate::metric_names::SCORES, "task" => task.name()).increment(1);
    metrics::histogram!(crate::metric_names::SCORE, "task" => task.name()).record(took.as_secs_f64());
}

fn task_info(task: TaskType) -> TaskInfo {
    let main_scores = Profile::ALL
        .into_iter()
        .filter_map(|profile| Some((profile.name().to_owned(), task.main_score(profile)?.to_owned())))
        .collect();
    TaskInfo {
        r#type: request::task_to_proto(task).into(),
        name: task.name().to_owned(),
        main_scores,
        fields: task.fields().iter().map(|field| (*field).to_owned()).collect(),
        served: task.served(),
    }
}

/// The input of a score with vectors.
#[derive(Debug)]
enum VectorInput {
    Sts(vectors::Pairs<f64>),
    PairClassification(vectors::Pairs<bool>),
    Bitext(Array2<f32>, Array2<f32>),
    Retrieval(vectors::Retrieval),
    Lists(lists::Lists),
    Labelled(labelled::LabelledTask),
}

impl VectorInput {
    fn read(task: TaskType, input: Input, options: &TaskOptions, search: SearchMode) -> Result<Self, Fault> {
        match input {
            Input::Pairs(pairs) => vectors::pairs(task, pairs),
            Input::Retrieval(retrieval) => vectors::retrieval(task, retrieval, search),
            Input::Reranking(reranking) => lists::reranking(task, reranking),
            Input::Summarisation(summarisation) => lists::summarisation(task, summarisation),
            Input::Clsd(clsd) => lists::clsd(task, clsd),
            Input::Graded(graded) => lists::graded(task, graded),
            Input::PairScores(scores) => lists::pair_scores(task, scores),
            Input::Classification(classification) => labelled::classification(task, classification, options),
            Input::Clustering(clustering) => labelled::clustering(task, clustering, options),
            Input::Dataset(_) => Err(Fault::internal("a dataset is not vectors".to_owned())),
        }
    }

    fn score(&self, profile: Profile, own: Similarity) -> Result<Scores, ScoreError> {
        match self {
            Self::Sts(pairs) => score_sts(pairs.first.view(), pairs.second.view(), &pairs.labels, own, profile),
            Self::PairClassification(pairs) => {
                score_pair_classification(pairs.first.view(), pairs.second.view(), &pairs.labels, own, profile)
            }
            Self::Bitext(first, second) => score_bitext(first.view(), second.view(), own, profile),
            Self::Retrieval(retrieval) => retrieval.score(profile, own),
            Self::Lists(lists) => lists.score(profile, own),
            Self::Labelled(labelled) => labelled.score(profile),
        }
    }

    fn ids(&self, scores: &Scores) -> Vec<String> {
        match self {
            Self::Retrieval(retrieval) => retrieval.ids(),
            _ => (0..scores.items).map(|row| row.to_string()).collect(),
        }
    }
}

/// Name of a text for error messages.
fn text_of(dataset: &Dataset, index: usize) -> String {
    let Some(text) = dataset.texts().get(index) else {
        return format!("text {index}");
    };
    let row = text.id.split_once(':').and_then(|(row, _)| row.parse::<u64>().ok());
    let row = row.map_or_else(String::new, |row| format!(" (row {})", row + 1));
    let empty = if text.text.trim().is_empty() {
        ", which is empty,"
    } else {
        ""
    };
    format!("text `{}`{row}{empty}", text.id)
}
