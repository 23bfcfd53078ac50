//! The steps of a case.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use isomer_client::{
    AugmentOptions, Client, Collection, Dtype, EncodeOptions, Matrix, Output, RerankOptions, Source, SparseVector,
    TransformOptions, Truncation, items,
    proto::{
        encoder::v1::TokenizeRequest,
        eval::v1::{AdjustPValuesRequest, CompareRequest, ReportFormat, RunSpec, RunState, ScoreResponse, TaskType},
        gateway::v1::{AccessScope, ApiKey, Provider, ProviderKind},
        transform::v1::AugmentationPooling,
    },
    run_spec, series,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    BoxError,
    case::{Step, code_name, word},
};

/// Does the steps of one case.
pub(crate) struct Runner {
    client: Client,
    address: String,
    collections: Arc<Mutex<HashMap<String, Arc<Collection>>>>,
}

type StepResult = Result<Value, BoxError>;

fn digest(row: &[u8]) -> String {
    let mut digits = hex::encode(Sha256::digest(row));
    digits.truncate(16);
    digits
}

fn digests(matrix: &Matrix) -> Vec<String> {
    (0..matrix.rows()).map(|row| digest(matrix.row_bytes(row))).collect()
}

fn sparse_digest(vector: &SparseVector) -> String {
    let indices = vector.indices.iter().flat_map(|index| index.to_le_bytes());
    let values = vector.values.iter().flat_map(|value| value.to_le_bytes());
    digest(&indices.chain(values).collect::<Vec<u8>>())
}

fn scored(found: &ScoreResponse) -> Value {
    json!({ "main_score_key": found.main_score_key, "main_score": found.main_score, "items": found.items })
}

fn unknown(what: &str) -> BoxError {
    format!("there is no {what}").into()
}

fn task(step: &Step) -> Result<TaskType, BoxError> {
    TaskType::from_str_name(&word("TASK_TYPE_", &step.task)).ok_or_else(|| unknown(&step.task))
}

fn spec(step: &Step) -> Result<RunSpec, BoxError> {
    let encoders: Vec<String> = serde_json::from_value(step.encoders.clone())?;
    let mut spec = run_spec(&step.suite, encoders)?;
    spec.transformations.clone_from(&step.transformations);
    spec.generator_id.clone_from(&step.generator);
    spec.limit = step.limit;
    Ok(spec)
}

fn provider(step: &Step) -> Result<Provider, BoxError> {
    Ok(Provider {
        id: step.id.clone(),
        kind: ProviderKind::Isomer.into(),
        address: step.address.clone(),
        encoders: serde_json::from_value(step.encoders.clone())?,
        ..Provider::default()
    })
}

fn new_key(step: &Step) -> Result<ApiKey, BoxError> {
    let scopes = step.scopes.iter().map(|scope| {
        let scope = word("ACCESS_SCOPE_", scope);
        let found = AccessScope::from_str_name(&scope).ok_or_else(|| unknown(&scope));
        found.map(i32::from)
    });
    Ok(ApiKey {
        name: step.name.clone(),
        scopes: scopes.collect::<Result<_, _>>()?,
        ..ApiKey::default()
    })
}

impl Runner {
    pub(crate) fn new(client: Client, address: &str) -> Self {
        Self {
            client,
            address: address.to_owned(),
            collections: Arc::default(),
        }
    }

    /// The same, whose calls end after this time.
    pub(crate) fn within(&self, time: Duration) -> Self {
        Self {
            client: self.client.within(time),
            address: self.address.clone(),
            collections: Arc::clone(&self.collections),
        }
    }

    pub(crate) async fn step(&self, step: &Step) -> StepResult {
        match step.op.as_str() {
            "encode" => self.encode(step).await,
            "encode_stream" => self.encode_stream(step).await,
            "encode_tokens" => self.encode_tokens(step).await,
            "encode_outputs" => self.encode_outputs(step).await,
            "threads" => self.threads(step).await,
            "encoders" | "encoder" | "count_tokens" | "tokenize" => self.described(step).await,
            "rerank" => self.rerank(step).await,
            "transform" | "transform_stream" => self.transform(step).await,
            "encode_augmented" => self.encode_augmented(step).await,
            "score_pairs" | "score_dataset" | "adjust_p_values" | "compare" => self.scored(step).await,
            "run" | "create_run" | "watch_run" => self.run(step).await,
            "create_provider" | "providers" => self.providers(step).await,
            "list_keys" | "create_key" | "keys" => self.keys(step).await,
            other => Err(unknown(&format!("step {other}"))),
        }
    }

    fn options(&self, step: &Step) -> Result<EncodeOptions, BoxError> {
        let mut options = EncodeOptions::new(&step.encoder);
        if let Some(prompt) = &step.prompt {
            options = options.prompt(prompt);
        }
        if let Some(name) = &step.prompt_name {
            options = options.prompt_name(name);
        }
        if let Some(role) = &step.role {
            options = options.role(role);
        }
        if let Some(dimensions) = step.dimensions {
            options = options.dimensions(dimensions);
        }
        if let Some(normalise) = step.normalise {
            options = options.normalise(normalise);
        }
        if let Some(dtype) = &step.dtype {
            options = options.dtype(Dtype::from_str_name(&word("DTYPE_", dtype)).ok_or_else(|| unknown(dtype))?);
        }
        if let Some(given) = &step.truncation {
            let truncation = Truncation::from_str_name(&word("TRUNCATION_", given));
            options = options.truncation(truncation.ok_or_else(|| unknown(given))?);
        }
        if step.partial {
            options = options.partial();
        }
        if let Some(name) = &step.collection {
            let mut collections = self.collections.lock();
            let collection = collections
                .entry(name.clone())
                .or_insert_with(|| Arc::new(Collection::new(name)));
            options = options.collection(collection);
        }
        Ok(options)
    }

    async fn encode(&self, step: &Step) -> StepResult {
        let found = self.client.encode(&step.texts, self.options(step)?).await?;
        let failed: Vec<_> = found.errors.iter().map(|error| error.index).collect();
        Ok(json!({
            "rows": digests(&found), "cols": found.cols(), "token_counts": found.token_counts, "failed": failed,
            "view": found.view().is_some(),
        }))
    }

    async fn encode_stream(&self, step: &Step) -> StepResult {
        let read = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&read);
        let texts = stream::iter(step.texts.clone()).inspect(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let mut parts = self.client.encode_stream(texts, self.options(step)?);
        let (mut rows, mut at_first, mut batches) = (Vec::new(), 0, 0);
        while let Some(part) = parts.try_next().await? {
            if at_first == 0 {
                at_first = read.load(Ordering::Relaxed);
            }
            rows.extend(digests(&part));
            batches += 1;
            if step.leave_after == Some(batches) {
                break;
            }
        }
        Ok(json!({ "rows": rows, "read_at_first": at_first }))
    }

    async fn encode_tokens(&self, step: &Step) -> StepResult {
        let found = self.client.encode_tokens(&step.texts, self.options(step)?).await?;
        let rows: Vec<_> = found.texts.iter().flat_map(digests).collect();
        let counts: Vec<_> = found.texts.iter().map(Matrix::rows).collect();
        Ok(json!({ "rows": rows, "counts": counts }))
    }

    async fn encode_outputs(&self, step: &Step) -> StepResult {
        let outputs = step.outputs.iter().map(|output| {
            let found = Output::from_str_name(&word("OUTPUT_", output));
            found.ok_or_else(|| unknown(output))
        });
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let mut options = self.options(step)?;
        if let Some(most) = step.max_active_dimensions {
            options = options.max_active_dimensions(most);
        }
        let found = self.client.encode_outputs(&step.texts, &outputs, options).await?;
        let mut value = json!({ "spaces": {} });
        if let Some(dense) = &found.text_vector {
            value["rows"] = json!(digests(dense));
            value["spaces"]["text_vector"] = json!(dense.space.digest);
        }
        if let Some(sparse) = &found.sparse {
            value["sparse"] = sparse.texts.iter().map(sparse_digest).collect();
            value["spaces"]["sparse"] = json!(sparse.space.digest);
        }
        if let Some(tokens) = &found.token_vectors {
            value["token_rows"] = tokens.texts.iter().flat_map(digests).collect();
            value["counts"] = tokens.texts.iter().map(Matrix::rows).collect();
            value["spaces"]["token_vectors"] = json!(tokens.space.digest);
        }
        Ok(value)
    }

    async fn threads(&self, step: &Step) -> StepResult {
        // Tasks of a runtime with several threads, each with a clone of the client.
        let tasks = (0..step.threads).map(|_| {
            let (client, texts, encoder) = (self.client.clone(), step.texts.clone(), step.encoder.clone());
            tokio::spawn(async move { client.encode(texts, encoder).await })
        });
        let mut rows = Vec::new();
        for found in try_join_all(tasks).await? {
            let found = found?;
            rows.extend(digests(&found));
        }
        Ok(json!({ "rows": rows }))
    }

    async fn described(&self, step: &Step) -> StepResult {
        match step.op.as_str() {
            "encoders" => {
                let encoders: Vec<_> = self.client.encoders().try_collect().await?;
                let ids: Vec<_> = encoders.into_iter().map(|encoder| encoder.id).collect();
                Ok(json!({ "ids": ids }))
            }
            "encoder" => {
                let found = self.client.encoder(&step.encoder).await?;
                Ok(json!({ "dimensions": found.dimensions, "prompts": found.prompts }))
            }
            "count_tokens" => {
                let counts = self.client.count_tokens(&step.texts, &step.encoder).await?;
                Ok(json!({ "token_counts": counts }))
            }
            _ => {
                let request = TokenizeRequest {
                    encoder_id: step.encoder.clone(),
                    texts: step.texts.clone(),
                    special_tokens: Some(true),
                    ..TokenizeRequest::default()
                };
                let found = self.client.tokenize(request).await?;
                let ids = found
                    .into_iter()
                    .map(|text| text.into_iter().map(|token| token.id).collect());
                Ok(json!({ "ids": ids.collect::<Vec<Vec<u32>>>() }))
            }
        }
    }

    async fn rerank(&self, step: &Step) -> StepResult {
        let mut options = RerankOptions::new(&step.encoder);
        if let Some(top_n) = step.top_n {
            options = options.top_n(top_n);
        }
        let found = self.client.rerank(&step.query, &step.documents, options).await?;
        let ranking = found.results.iter().map(|one| json!([one.index, f64::from(one.score)]));
        Ok(json!({ "ranking": ranking.collect::<Vec<_>>() }))
    }

    async fn transform(&self, step: &Step) -> StepResult {
        let options = TransformOptions::new(&step.transformation).generator(&step.generator);
        let mut results = if step.op == "transform" {
            self.client.transform(items(&step.texts), options).await?.results
        } else {
            let results = self.client.transform_stream(items(&step.texts), options);
            results.try_collect::<Vec<_>>().await?
        };
        if step.op == "transform_stream" {
            results.sort_by_key(|result| result.index);
        }
        let (texts, indices): (Vec<_>, Vec<_>) = results.into_iter().map(|result| (result.text, result.index)).unzip();
        Ok(json!({ "texts": texts, "indices": indices }))
    }

    async fn encode_augmented(&self, step: &Step) -> StepResult {
        let mut options = AugmentOptions::new(&step.encoder);
        if let Some(given) = &step.pooling {
            let pooling = AugmentationPooling::from_str_name(&word("AUGMENTATION_POOLING_", given));
            options = options.pooling(pooling.ok_or_else(|| unknown(given))?);
        }
        if let Some(weight) = step.original_weight {
            options = options.original_weight(weight);
        }
        for source in &step.sources {
            options = options.source(Source::new(&source.transformation).generator(&source.generator));
        }
        let found = self.client.encode_augmented(items(&step.texts), options).await?;
        Ok(json!({ "rows": digests(&found) }))
    }

    async fn scored(&self, step: &Step) -> StepResult {
        let (tasks, statistics) = (self.client.tasks(), self.client.statistics());
        match step.op.as_str() {
            "score_pairs" => {
                let (first, second) = (Matrix::from_rows(&step.first)?, Matrix::from_rows(&step.second)?);
                let found = tasks.score_pairs(task(step)?, &first, &second, &step.labels).await?;
                Ok(scored(&found))
            }
            "score_dataset" => {
                let found = tasks.score_dataset(task(step)?, &step.dataset, &step.encoder, step.limit);
                Ok(scored(&found.await?))
            }
            "adjust_p_values" => {
                let request = AdjustPValuesRequest {
                    p_values: step.p_values.clone(),
                };
                let found = statistics.adjust_p_values(request).await?;
                Ok(json!({ "holm": found.holm, "benjamini_hochberg": found.benjamini_hochberg }))
            }
            _ => {
                let treatments = step.treatments.iter();
                let request = CompareRequest {
                    reference: Some(series("reference", step.reference.iter().copied())),
                    treatments: treatments
                        .map(|(name, values)| series(name, values.iter().copied()))
                        .collect(),
                    seed: step.seed,
                    ..CompareRequest::default()
                };
                let found = statistics.compare(request).await?;
                let first = found.comparisons.first().ok_or("no comparison came")?;
                Ok(json!({ "mean_difference": first.mean_difference, "n": first.n }))
            }
        }
    }

    async fn run(&self, step: &Step) -> StepResult {
        let runs = self.client.runs();
        if step.op == "watch_run" {
            let events: Vec<_> = runs.watch(&step.id, 0).try_collect().await?;
            let sequences: Vec<_> = events.into_iter().map(|event| event.sequence).collect();
            return Ok(json!({ "sequences": sequences }));
        }
        let made = runs.create(spec(step)?).await?;
        if step.op == "create_run" {
            return Ok(json!({ "id": made.id }));
        }
        let mut events = 0;
        let ended = runs.wait(&made.id, |_| events += 1).await?;
        let mut reports = 0;
        for format in &step.formats {
            let format = ReportFormat::from_str_name(&word("REPORT_FORMAT_", format)).ok_or_else(|| unknown(format))?;
            let report = runs.report(&made.id, format).await?;
            reports += u32::from(!report.content.is_empty() && !report.media_type.is_empty());
        }
        let state = RunState::try_from(ended.state)?.as_str_name();
        let state = state.trim_start_matches("RUN_STATE_");
        Ok(json!({ "state": state, "events": events, "reports": reports }))
    }

    async fn providers(&self, step: &Step) -> StepResult {
        let providers = self.client.providers();
        let made = providers.create(provider(step)?).await?;
        if step.op == "create_provider" {
            return Ok(json!({ "id": made.id }));
        }
        let read = providers.get(&step.id).await?;
        let listed: Vec<_> = providers.list().try_collect().await?;
        let priced = Provider {
            id: step.id.clone(),
            price_per_million_tokens: 2.5,
            ..Provider::default()
        };
        let changed = providers.update(priced, &["price_per_million_tokens"]).await?;
        let checked = providers.check(&step.id).await?;
        providers.delete(&step.id).await?;
        let deleted = match providers.get(&step.id).await {
            Ok(_) => "still there".to_owned(),
            Err(error) => code_name(error.code()),
        };
        Ok(json!({
            "created": made.id == step.id && read.id == step.id,
            "listed": listed.iter().any(|provider| provider.id == step.id),
            "price": changed.price_per_million_tokens, "usable": checked.usable, "deleted": deleted,
        }))
    }

    async fn keys(&self, step: &Step) -> StepResult {
        let keys = self.client.keys();
        if step.op == "list_keys" {
            let listed: Vec<_> = keys.list().try_collect().await?;
            let ids: Vec<_> = listed.into_iter().map(|key| key.id).collect();
            return Ok(json!({ "ids": ids }));
        }
        let made = keys.create(new_key(step)?).await?;
        if step.op == "create_key" {
            return Ok(json!({ "id": made.id() }));
        }
        let listed: Vec<_> = keys.list().try_collect().await?;
        let other = Client::builder(&self.address).key(made.secret()).build()?;
        let used = other.encode(&step.texts, &step.encoder).await?;
        keys.revoke(made.id()).await?;
        let after = match other.encode(&step.texts, &step.encoder).await {
            Ok(_) => "still in force".to_owned(),
            Err(error) => error.reason().to_owned(),
        };
        let audited: Vec<_> = keys.audit(0).try_collect().await?;
        let audited = audited.into_iter().filter(|event| event.target.contains(made.id()));
        Ok(json!({
            "rows": digests(&used), "listed": listed.iter().any(|key| key.id == made.id()), "after": after,
            "audited": audited.map(|event| event.act).collect::<Vec<_>>(),
        }))
    }
}
