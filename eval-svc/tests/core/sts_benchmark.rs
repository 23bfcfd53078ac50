//! The published score of a real encoder on a real benchmark, through the services.

use isomer_embed::{EmbedConfig, EmbedService};
use isomer_eval::{EvalClients, EvalConfig, EvalService, mteb_result};
use isomer_models::{DEFAULT_ENCODER, ModelKind, ModelsConfig, NoProgress, Resolver};
use isomer_proto::eval::v1::{
    DatasetInput, DatasetRef, ScoreRequest, TaskType, dataset_ref, score_request,
    task_service_client::TaskServiceClient,
};
use isomer_service_kit::{limits::LimitsConfig, memory};

use crate::support::{close, shared};

/// mteb with sentence-transformers gives 0.820325 for all-MiniLM-L6-v2; its model card and the leaderboard say 82.03.
#[tokio::test(flavor = "multi_thread")]
async fn minilm_reaches_its_published_score_on_the_sts_benchmark() {
    let Some(data) = shared("data/STSBenchmark") else {
        return;
    };
    let resolver = Resolver::new(ModelsConfig {
        offline: true,
        ..ModelsConfig::default()
    })
    .unwrap();
    if let Err(error) = resolver.resolve(DEFAULT_ENCODER, ModelKind::Encoder, &NoProgress).await {
        println!("skipped: no model ({error})");
        return;
    }
    let limits = LimitsConfig::default();
    let embed = EmbedService::new(EmbedConfig::default(), resolver).unwrap();
    let encoder = memory::channel(isomer_embed::services(embed), &limits).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let config = EvalConfig {
        home: home.path().to_owned(),
        data_roots: vec![data.clone()],
        ..EvalConfig::default()
    };
    let clients = EvalClients {
        encoder: encoder.clone(),
        transform: encoder,
    };
    let service = EvalService::new(config, clients).unwrap();
    let channel = memory::channel(isomer_eval::services(service), &limits).await.unwrap();

    let dataset = DatasetRef {
        source: Some(dataset_ref::Source::Path(data.display().to_string())),
        ..DatasetRef::default()
    };
    let input = DatasetInput {
        dataset: Some(dataset),
        encoder_id: DEFAULT_ENCODER.to_owned(),
        limit: None,
        sample_seed: None,
        pivot: None,
        augmentation: None,
        prompts: Vec::new(),
    };
    let request = ScoreRequest {
        task_type: TaskType::Sts.into(),
        input: Some(score_request::Input::Dataset(input)),
        ..ScoreRequest::default()
    };
    let response = TaskServiceClient::new(channel)
        .score(request)
        .await
        .unwrap()
        .into_inner();

    assert_eq!(
        (response.main_score_key.as_str(), response.items),
        ("cosine_spearman", 1379)
    );
    close(response.main_score, 0.820_325, 0.000_3, "cosine_spearman");
    close(response.scores["cosine_pearson"], 0.827_406, 0.000_3, "cosine_pearson");
    close(
        response.scores["manhattan_spearman"],
        0.819_455,
        0.000_3,
        "manhattan_spearman",
    );
    let document = mteb_result::to_json(&response.mteb_result.unwrap());
    assert_eq!(document["task_name"], "STSBenchmark");
    println!("{document}");
}
