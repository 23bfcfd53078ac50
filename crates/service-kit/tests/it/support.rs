//! A service whose behaviour is set by the request, with servers and channels around it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, stream};
use isomer_proto::encoder::v1::{
    EncodeStreamRequest, EncodeStreamResponse, Encoder, GetEncoderRequest, GetEncoderResponse,
    encoder_service_client::EncoderServiceClient,
    encoder_service_server::{EncoderService, EncoderServiceServer},
};
use isomer_service_kit::{Fault, GrpcChannel, LimitsConfig, Services, client, memory, server};
use isomer_stubs::encoder::StubEncoder;
pub use isomer_stubs::wait::{found, until as eventually};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
};
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream};

/// Events that the service saw and conditions that it waits for.
#[derive(Debug, Default)]
pub struct ServiceEvents {
    pub begun: AtomicUsize,
    pub dropped: AtomicUsize,
    pub release: Notify,
}

impl ServiceEvents {
    pub async fn begun(&self, calls: usize) {
        eventually(&format!("{calls} calls begin"), || {
            self.begun.load(Ordering::SeqCst) >= calls
        })
        .await;
    }
}

/// Counts calls that were dropped before they ended.
struct DropCount(Arc<ServiceEvents>, bool);

impl Drop for DropCount {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// `GetEncoder` acts on the id: `slow:MS`, `held` (until released), `panic`, `big:BYTES`,
/// `overloaded`, `verbose`; any other id is echoed. `EncodeStream` likewise uses the first
/// request's client index: see [`StreamKind`].
#[derive(Debug, Clone, Default)]
pub struct ScriptedEncoder {
    pub seen: Arc<ServiceEvents>,
}

/// Client index of a stream's first request.
pub struct StreamKind;

impl StreamKind {
    /// One message, then silence.
    pub const ONE_THEN_SILENCE: u64 = 1;
    /// One message, then a panic.
    pub const ONE_THEN_PANIC: u64 = 2;
    /// A message every millisecond without end.
    pub const ENDLESS: u64 = 3;
    /// Very many small messages, each in its own frame.
    pub const BURST: u64 = 4;
    pub const BURST_LENGTH: u64 = 20_000;
}

fn message(client_index: u64) -> Result<EncodeStreamResponse, Status> {
    Ok(EncodeStreamResponse {
        client_index,
        response: None,
    })
}

#[tonic::async_trait]
impl EncoderService for ScriptedEncoder {
    async fn get_encoder(&self, request: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        let mut count = DropCount(Arc::clone(&self.seen), false);
        let id = request.into_inner().id;
        let (what, amount) = id.split_once(':').unwrap_or((&id, "0"));
        let amount: usize = amount.parse().unwrap_or_default();
        let released = self.seen.release.notified();
        self.seen.begun.fetch_add(1, Ordering::SeqCst);
        let mut answer = id.clone();
        match what {
            "slow" => tokio::time::sleep(Duration::from_millis(amount as u64)).await,
            "held" => released.await,
            "panic" => panic!("the secret ingredient is {amount}"),
            "big" => answer = "x".repeat(amount),
            "verbose" => return Err(Fault::invalid("text", "ü".repeat(100_000)).hint("less").into()),
            "overloaded" => return Err(Fault::overloaded("full", Duration::from_millis(1500)).into()),
            _ => {}
        }
        count.1 = true;
        Ok(Response::new(GetEncoderResponse {
            encoder: Some(Encoder {
                id: answer,
                ..Encoder::default()
            }),
        }))
    }

    async fn encode_stream(
        &self,
        request: Request<Streaming<EncodeStreamRequest>>,
    ) -> Result<Response<BoxStream<EncodeStreamResponse>>, Status> {
        let mut requests = request.into_inner();
        let first = requests
            .next()
            .await
            .ok_or_else(|| Status::invalid_argument("no request"))??;
        self.seen.begun.fetch_add(1, Ordering::SeqCst);
        let count = DropCount(Arc::clone(&self.seen), false);
        let one = stream::once(async { message(1) });
        let answers: BoxStream<EncodeStreamResponse> = match first.client_index {
            StreamKind::ONE_THEN_SILENCE => {
                let silence = stream::once(async move {
                    let _count = count;
                    std::future::pending().await
                });
                Box::pin(one.chain(silence))
            }
            StreamKind::ONE_THEN_PANIC => Box::pin(one.chain(stream::once(async {
                // tonic sends all ready messages together; the message must be sent before the
                // panic.
                tokio::time::sleep(Duration::from_millis(20)).await;
                panic!("midway")
            }))),
            StreamKind::BURST => Box::pin(stream::iter(0..StreamKind::BURST_LENGTH).then(|n| async move {
                tokio::task::yield_now().await;
                message(n)
            })),
            _ => Box::pin(stream::unfold((0, count), |(n, count)| async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Some((message(n), (n + 1, count)))
            })),
        };
        Ok(Response::new(answers))
    }
}

pub fn services(service: &ScriptedEncoder) -> Services {
    let most = LimitsConfig::default().max_message_bytes;
    let server = EncoderServiceServer::new(service.clone());
    Services::new().add(server.max_decoding_message_size(most).max_encoding_message_size(most))
}

pub fn encoder(channel: GrpcChannel) -> EncoderServiceClient<GrpcChannel> {
    EncoderServiceClient::new(channel).max_decoding_message_size(usize::MAX)
}

/// A service that forwards every request for an encoder.
#[allow(dead_code, reason = "for the tests of traces")]
pub fn relay(to: GrpcChannel) -> Services {
    let relay = StubEncoder::default().on_get(move |request| {
        let mut next = encoder(to.clone());
        async move {
            let answer = next.get_encoder(request.into_inner()).await?;
            Ok(answer.into_inner().encoder.unwrap_or_default())
        }
    });
    Services::new().add(relay.service())
}

/// Requests an encoder, and returns the id in the response.
pub async fn get(channel: &GrpcChannel, id: impl Into<String>) -> Result<String, Status> {
    let answer = encoder(channel.clone())
        .get_encoder(GetEncoderRequest { id: id.into() })
        .await?;
    Ok(answer.into_inner().encoder.unwrap_or_default().id)
}

/// Opens a stream of the given kind. The request side stays open for as long as the responses are
/// read.
pub async fn open(channel: &GrpcChannel, kind: u64) -> Result<Streaming<EncodeStreamResponse>, Status> {
    open_with(channel, Request::new(requests(kind))).await
}

pub async fn open_with(
    channel: &GrpcChannel,
    request: Request<impl Stream<Item = EncodeStreamRequest> + Send + 'static>,
) -> Result<Streaming<EncodeStreamResponse>, Status> {
    Ok(encoder(channel.clone()).encode_stream(request).await?.into_inner())
}

pub fn requests(kind: u64) -> impl Stream<Item = EncodeStreamRequest> + Send + 'static {
    let first = EncodeStreamRequest {
        client_index: kind,
        request: None,
    };
    stream::once(async { first }).chain(stream::pending())
}

pub async fn in_memory(service: &ScriptedEncoder, limits: &LimitsConfig) -> GrpcChannel {
    memory::channel(services(service), limits).await.unwrap()
}

/// A server on its own port.
pub struct TestServer {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    pub task: JoinHandle<Result<(), Fault>>,
}

impl TestServer {
    /// Starts on any free port, whatever port the configuration names.
    pub async fn start(services: Services, config: server::ServerConfig) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::listen(services, server::ServerConfig { listen, ..config }).await
    }

    pub async fn listen(services: Services, config: server::ServerConfig) -> Self {
        let listener = server::bind(&config).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move { server::serve(services, &config, listener, stopped.map(drop)).await });
        Self {
            address,
            stop: Some(stop),
            task,
        }
    }

    pub async fn connect(&self) -> GrpcChannel {
        client::connect(&client::ClientConfig::plain(self.address.to_string()))
            .await
            .unwrap()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Starts the shutdown.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has ended, for at most a minute.
    pub async fn ended(self) -> Result<(), Fault> {
        tokio::time::timeout(Duration::from_secs(60), self.task)
            .await
            .expect("the server did not end in time")
            .unwrap()
    }
}

/// An HTTP client without TLS.
pub fn http() -> reqwest::Client {
    isomer_service_kit::tls::install_crypto();
    reqwest::Client::new()
}
