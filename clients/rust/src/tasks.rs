//! Vectors, or a data set and an encoder, to scores.

use futures::stream::BoxStream;
use isomer_proto::eval::v1::{
    DatasetInfo, DatasetInput, DatasetRef, ListDatasetsRequest, ListTasksRequest, PairVectors, ScoreRequest,
    ScoreResponse, TaskInfo, TaskType, dataset_ref, score_request::Input, task_service_client::TaskServiceClient,
};

use crate::{
    Error, Matrix,
    call::{Calls, unary},
    pages::pages,
};

/// TaskService: [`Client::tasks`](crate::Client::tasks).
#[derive(Debug, Clone)]
pub struct Tasks(pub(crate) Calls);

impl Tasks {
    /// The kinds of task, with the fields and the main score of each.
    pub fn list(&self) -> BoxStream<'static, Result<TaskInfo, Error>> {
        let calls = self.0.clone();
        pages(move |page_token| {
            let calls = calls.clone();
            async move {
                let request = ListTasksRequest {
                    page_token,
                    ..ListTasksRequest::default()
                };
                let answer = unary!(
                    calls,
                    TaskServiceClient.list_tasks,
                    "/isomer.eval.v1.TaskService/ListTasks",
                    request
                );
                answer.map(|answer| (answer.tasks, answer.next_page_token))
            }
        })
    }

    /// The data sets that can be named, of all papers or of one, of all tasks or of one.
    pub fn datasets(
        &self,
        family: Option<&str>,
        task: Option<TaskType>,
    ) -> BoxStream<'static, Result<DatasetInfo, Error>> {
        let calls = self.0.clone();
        let base = ListDatasetsRequest {
            family: family.unwrap_or_default().to_owned(),
            task_type: task.unwrap_or_default().into(),
            ..ListDatasetsRequest::default()
        };
        pages(move |page_token| {
            let calls = calls.clone();
            let request = ListDatasetsRequest {
                page_token,
                ..base.clone()
            };
            async move {
                let answer = unary!(
                    calls,
                    TaskServiceClient.list_datasets,
                    "/isomer.eval.v1.TaskService/ListDatasets",
                    request
                );
                answer.map(|answer| (answer.datasets, answer.next_page_token))
            }
        })
    }

    /// The scores of any task: the request as the protos have it. [`Matrix::message`] makes its
    /// matrices.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn score(&self, request: ScoreRequest) -> Result<ScoreResponse, Error> {
        unary!(
            self.0,
            TaskServiceClient.score,
            "/isomer.eval.v1.TaskService/Score",
            request
        )
    }

    /// Scores pairs of vectors: [`TaskType::Sts`] and [`TaskType::PairClassification`] with labels,
    /// [`TaskType::Bitext`] without.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn score_pairs(
        &self,
        task: TaskType,
        first: &Matrix,
        second: &Matrix,
        labels: &[f64],
    ) -> Result<ScoreResponse, Error> {
        let pairs = PairVectors {
            first: Some(first.message()),
            second: Some(second.message()),
            labels: labels.to_vec(),
        };
        self.score(ScoreRequest {
            task_type: task.into(),
            input: Some(Input::Pairs(pairs)),
            ..ScoreRequest::default()
        })
        .await
    }

    /// Scores a data set, by its name, encoded and scored by the server; without a limit all of it.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn score_dataset(
        &self,
        task: TaskType,
        dataset: &str,
        encoder: &str,
        limit: Option<u32>,
    ) -> Result<ScoreResponse, Error> {
        let input = DatasetInput {
            dataset: Some(DatasetRef {
                source: Some(dataset_ref::Source::Named(dataset.to_owned())),
                ..DatasetRef::default()
            }),
            encoder_id: encoder.to_owned(),
            limit,
            ..DatasetInput::default()
        };
        self.score(ScoreRequest {
            task_type: task.into(),
            input: Some(Input::Dataset(input)),
            ..ScoreRequest::default()
        })
        .await
    }
}
