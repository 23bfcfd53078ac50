//! The counters of a run add up.

use isomer_proto::eval::v1::{GetRunRequest, RunCounters, RunState, run_service_client::RunServiceClient};
use isomer_service_kit::{
    GrpcChannel,
    client::{self, ClientConfig},
};
use isomer_stubs::{request::small_run, wait::found};

use crate::{harness::Harness, models::ENCODER};

async fn run(client: &mut RunServiceClient<GrpcChannel>, transformations: &[&str]) -> RunCounters {
    let mut request = small_run(ENCODER);
    request.spec.as_mut().unwrap().transformations = transformations.iter().map(ToString::to_string).collect();
    let id = client.create_run(request).await.unwrap().into_inner().run.unwrap().id;
    let ended = async || {
        let request = GetRunRequest { id: id.clone() };
        let run = client.get_run(request).await.unwrap().into_inner().run.unwrap();
        Some(run).filter(|run| !matches!(run.state(), RunState::Pending | RunState::Running))
    };
    let run = found("the run ends", ended).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    run.counters.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_planned_are_those_generated_made_by_rule_and_cached() {
    let harness = Harness::new().await;
    let config = ClientConfig {
        address: format!("http://{}", harness.address),
        api_key: harness.key().await.text,
        ..ClientConfig::default()
    };
    let mut client = RunServiceClient::new(client::connect_lazy(&config).unwrap());
    let sum = |counters: &RunCounters| counters.texts_generated + counters.texts_by_rule + counters.texts_cached;

    let first = run(&mut client, &["paraphrase", "stopword_removal"]).await;
    assert_eq!(first.texts_planned, sum(&first), "{first:?}");
    assert!(first.texts_generated > 0 && first.texts_by_rule > 0, "{first:?}");
    let second = run(&mut client, &["paraphrase", "stopword_removal"]).await;
    assert_eq!(second.texts_planned, sum(&second), "{second:?}");
    assert_eq!(second.texts_planned, first.texts_planned);
    assert!(second.texts_cached > 0 && second.texts_generated == 0, "{second:?}");
}
