//! Runs created with a key through a gateway: charged while they are active, across restarts, and
//! cancelled when a budget is used up.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use isomer_access::{AccessConfig, AccessScope, Budget, BudgetPeriod, Keys, Limits, Mode, NewKey, Scopes};
use isomer_database::Database;
use isomer_gateway::{GatewayConfig, upstreams};
use isomer_proto::eval::v1::{
    CancelRunRequest, CancelRunResponse, CreateRunRequest, CreateRunResponse, DeleteRunRequest, DeleteRunResponse,
    GetRunRequest, GetRunResponse, ListRunsRequest, ListRunsResponse, Run, RunCounters, RunState, WatchRunRequest,
    WatchRunResponse,
    run_service_client::RunServiceClient,
    run_service_server::{RunService, RunServiceServer},
    watch_run_response::Event,
};
use isomer_service_kit::{
    GrpcChannel, Services,
    client::{self, ClientConfig},
    config::Secret,
    server::{self, ServerConfig},
    telemetry,
};
use isomer_stubs::{
    rpc,
    wait::{found, until},
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::{
    sync::{RwLock, oneshot, watch},
    task::JoinHandle,
};
use tonic::{Code, Request, Response, Status, codegen::BoxStream};

/// A stub of eval-svc whose runs have the usage set by the test.
#[derive(Debug, Clone)]
struct Stub {
    runs: Arc<Mutex<HashMap<String, Run>>>,
    changed: watch::Sender<()>,
    /// Calls that create a run.
    asked: Arc<AtomicUsize>,
    /// No run is created while this is held for writing.
    hold: Arc<RwLock<()>>,
    /// The callers that the gateway named, newest last.
    callers: Arc<Mutex<Vec<Option<String>>>>,
}

impl Stub {
    fn new() -> Self {
        Self {
            runs: Arc::default(),
            changed: watch::Sender::new(()),
            asked: Arc::default(),
            hold: Arc::default(),
            callers: Arc::default(),
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Run)) {
        change(self.runs.lock().get_mut(id).unwrap());
        self.changed.send_replace(());
    }

    /// Sets the run's usage so far: `tokens` tokens of each kind, and a thousandth of a dollar.
    fn uses(&self, id: &str, tokens: u64) {
        self.change(id, |run| {
            run.set_state(RunState::Running);
            run.start_time = Some(prost_types::Timestamp::default());
            run.counters = Some(RunCounters {
                tokens_encoded: tokens - 16,
                generator_tokens: 8,
                generated_tokens: 4,
                judge_tokens: 3,
                judge_generated_tokens: 1,
                cost_nano_usd: 1_000_000,
                ..RunCounters::default()
            });
        });
    }

    fn run(&self, id: &str) -> Result<Run, Status> {
        let runs = self.runs.lock();
        runs.get(id).cloned().ok_or_else(|| Status::not_found("no such run"))
    }

    /// The run whose request had no id until the gateway gave it one.
    fn unnamed(&self) -> Option<Run> {
        let runs = self.runs.lock();
        let mut unnamed = runs.iter().filter(|(id, _)| *id != "run-kept").map(|(_, run)| run);
        let one = unnamed.next().cloned();
        assert!(unnamed.next().is_none(), "a run was made twice");
        one
    }
}

fn is_over(run: &Run) -> bool {
    !matches!(run.state(), RunState::Pending | RunState::Running)
}

#[tonic::async_trait]
impl RunService for Stub {
    async fn create_run(&self, request: Request<CreateRunRequest>) -> Result<Response<CreateRunResponse>, Status> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        drop(self.hold.read().await);
        let id = format!("run-{}", request.into_inner().request_id);
        let mut runs = self.runs.lock();
        let run = runs.entry(id.clone()).or_insert_with(|| Run {
            id,
            state: RunState::Pending.into(),
            ..Run::default()
        });
        Ok(Response::new(CreateRunResponse { run: Some(run.clone()) }))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let run = self.run(&request.get_ref().id)?;
        Ok(Response::new(GetRunResponse { run: Some(run) }))
    }

    async fn list_runs(&self, request: Request<ListRunsRequest>) -> Result<Response<ListRunsResponse>, Status> {
        let caller = request.metadata().get(isomer_service_kit::CALLER);
        let caller = caller.map(|caller| caller.to_str().unwrap().to_owned());
        self.callers.lock().push(caller);
        Ok(Response::new(ListRunsResponse::default()))
    }

    async fn watch_run(
        &self,
        request: Request<WatchRunRequest>,
    ) -> Result<Response<BoxStream<WatchRunResponse>>, Status> {
        let id = request.into_inner().id;
        let mut last = self.run(&id)?;
        let (stub, mut changed) = (self.clone(), self.changed.subscribe());
        let end = async move {
            while !is_over(&last) {
                changed.changed().await.unwrap();
                // The run is deleted immediately, but watchers still receive its end.
                last = stub.run(&id).unwrap_or(last);
            }
            Ok(WatchRunResponse {
                event: Some(Event::Ended(last)),
                ..WatchRunResponse::default()
            })
        };
        Ok(Response::new(stream::once(end).boxed()))
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> Result<Response<CancelRunResponse>, Status> {
        let CancelRunRequest { id, reason } = request.into_inner();
        self.change(&id, |run| {
            run.set_state(RunState::Cancelled);
            run.error = reason;
        });
        Ok(Response::new(CancelRunResponse {
            run: Some(self.run(&id)?),
        }))
    }

    async fn delete_run(&self, request: Request<DeleteRunRequest>) -> Result<Response<DeleteRunResponse>, Status> {
        self.runs.lock().remove(&request.get_ref().id);
        Ok(Response::new(DeleteRunResponse {}))
    }
}

/// A stub of eval-svc, and a folder for the gateway's records.
struct Harness {
    stub: Stub,
    eval: SocketAddr,
    home: TempDir,
}

struct Gateway {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), isomer_service_kit::Fault>>,
}

impl Gateway {
    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

fn local() -> ServerConfig {
    ServerConfig {
        shutdown_grace_seconds: 1,
        ..ServerConfig::at("127.0.0.1:0".parse().unwrap())
    }
}

impl Harness {
    async fn new() -> Self {
        let stub = Stub::new();
        let eval = rpc::start(Services::new().add(RunServiceServer::new(stub.clone())), local());
        let home = TempDir::new().unwrap();
        Self { stub, eval, home }
    }

    async fn database(&self) -> Database {
        let path = self.home.path().join("gateway.sqlite");
        Database::open(path.to_str().unwrap()).await.unwrap()
    }

    /// A key's id and text.
    async fn key(&self, budget: Option<u64>) -> (String, Secret) {
        let budget = budget.map(|tokens| Budget {
            per: BudgetPeriod::Total,
            tokens: Some(tokens),
            cost_usd: None,
        });
        let new = NewKey {
            name: "team".to_owned(),
            scopes: Scopes::of(&[AccessScope::Evaluate]),
            limits: Limits {
                budgets: budget.into_iter().collect(),
                ..Limits::default()
            },
            expires: None,
        };
        let keys = Keys::open(self.database().await).await.unwrap();
        let (record, text) = keys.create("test", new).await.unwrap();
        (record.id, text)
    }

    async fn gateway(&self) -> Gateway {
        let config = GatewayConfig {
            server: local(),
            home: Some(self.home.path().to_owned()),
            access: AccessConfig {
                mode: Mode::Required,
                ..AccessConfig::default()
            },
            eval: Some(ClientConfig::plain(format!("http://{}", self.eval)).into()),
            ..GatewayConfig::default()
        };
        let listener = server::bind(&config.server).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(upstreams::run(config, listener, async move { drop(stopped.await) }));
        Gateway { address, stop, task }
    }

    /// Tokens and dollars that the key has been charged.
    async fn charged(&self, id: &str) -> (u64, f64) {
        let keys = Keys::open(self.database().await).await.unwrap();
        let total = keys.get(id).await.unwrap().1.total;
        (total.tokens, total.cost_usd)
    }

    async fn until_charged(&self, id: &str, tokens: u64) {
        let charged = async || (self.charged(id).await.0 == tokens).then_some(());
        found(&format!("{tokens} tokens are charged"), charged).await;
    }

    async fn deferred_charges(&self) -> i64 {
        let database = self.database().await;
        let row = sqlx::query_scalar("SELECT COUNT(*) FROM access_tabs");
        row.fetch_one(database.pool()).await.unwrap()
    }
}

fn client(gateway: &Gateway, key: &Secret) -> RunServiceClient<GrpcChannel> {
    let config = ClientConfig {
        address: format!("http://{}", gateway.address),
        api_key: key.clone(),
        ..ClientConfig::default()
    };
    RunServiceClient::new(client::connect_lazy(&config).unwrap())
}

async fn create(client: &mut RunServiceClient<GrpcChannel>, request_id: &str) -> Result<Run, Status> {
    let request = CreateRunRequest {
        request_id: request_id.to_owned(),
        ..CreateRunRequest::default()
    };
    Ok(client.create_run(request).await?.into_inner().run.unwrap())
}

#[tokio::test]
async fn a_run_is_charged_as_it_goes_on_without_its_client_and_once_across_a_restart() {
    let harness = Harness::new().await;
    let (key, text) = harness.key(None).await;
    let gateway = harness.gateway().await;
    let mut one = client(&gateway, &text);
    let run = create(&mut one, "nightly").await.unwrap();
    assert_eq!(
        harness.deferred_charges().await,
        1,
        "recorded before its id is returned"
    );
    assert_eq!(create(&mut one, "nightly").await.unwrap().id, run.id);
    drop(one);
    harness.stub.uses(&run.id, 100);
    harness.until_charged(&key, 100).await;
    harness.stub.uses(&run.id, 250);
    harness.until_charged(&key, 250).await;
    assert!((harness.charged(&key).await.1 - 0.001).abs() < 1e-9);

    gateway.stop().await;
    harness.stub.uses(&run.id, 700);
    let gateway = harness.gateway().await;
    harness.until_charged(&key, 700).await;
    // The run ends and is deleted before the gateway can poll it.
    harness.stub.uses(&run.id, 900);
    harness.stub.change(&run.id, |run| run.set_state(RunState::Succeeded));
    let mut one = client(&gateway, &text);
    one.delete_run(DeleteRunRequest { id: run.id }).await.unwrap();
    harness.until_charged(&key, 900).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(harness.charged(&key).await.0, 900);
    assert_eq!(harness.deferred_charges().await, 0, "ended runs are forgotten");
}

#[tokio::test]
async fn a_run_that_uses_up_a_budget_is_stopped_and_says_why() {
    let harness = Harness::new().await;
    let (_, text) = harness.key(Some(100)).await;
    let gateway = harness.gateway().await;
    let mut one = client(&gateway, &text);
    let run = create(&mut one, "large").await.unwrap();
    harness.stub.uses(&run.id, 99);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let ask = GetRunRequest { id: run.id.clone() };
    let seen = one.get_run(ask.clone()).await.unwrap().into_inner().run.unwrap();
    assert_eq!(seen.state(), RunState::Running, "99 of 100");
    harness.stub.uses(&run.id, 140);
    // A key whose budget is used up may still read the reason why a run ended.
    let over = async || {
        let run = one.get_run(ask.clone()).await.unwrap().into_inner().run.unwrap();
        is_over(&run).then_some(run)
    };
    let stopped = found("the run is over", over).await;
    assert_eq!(stopped.state(), RunState::Cancelled);
    assert!(
        stopped
            .error
            .contains("team has used up its budget of 100 tokens in total"),
        "{}",
        stopped.error
    );
    let refused = create(&mut one, "another").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    // The cancellation is audited after the run has been cancelled.
    let keys = Keys::open(harness.database().await).await.unwrap();
    let audited = async || {
        let events = keys.audit_events(0, 100).await.unwrap();
        events.into_iter().find(|event| event.act == "runs.cancel")
    };
    let event = found("an entry of the audit log", audited).await;
    assert!(event.target.starts_with("run:run-large of key:"), "{event:?}");
    assert!(
        event.target.ends_with("BUDGET_EXCEEDED") && event.outcome == "OK",
        "{event:?}"
    );
}

/// Calls that create a run whose client has disconnected, in this process.
fn left() -> usize {
    let text = telemetry::metrics_text();
    let of = |line: &&str| {
        line.starts_with("isomer_server_requests_total{")
            && line.contains("method=\"CreateRun\"")
            && line.contains("code=\"CANCELLED\"")
    };
    let counts = text
        .lines()
        .filter(of)
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    counts.sum()
}

#[tokio::test]
async fn a_client_that_leaves_while_its_run_is_made_has_no_run_for_nothing() {
    let harness = Harness::new().await;
    let (key, text) = harness.key(None).await;
    let gateway = harness.gateway().await;
    let held = harness.stub.hold.write().await;
    for (before, request_id) in ["", "kept"].into_iter().enumerate() {
        let mut one = client(&gateway, &text);
        tokio::select! {
            _ = create(&mut one, request_id) => panic!("the client disconnects before the answer"),
            () = until("the run is asked for", || harness.stub.asked() > before) => {}
        }
        until("the gateway sees that the client has left", || left() > before).await;
    }
    drop(held);
    let settled = async || {
        let over = harness.stub.unnamed().is_some_and(|run| is_over(&run));
        (over && harness.deferred_charges().await == 1).then_some(())
    };
    found("one run is cancelled, the other one is charged", settled).await;
    let abandoned = harness.stub.unnamed().unwrap();
    assert_eq!(abandoned.error, "its client disconnected before the run was created");
    // The client can find this run by its request id.
    assert_eq!(harness.stub.run("run-kept").unwrap().state(), RunState::Pending);
    harness.stub.uses("run-kept", 60);
    harness.until_charged(&key, 60).await;
}

#[tokio::test]
async fn the_evaluation_service_is_told_who_asks_and_a_client_cannot_say_it_is_another() {
    let harness = Harness::new().await;
    let (key, text) = harness.key(None).await;
    let gateway = harness.gateway().await;
    let mut one = client(&gateway, &text);
    for claimed in [None, Some("key:another")] {
        let mut request = Request::new(ListRunsRequest::default());
        if let Some(claimed) = claimed {
            request
                .metadata_mut()
                .insert(isomer_service_kit::CALLER, claimed.parse().unwrap());
        }
        one.list_runs(request).await.unwrap();
    }
    let told = harness.stub.callers.lock().clone();
    assert_eq!(told, [Some(format!("key:{key}")), Some(format!("key:{key}"))]);
    gateway.stop().await;
}
