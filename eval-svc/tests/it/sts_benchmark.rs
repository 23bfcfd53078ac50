//! The published score of a real encoder on a real benchmark, through the services.

use isomer_embed::{EmbedConfig, EmbedService};
use isomer_eval::{EvalConfig, mteb_result};
use isomer_models::{DEFAULT_ENCODER, ModelKind, ModelsConfig, NoProgress, Resolver};
use isomer_proto::eval::v1::{TaskType, dataset_ref, task_service_client::TaskServiceClient};
use isomer_stubs::{request, rpc::channel};

use crate::{
    harness::serve,
    support::{close, shared},
};

/// mteb with sentence-transformers gives 0.820325 for all-MiniLM-L6-v2; its model card and the
/// leaderboard say 82.03.
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
    let embed = EmbedService::new(EmbedConfig::default(), resolver).unwrap();
    let encoder = channel(isomer_embed::services(embed)).await;
    let config = EvalConfig {
        data_roots: vec![data.clone()],
        ..EvalConfig::default()
    };
    let (tasks, _home) = serve(config, None, encoder.clone(), encoder).await;
    let source = dataset_ref::Source::Path(data.display().to_string());
    let request = request::score(TaskType::Sts, DEFAULT_ENCODER, source);
    let response = TaskServiceClient::new(tasks).score(request).await.unwrap().into_inner();

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
