//! The published score of a real encoder on a real benchmark, through the services.

use std::path::PathBuf;

use isomer_embed::{EmbedConfig, EmbedService};
use isomer_eval::{EvalConfig, mteb_result};
use isomer_models::{DEFAULT_ENCODER, ModelsConfig, Resolver};
use isomer_proto::eval::v1::{ScoreResponse, TaskType, dataset_ref, task_service_client::TaskServiceClient};
use isomer_stubs::{request, rpc::channel};

use crate::{
    harness::serve,
    published::{published, shared},
    support::close,
};

/// The scores of the default encoder on a data set; `None` without the model. Folders of the
/// catalogue's names are below `root`.
async fn scored(task: TaskType, source: dataset_ref::Source, root: PathBuf, language: &str) -> Option<ScoreResponse> {
    let config = ModelsConfig {
        offline: true,
        ..ModelsConfig::default()
    };
    let resolver = Resolver::new(config).unwrap();
    if resolver.present(DEFAULT_ENCODER).is_none() {
        isomer_stubs::skip(&format!("no model {DEFAULT_ENCODER}"));
        return None;
    }
    let embed = EmbedService::new(EmbedConfig::default(), resolver).unwrap();
    let encoder = channel(isomer_embed::services(embed)).await;
    let config = EvalConfig {
        data_roots: vec![root],
        ..EvalConfig::default()
    };
    let (tasks, _home) = serve(config, None, encoder.clone(), encoder).await;
    let mut request = request::score(task, DEFAULT_ENCODER, source);
    request::dataset(&mut request).dataset.as_mut().unwrap().language = language.into();
    Some(TaskServiceClient::new(tasks).score(request).await.unwrap().into_inner())
}

/// Scores the default encoder on pairs as mteb with sentence-transformers does.
async fn scores(data: PathBuf, language: &str, items: u64, expected: &[(&str, f64)]) {
    let source = dataset_ref::Source::Path(data.display().to_string());
    let Some(response) = scored(TaskType::Sts, source, data.clone(), language).await else {
        return;
    };
    assert_eq!(
        (response.main_score_key.as_str(), response.items),
        ("cosine_spearman", items)
    );
    close(response.main_score, expected[0].1, 0.000_3, "the main score");
    for (name, expected) in expected {
        close(response.scores[*name], *expected, 0.000_3, name);
    }
    let document = mteb_result::to_json(&response.mteb_result.unwrap());
    assert_eq!(document["task_name"], data.file_name().unwrap().to_str().unwrap());
    println!("{document}");
}

/// mteb's leaderboard has 0.4058 and 0.0955 for all-MiniLM-L6-v2: single documents are cut into its
/// five sets.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tests/more data: licences forbid a copy of the data set"]
async fn minilm_reaches_its_published_score_on_the_sets_of_shared_masakhanews() {
    for (language, expected) in [("fra", 0.405_768), ("swa", 0.095_514)] {
        let source = dataset_ref::Source::Catalogue("MasakhaNEWSClusteringS2S".to_owned());
        let Some(response) = scored(TaskType::Clustering, source, shared(""), language).await else {
            return;
        };
        assert_eq!(response.items, 5);
        close(response.main_score, expected, 0.000_3, language);
    }
}

/// mteb with sentence-transformers gives 0.875878 for all-MiniLM-L6-v2; the leaderboard says 87.59.
#[tokio::test(flavor = "multi_thread")]
async fn minilm_reaches_its_published_score_on_sts17() {
    scores(published("STS17"), "en-en", 250, &[("cosine_spearman", 0.875_878)]).await;
}

/// mteb with sentence-transformers gives 0.820325 for all-MiniLM-L6-v2; its model card and the
/// leaderboard say 82.03.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tests/more data: licences forbid a copy of the data set"]
async fn minilm_reaches_its_published_score_on_the_shared_sts_benchmark() {
    let expected = [
        ("cosine_spearman", 0.820_325),
        ("cosine_pearson", 0.827_406),
        ("manhattan_spearman", 0.819_455),
    ];
    scores(shared("STSBenchmark"), "", 1379, &expected).await;
}
