//! A gateway with every service in its process, on a runtime of one thread.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use futures::stream;
use isomer_service_kit::{
    GrpcChannel,
    client::{self, ClientConfig},
    config::Secret,
};
use isomer_stubs::raw::Raw;
use parking_lot::Mutex;
use tonic::{Request, Status, client::Grpc};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::rows::Way;
use crate::{harness::Harness, models::ENCODER};

#[derive(Clone)]
pub struct IsolatedServer {
    address: SocketAddr,
    /// One key for each call, so that no call uses up another's budget.
    keys: Arc<Mutex<Vec<Secret>>>,
}

impl IsolatedServer {
    /// Starts with keys for `calls` calls.
    pub fn start(calls: usize) -> Self {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let harness = Harness::with(|config| config.eval.encode_batch_items = 64).await;
                let mut keys = Vec::new();
                for _ in 0..calls {
                    keys.push(harness.key().await.text);
                }
                send.send(Self {
                    address: harness.address,
                    keys: Arc::new(Mutex::new(keys)),
                })
                .unwrap();
                std::future::pending::<()>().await;
                drop(harness);
            });
        });
        receive.recv().unwrap()
    }

    fn key(&self) -> Secret {
        self.keys.lock().pop().expect("a key for each call")
    }

    fn channel(&self, key: Secret) -> GrpcChannel {
        let config = ClientConfig {
            address: format!("http://{}", self.address),
            api_key: key,
            ..ClientConfig::default()
        };
        client::connect_lazy(&config).unwrap()
    }

    /// A separate connection for health.
    pub async fn health(&self) -> HealthClient<GrpcChannel> {
        let mut health = HealthClient::new(self.channel(Secret::default()));
        check(&mut health).await;
        health
    }

    /// Response time of health checks when nothing else is in flight: the median of some calls.
    pub async fn health_by_itself(&self) -> Duration {
        let mut health = self.health().await;
        let mut all = Vec::new();
        for _ in 0..9 {
            let asked = Instant::now();
            check(&mut health).await;
            all.push(asked.elapsed());
        }
        all.sort_unstable();
        all[4]
    }

    /// Makes a call; returns the time of its response, whether success or error.
    pub fn call(&self, name: String, way: Way) -> impl Future<Output = Instant> + Send + 'static {
        let alone = self.clone();
        async move {
            match way {
                Way::Grpc(message) => alone.grpc(&name, message).await,
                Way::Http(path, body) => alone.http(&path, body).await,
            }
            Instant::now()
        }
    }

    async fn grpc(&self, path: &str, message: Vec<u8>) {
        let mut grpc = Grpc::new(self.channel(self.key())).max_decoding_message_size(usize::MAX);
        grpc.ready().await.unwrap();
        let mut request = Request::new(stream::iter([message]));
        // This is for services whose messages name no encoder.
        request
            .metadata_mut()
            .insert("isomer-encoder", ENCODER.parse().unwrap());
        let answered = async {
            let answers = grpc.streaming(request, path.parse().unwrap(), Raw).await?;
            let mut answers = answers.into_inner();
            while answers.message().await?.is_some() {}
            Ok::<_, Status>(())
        };
        if let Err(status) = answered.await {
            println!(
                "  {path}: {:?} {}",
                status.code(),
                status.message().chars().take(200).collect::<String>()
            );
        }
    }

    async fn http(&self, path: &str, body: String) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .post(format!("http://{}{path}", self.address))
            .header("content-type", "application/json")
            .bearer_auth(self.key().expose().unwrap())
            .body(body);
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap_or_default();
        if !status.is_success() {
            println!("  {path}: {status} {}", text.chars().take(200).collect::<String>());
        }
    }
}

pub async fn check(health: &mut HealthClient<GrpcChannel>) {
    health.check(HealthCheckRequest::default()).await.unwrap();
}
