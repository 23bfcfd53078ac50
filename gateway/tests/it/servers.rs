//! Several servers of one service behind a gateway: the server that is called, the servers that are
//! excluded, and the calls that are retried or not.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{StreamExt, future::join_all, stream};
use isomer_gateway::{GatewayConfig, config::ServersConfig, routing::RoutingConfig, upstreams};
use isomer_proto::{
    eval::v1::{
        CreateRunRequest, CreateRunResponse, DeleteRunRequest, DeleteRunResponse, GetRunRequest, GetRunResponse,
        ListTasksRequest, ListTasksResponse, Run,
        run_service_client::RunServiceClient,
        run_service_server::{RunService, RunServiceServer},
        task_service_client::TaskServiceClient,
        task_service_server::{TaskService, TaskServiceServer},
    },
    transform::v1::{
        ListTransformationsRequest, ListTransformationsResponse, TransformStreamRequest, TransformStreamResponse,
        transform_service_client::TransformServiceClient,
        transform_service_server::{TransformService, TransformServiceServer},
    },
};
use isomer_service_kit::{
    Fault, GrpcChannel, Services,
    client::{self, ClientConfig},
    config::Validate,
    server::{self, ServerConfig},
};
use isomer_stubs::wait::{found, until};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Code, Request, Response, Status, codegen::BoxStream};

/// A stub of transform-svc and eval-svc that returns its own name. Other methods are unimplemented.
#[derive(Debug, Clone)]
struct Stub {
    name: &'static str,
    asked: Arc<AtomicUsize>,
    /// The error that it returns to every call.
    says: Arc<Mutex<Option<Fault>>>,
    /// Duration of each call.
    pause: Arc<Mutex<Duration>>,
    /// The request ids of requested runs.
    ids: Arc<Mutex<Vec<String>>>,
    /// Number of following calls that break their connection midway.
    breaks: Arc<AtomicUsize>,
    line: Arc<Mutex<CancellationToken>>,
}

impl Stub {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            asked: Arc::default(),
            says: Arc::default(),
            pause: Arc::default(),
            ids: Arc::default(),
            breaks: Arc::default(),
            line: Arc::default(),
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    async fn word(&self) -> Result<String, Status> {
        self.asked.fetch_add(1, SeqCst);
        if self.breaks.load(SeqCst) > 0 {
            self.breaks.fetch_sub(1, SeqCst);
            std::mem::take(&mut *self.line.lock()).cancel();
            std::future::pending::<()>().await;
        }
        let pause = *self.pause.lock();
        sleep(pause).await;
        match &*self.says.lock() {
            Some(fault) => Err(fault.clone().into()),
            None => Ok(self.name.to_owned()),
        }
    }

    /// Serves on a connection that can be cut; the server ends with the task.
    async fn serve(&self) -> (String, JoinHandle<()>) {
        let config = ServerConfig::at("127.0.0.1:0".parse().unwrap());
        let inner = server::bind(&config).unwrap();
        let address = inner.local_addr().unwrap();
        let services = Services::new()
            .add(TransformServiceServer::new(self.clone()))
            .add(TaskServiceServer::new(self.clone()))
            .add(RunServiceServer::new(self.clone()));
        let outer = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = outer.local_addr().unwrap();
        let served = tokio::spawn(async move { server::serve(services, &config, inner, std::future::pending()).await });
        let (stub, alive) = (self.clone(), CancellationToken::new());
        let task = tokio::spawn(async move {
            let _alive = alive.clone().drop_guard();
            let _served = AbortOnDropHandle::new(served);
            loop {
                let (mut from, _) = outer.accept().await.unwrap();
                let (line, alive) = (stub.line.lock().clone(), alive.clone());
                tokio::spawn(async move {
                    let mut to = TcpStream::connect(address).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut from, &mut to) => {}
                        () = line.cancelled() => {}
                        () = alive.cancelled() => {}
                    }
                });
            }
        });
        (place.to_string(), task)
    }
}

#[tonic::async_trait]
impl TransformService for Stub {
    async fn list_transformations(
        &self,
        _: Request<ListTransformationsRequest>,
    ) -> Result<Response<ListTransformationsResponse>, Status> {
        Ok(Response::new(ListTransformationsResponse {
            next_page_token: self.word().await?,
            ..ListTransformationsResponse::default()
        }))
    }

    async fn transform_stream(
        &self,
        _: Request<TransformStreamRequest>,
    ) -> Result<Response<BoxStream<TransformStreamResponse>>, Status> {
        self.word().await?;
        let begun = stream::once(async { Ok(TransformStreamResponse::default()) });
        Ok(Response::new(begun.chain(stream::pending()).boxed()))
    }
}

#[tonic::async_trait]
impl TaskService for Stub {
    async fn list_tasks(&self, _: Request<ListTasksRequest>) -> Result<Response<ListTasksResponse>, Status> {
        Ok(Response::new(ListTasksResponse {
            next_page_token: self.word().await?,
            ..ListTasksResponse::default()
        }))
    }
}

#[tonic::async_trait]
impl RunService for Stub {
    async fn create_run(&self, request: Request<CreateRunRequest>) -> Result<Response<CreateRunResponse>, Status> {
        self.ids.lock().push(request.into_inner().request_id);
        let id = self.word().await?;
        Ok(Response::new(CreateRunResponse {
            run: Some(Run { id, ..Run::default() }),
        }))
    }

    async fn delete_run(&self, _: Request<DeleteRunRequest>) -> Result<Response<DeleteRunResponse>, Status> {
        self.word().await?;
        Ok(Response::new(DeleteRunResponse {}))
    }

    async fn get_run(&self, _: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let id = self.word().await?;
        Ok(Response::new(GetRunResponse {
            run: Some(Run { id, ..Run::default() }),
        }))
    }
}

struct Gateway {
    address: SocketAddr,
    channel: GrpcChannel,
    _home: TempDir,
    _task: AbortOnDropHandle<Result<(), Fault>>,
}

/// A gateway in front of servers that transform and score.
async fn gateway(addresses: &[&String]) -> Gateway {
    gateway_with(addresses, false).await
}

/// A gateway in front of servers whose runs are shared, or stored at the first server.
async fn gateway_with(addresses: &[&String], shared_runs: bool) -> Gateway {
    let home = TempDir::new().unwrap();
    let servers = Some(ServersConfig {
        addresses: addresses.iter().map(|address| (*address).clone()).collect(),
        ..ServersConfig::default()
    });
    let config = GatewayConfig {
        server: ServerConfig::at("127.0.0.1:0".parse().unwrap()),
        home: Some(home.path().to_owned()),
        routing: RoutingConfig {
            health_interval_ms: 50,
            health_timeout_ms: 500,
            warmup_seconds: 0,
            ..RoutingConfig::default()
        },
        transform: servers.clone(),
        eval: servers,
        shared_runs,
        ..GatewayConfig::default()
    };
    let listener = server::bind(&config.server).unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(upstreams::run(config, listener, std::future::pending()));
    Gateway {
        address,
        channel: client::connect_lazy(&ClientConfig::plain(address.to_string())).unwrap(),
        _home: home,
        _task: AbortOnDropHandle::new(task),
    }
}

impl Gateway {
    /// Makes one call and returns the name of the server that answered.
    async fn transformer(&self) -> Result<String, Status> {
        let mut client = TransformServiceClient::new(self.channel.clone());
        let answer = client.list_transformations(ListTransformationsRequest::default());
        Ok(answer.await?.into_inner().next_page_token)
    }

    async fn scorer(&self) -> Result<String, Status> {
        let mut client = TaskServiceClient::new(self.channel.clone());
        Ok(client
            .list_tasks(ListTasksRequest::default())
            .await?
            .into_inner()
            .next_page_token)
    }

    fn runs(&self) -> RunServiceClient<GrpcChannel> {
        RunServiceClient::new(self.channel.clone())
    }

    async fn run(&self) -> Result<String, Status> {
        let answer = self.runs().get_run(GetRunRequest::default()).await?.into_inner();
        Ok(answer.run.unwrap().id)
    }

    async fn page(&self) -> String {
        isomer_service_kit::tls::install_crypto();
        let page = reqwest::get(format!("http://{}/", self.address)).await.unwrap();
        page.text().await.unwrap()
    }
}

#[tokio::test]
async fn a_server_that_dies_is_replaced_without_a_failure() {
    let (a, b) = (Stub::new("a"), Stub::new("b"));
    let ((first, dies), (second, _lives)) = (a.serve().await, b.serve().await);
    let gateway = gateway(&[&first, &second]).await;
    let gateway = &gateway;
    let callers = (0..8).map(|_| async move {
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            seen.insert(gateway.transformer().await.unwrap());
            seen.insert(gateway.scorer().await.unwrap());
        }
        seen
    });
    let kill = async {
        until("half of it is asked", || a.asked() >= 200).await;
        dies.abort();
    };
    let (seen, ()) = tokio::join!(join_all(callers), kill);
    for seen in seen {
        assert_eq!(seen, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    }
    let shown = async || {
        let page = gateway.page().await;
        let shown = [&first, &second, "unhealthy", ">healthy<"]
            .iter()
            .all(|part| page.contains(*part));
        shown.then_some(())
    };
    found("the page shows that one is unhealthy", shown).await;
}

#[tokio::test]
async fn a_server_that_hangs_is_left_out_and_what_it_was_asked_is_asked_elsewhere() {
    let b = Stub::new("b");
    // This server accepts connections and never responds.
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let first = hangs.local_addr().unwrap().to_string();
    let (second, _lives) = b.serve().await;
    let gateway = gateway(&[&first, &second]).await;
    let calls = join_all((0..20).map(|_| gateway.transformer()));
    let answers = timeout(Duration::from_secs(120), calls)
        .await
        .expect("no call waits for the server that hangs");
    assert!(answers.into_iter().all(|answer| answer.unwrap() == "b"));
}

#[tokio::test]
async fn a_server_that_drains_finishes_what_it_has() {
    let stub = Stub::new("a");
    *stub.pause.lock() = Duration::from_millis(1500);
    let config = ServerConfig {
        shutdown_grace_seconds: 20,
        ..ServerConfig::at("127.0.0.1:0".parse().unwrap())
    };
    let listener = server::bind(&config).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let services = Services::new().add(TransformServiceServer::new(stub.clone()));
    let drain = CancellationToken::new();
    let served = server::serve(services, &config, listener, drain.clone().cancelled_owned());
    let gateway = gateway(&[&address]).await;
    let call = async {
        let begun = async {
            until("it is asked", || stub.asked() > 0).await;
            drain.cancel();
        };
        tokio::join!(gateway.transformer(), begun).0
    };
    let (served, answer) = tokio::join!(served, call);
    served.unwrap();
    assert_eq!(answer.unwrap(), "a");
    assert_eq!(stub.asked(), 1);
}

#[tokio::test]
async fn what_a_server_says_is_its_answer_but_that_it_is_full() {
    let (a, b) = (Stub::new("a"), Stub::new("b"));
    let ((first, _a), (second, _b)) = (a.serve().await, b.serve().await);
    let gateway = gateway(&[&first, &second]).await;
    let away = Fault::unavailable("GENERATOR_UNAVAILABLE", "the generator is away");
    for stub in [&a, &b] {
        *stub.says.lock() = Some(away.clone());
    }
    let status = gateway.transformer().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "the generator is away")
    );
    assert_eq!(Fault::from_status(&status).reason, "GENERATOR_UNAVAILABLE");
    assert_eq!(
        a.asked() + b.asked(),
        1,
        "asked once: another generator would cost twice"
    );

    *a.says.lock() = Some(Fault::overloaded("the queue is full", Duration::from_secs(1)));
    *b.says.lock() = None;
    for _ in 0..20 {
        assert_eq!(gateway.transformer().await.unwrap(), "b");
    }
    *b.says.lock() = Some(Fault::overloaded("the queue is full", Duration::from_secs(1)));
    let status = gateway.transformer().await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(Fault::from_status(&status).retry_after, Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn a_run_is_asked_for_once_and_lives_with_the_first() {
    let (a, b) = (Stub::new("a"), Stub::new("b"));
    let ((first, _a), (second, _b)) = (a.serve().await, b.serve().await);
    let gateway = gateway(&[&first, &second]).await;
    for _ in 0..20 {
        assert_eq!(gateway.run().await.unwrap(), "a");
    }
    assert_eq!((a.asked(), b.asked()), (20, 0));
    a.breaks.store(1, SeqCst);
    assert_eq!(
        gateway.run().await.unwrap(),
        "a",
        "a read changes nothing, so it is retried"
    );
    assert_eq!(a.asked(), 22);
    a.breaks.store(1, SeqCst);
    let status = gateway
        .runs()
        .delete_run(DeleteRunRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(
        a.asked(),
        23,
        "it is unknown whether the run was deleted, so there is no retry"
    );
    assert_eq!(b.asked(), 0);
}

#[tokio::test]
async fn a_run_is_asked_for_again_under_the_same_id_and_of_a_server_that_knows_it() {
    let (a, b) = (Stub::new("a"), Stub::new("b"));
    let ((first, _a), (second, _b)) = (a.serve().await, b.serve().await);
    // The runs belong to one server, so the same server is called again.
    let alone = gateway(&[&first, &second]).await;
    a.breaks.store(1, SeqCst);
    let asked = CreateRunRequest::default();
    let run = alone.runs().create_run(asked).await.unwrap().into_inner().run.unwrap();
    assert_eq!((run.id.as_str(), b.asked()), ("a", 0));
    let ids = std::mem::take(&mut *a.ids.lock());
    assert_eq!(ids.len(), 2);
    assert!(!ids[0].is_empty() && ids[0] == ids[1], "{ids:?}");
    // Another call creates another run.
    alone.runs().create_run(CreateRunRequest::default()).await.unwrap();
    let next = std::mem::take(&mut *a.ids.lock());
    assert!(next.len() == 1 && next[0] != ids[0], "{next:?} {ids:?}");

    // If servers share their runs and one dies, the other receives the request for the same run,
    // under the id that the client chose.
    let shared = gateway_with(&[&first, &second], true).await;
    for stub in [&a, &b] {
        stub.breaks.store(1, SeqCst);
    }
    for n in 0..4 {
        let asked = CreateRunRequest {
            request_id: format!("mine {n}"),
            ..CreateRunRequest::default()
        };
        // Both break once: a call that finds both servers broken stays unanswered, and the client
        // repeats it.
        while shared.runs().create_run(asked.clone()).await.is_err() {}
    }
    let all = [a.ids.lock().clone(), b.ids.lock().clone()].concat();
    assert!(all.iter().all(|id| id.starts_with("mine ")), "{all:?}");
    assert!(all.len() > 4, "calls that broke were made again: {all:?}");
}

#[tokio::test]
async fn runs_that_servers_share_are_asked_of_each_of_them() {
    let (a, b) = (Stub::new("a"), Stub::new("b"));
    let ((first, dies), (second, _lives)) = (a.serve().await, b.serve().await);
    let gateway = gateway_with(&[&first, &second], true).await;
    let mut seen = BTreeSet::new();
    for _ in 0..50 {
        seen.insert(gateway.run().await.unwrap());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    dies.abort();
    for _ in 0..20 {
        assert_eq!(gateway.run().await.unwrap(), "b", "the other answers for all runs");
    }
}

#[tokio::test]
async fn whoever_streams_is_busy_until_the_end() {
    let (a, b) = (Stub::new("a"), Stub::new("b"));
    let ((first, _a), (second, _b)) = (a.serve().await, b.serve().await);
    let gateway = gateway(&[&first, &second]).await;
    let mut client = TransformServiceClient::new(gateway.channel.clone());
    let mut stream = client
        .transform_stream(TransformStreamRequest::default())
        .await
        .unwrap()
        .into_inner();
    stream.message().await.unwrap();
    let streams = if a.asked() == 1 { "a" } else { "b" };
    for _ in 0..20 {
        assert_ne!(gateway.transformer().await.unwrap(), streams);
    }
    drop(stream);
    for _ in 0..1000 {
        if gateway.transformer().await.unwrap() == streams {
            return;
        }
    }
    panic!("still counted as busy");
}

#[tokio::test]
async fn a_deadline_holds_where_a_server_hangs() {
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = hangs.local_addr().unwrap().to_string();
    let gateway = gateway(&[&address]).await;
    let mut request = Request::new(ListTransformationsRequest::default());
    request.set_timeout(Duration::from_millis(100));
    let call = TransformServiceClient::new(gateway.channel.clone())
        .list_transformations(request)
        .await;
    let status = call.unwrap_err();
    assert!(
        matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled),
        "{status}"
    );
}

#[test]
fn servers_are_named_once() {
    let of = |address: &str, addresses: &[&str]| ServersConfig {
        address: address.to_owned(),
        addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
        ..ServersConfig::default()
    };
    for servers in [of("a:1", &[]), of("", &["a:1"]), of("", &["a:1", "b:1"])] {
        servers.validate().unwrap();
    }
    for (servers, key) in [
        (of("a:1", &["b:1"]), "transform.addresses"),
        (of("", &["a:1", "a:1"]), "transform.addresses"),
        (of("", &[]), "transform.address"),
    ] {
        let config = GatewayConfig {
            transform: Some(servers),
            ..GatewayConfig::default()
        };
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}
