//! What servers of others answer, and where they may be.

use std::{
    cell::OnceCell,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use isomer_adapters::{AddressGuard, EncoderBackend, GuardConfig, Surroundings, connect, fuzz};
use isomer_proto::{
    encoder::v1::{EncodeRequest, Input as EncoderInput, RerankRequest, input},
    gateway::v1::{Provider, ProviderKind},
};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tonic::Status;
use url::Url;

use crate::input::{Input, text};

/// The kinds that speak JSON over HTTP.
const KINDS: [ProviderKind; 7] = [
    ProviderKind::Openai,
    ProviderKind::CohereV2,
    ProviderKind::Voyage,
    ProviderKind::Ollama,
    ProviderKind::Jina,
    ProviderKind::TeiHttp,
    ProviderKind::HuggingFace,
];
const TEXTS: usize = 2;

/// The answer that the server gives to every request, but for the facts that some kinds ask for first.
type Said = Arc<Mutex<(u16, Vec<u8>)>>;

/// A server on a port of this machine that answers every request alike, and a backend of each kind in front of it.
struct Server {
    runtime: Runtime,
    said: Said,
    backends: Vec<Arc<dyn EncoderBackend>>,
}

impl Server {
    fn new() -> Option<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let address = listener.local_addr().ok()?;
        let said = Said::default();
        let (answered, runtime) = (Arc::clone(&said), tokio::runtime::Builder::new_current_thread());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let said = Arc::clone(&answered);
                std::thread::spawn(move || answer(&stream, &said));
            }
        });
        let mut runtime = runtime;
        let runtime = runtime.enable_all().build().ok()?;
        let backends = runtime.block_on(async { KINDS.iter().filter_map(|kind| backend(*kind, address)).collect() });
        Some(Self {
            runtime,
            said,
            backends,
        })
    }
}

fn backend(kind: ProviderKind, address: SocketAddr) -> Option<Arc<dyn EncoderBackend>> {
    let allow = vec![address.ip().to_string()];
    let surroundings = Surroundings {
        guard: AddressGuard::new(&GuardConfig { allow }).ok()?,
        max_message_bytes: 1 << 20,
    };
    let mut provider = Provider {
        id: "provider".to_owned(),
        address: format!("http://{address}"),
        encoders: [("one".to_owned(), "one".to_owned())].into(),
        ..Provider::default()
    };
    provider.set_kind(kind);
    connect(&provider, &surroundings).ok()
}

/// Reads requests with a length and answers each.
fn answer(mut stream: &TcpStream, said: &Said) -> Option<()> {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read(&mut chunk).ok()? {
                0 => return None,
                read => buffer.extend_from_slice(&chunk[..read]),
            }
        };
        let head = text(&buffer[..end]).to_ascii_lowercase();
        let length = head
            .split_once("content-length: ")
            .and_then(|(_, rest)| rest.lines().next());
        let whole = end
            + length
                .and_then(|length| length.trim().parse::<usize>().ok())
                .unwrap_or(0);
        while buffer.len() < whole {
            match stream.read(&mut chunk).ok()? {
                0 => return None,
                read => buffer.extend_from_slice(&chunk[..read]),
            }
        }
        buffer.drain(..whole);
        let (status, body) = said.lock().clone();
        let head = format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body].concat()).ok()?;
    }
}

/// The answer of a provider to two texts, or to a question and two documents: a letter for the kind, one for what is asked, the body.
/// What is taken has a vector for each text, each as long as the matrix says, and only finite numbers; a rank is of a document that
/// was sent.
pub(super) fn embeddings(data: &[u8]) {
    thread_local! {
        static SERVER: OnceCell<Option<Server>> = const { OnceCell::new() };
    }
    let mut input = Input(data);
    let kind = usize::from(input.byte().wrapping_sub(b'a'));
    let reranks = input.byte() == b'b';
    SERVER.with(|server| {
        let Some(server) = server.get_or_init(Server::new) else {
            return;
        };
        let Some(backend) = server.backends.get(kind % server.backends.len().max(1)) else {
            return;
        };
        *server.said.lock() = (200, input.0.to_vec());
        server.runtime.block_on(async {
            let call = async {
                if reranks {
                    rerank(backend.as_ref()).await;
                } else {
                    encode(backend.as_ref()).await;
                }
            };
            let ended = tokio::time::timeout(Duration::from_secs(20), call).await;
            assert!(ended.is_ok(), "the call did not end");
        });
    });
}

async fn encode(backend: &dyn EncoderBackend) {
    let input = |text: &str| EncoderInput {
        input: Some(input::Input::Text(text.to_owned())),
    };
    let request = EncodeRequest {
        encoder_id: "one".to_owned(),
        inputs: vec![input("a man plays"), input("a guitar")],
        ..EncodeRequest::default()
    };
    let Ok(answer) = backend.encode(request, None).await else {
        return;
    };
    let Some(matrix) = answer.embeddings else { return };
    assert_eq!(matrix.rows as usize, TEXTS);
    assert_eq!(matrix.data.len(), TEXTS * matrix.cols as usize * size_of::<f32>());
    let values = matrix.data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    values.for_each(|value| assert!(value.is_finite(), "{value} among the vectors"));
}

async fn rerank(backend: &dyn EncoderBackend) {
    let request = RerankRequest {
        encoder_id: "one".to_owned(),
        query: "who plays?".to_owned(),
        documents: vec!["a man plays".to_owned(), "a guitar".to_owned()],
        ..RerankRequest::default()
    };
    let Ok(answer) = backend.rerank(request, None).await else {
        return;
    };
    assert!(answer.results.len() <= TEXTS);
    for result in answer.results {
        assert!((result.index as usize) < TEXTS && result.score.is_finite());
    }
}

/// An answer that is no success: the status in decimal, the header Retry-After, the body, one line each. The provider's secret is in
/// no message, and the fault survives its way through a gRPC status.
pub(super) fn failures(data: &[u8]) {
    const SECRET: &str = "sk-0123456789";
    let mut input = Input(data);
    let status = text(input.until(b'\n')).parse().ok();
    let Some(status) = status.and_then(|status| StatusCode::from_u16(status).ok()) else {
        return;
    };
    let mut headers = HeaderMap::new();
    if let Ok(after) = HeaderValue::from_bytes(input.until(b'\n')) {
        headers.insert(header::RETRY_AFTER, after);
    }
    let body = [input.0, SECRET.as_bytes()].concat();
    for body in [input.0, &body] {
        let fault = fuzz::failure(status, &headers, body, SECRET);
        assert!(!fault.to_string().contains(SECRET), "the message holds the secret");
        assert!(fault.message.len() < 4096, "a message of {} bytes", fault.message.len());
        let (code, wait) = (fault.code, fault.retry_after);
        let again = isomer_service_kit::Fault::from_status(&Status::from(fault));
        assert_eq!(again.code, code);
        assert_eq!(again.retry_after.is_some(), wait.is_some());
        if let Some(wait) = again.retry_after {
            // Whoever waits adds it to the time that it is.
            assert!(
                tokio::time::Instant::now().checked_add(wait).is_some(),
                "{wait:?} leads out of time"
            );
        }
    }
}

/// A provider's address. One that is taken is none of this machine, of its network or of a cloud's metadata service.
pub(super) fn addresses(data: &[u8]) {
    let address = text(data);
    let Ok(guard) = AddressGuard::new(&GuardConfig::default()) else {
        return;
    };
    let Ok(url) = Url::parse(&address) else { return };
    let Some(host) = url.host() else { return };
    if guard.check_literal(&host).is_err() {
        return;
    }
    let ip = match host {
        url::Host::Ipv4(ip) => ip,
        url::Host::Ipv6(ip) => {
            assert!(
                !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast(),
                "{ip} is taken"
            );
            let first = ip.segments()[0];
            assert!(first & 0xfe00 != 0xfc00 && first & 0xffc0 != 0xfe80, "{ip} is taken");
            match ip.to_ipv4() {
                Some(ip) => ip,
                None => return,
            }
        }
        url::Host::Domain(_) => return,
    };
    assert!(
        !ip.is_loopback() && !ip.is_private() && !ip.is_link_local() && !ip.is_unspecified() && !ip.is_broadcast(),
        "{ip} is taken"
    );
}
