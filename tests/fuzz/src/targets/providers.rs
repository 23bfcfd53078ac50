//! Answers and addresses of other servers.

use std::{
    cell::OnceCell,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use isomer_adapters::{AddressGuard, EncoderBackend, GuardConfig, Kind, Surroundings, connect, fuzz, kinds};
use isomer_proto::{
    encoder::v1::{CountTokensRequest, EncodeRequest, Input as EncoderInput, RerankRequest, input},
    gateway::v1::Provider,
};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tonic::Status;
use url::Url;

use crate::input::{Input, text};

const TEXTS: usize = 2;
/// Ends a provider's answer about its model.
const FACTS_END: u8 = 0x1e;

/// The server's answers: about a model, and to all other requests.
#[derive(Debug, Default, Clone)]
struct Answers {
    facts: Vec<u8>,
    work: Vec<u8>,
}

/// A server on a port of this machine.
struct Server {
    runtime: Runtime,
    said: Arc<Mutex<Answers>>,
    address: SocketAddr,
}

impl Server {
    fn new() -> Option<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let address = listener.local_addr().ok()?;
        let said = Arc::<Mutex<Answers>>::default();
        let answered = Arc::clone(&said);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let said = Arc::clone(&answered);
                std::thread::spawn(move || answer(&stream, &said));
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        Some(Self { runtime, said, address })
    }
}

fn backend(kind: &Kind, address: SocketAddr) -> Option<Arc<dyn EncoderBackend>> {
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
    provider.set_kind(kind.value);
    if kind.needs_input_types() {
        let any = (String::new(), "search_document".to_owned());
        provider.input_types = [any].into();
    }
    connect(&provider, &surroundings).ok()
}

/// Reads requests with a length and answers each of them.
fn answer(mut stream: &TcpStream, said: &Mutex<Answers>) -> Option<()> {
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
        let asks_for_facts = head.starts_with("get ") || head.starts_with("post /api/show ");
        let said = said.lock().clone();
        let body = if asks_for_facts { said.facts } else { said.work };
        let head = format!(
            "HTTP/1.1 200 Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body].concat()).ok()?;
    }
}

/// The answers of a provider: a letter for the kind, a letter for the request, its answer about its
/// model, `FACTS_END`, and its answer to two texts or to a query and two documents. Without
/// `FACTS_END`, both kinds of request get the same answer. An accepted answer has a vector for each
/// text, each as long as the matrix declares, with finite numbers only; a rank belongs to a
/// document that was sent.
pub(super) fn embeddings(data: &[u8]) {
    thread_local! {
        static SERVER: OnceCell<Option<Server>> = const { OnceCell::new() };
    }
    let mut input = Input(data);
    // The kinds that use JSON over HTTP.
    let kinds: Vec<&Kind> = kinds().filter(|kind| !kind.grpc).collect();
    let kind = usize::from(input.byte().wrapping_sub(b'a'));
    let asked = input.byte();
    let facts = input.until(FACTS_END);
    let work = if input.0.is_empty() { facts } else { input.0 };
    SERVER.with(|server| {
        let Some(server) = server.get_or_init(Server::new) else {
            return;
        };
        *server.said.lock() = Answers {
            facts: facts.to_vec(),
            work: work.to_vec(),
        };
        server.runtime.block_on(async {
            // A new backend each time, because a backend remembers the facts of a model.
            let Some(backend) = backend(kinds[kind % kinds.len()], server.address) else {
                return;
            };
            let call = async {
                match asked {
                    b'b' => rerank(backend.as_ref()).await,
                    b'c' => encode(backend.as_ref(), changed()).await,
                    b'd' => count(backend.as_ref()).await,
                    b'e' => drop(backend.get("one").await),
                    _ => encode(backend.as_ref(), EncodeRequest::default()).await,
                }
            };
            let ended = tokio::time::timeout(Duration::from_secs(20), call).await;
            assert!(ended.is_ok(), "the call did not end");
        });
    });
}

/// A request for vectors in a form that differs from the provider's own.
fn changed() -> EncodeRequest {
    EncodeRequest {
        dimensions: Some(2),
        normalise: Some(false),
        ..EncodeRequest::default()
    }
}

async fn encode(backend: &dyn EncoderBackend, request: EncodeRequest) {
    let input = |text: &str| EncoderInput {
        input: Some(input::Input::Text(text.to_owned())),
    };
    let request = EncodeRequest {
        encoder_id: "one".to_owned(),
        inputs: vec![input("a man plays"), input("a guitar")],
        ..request
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

async fn count(backend: &dyn EncoderBackend) {
    let request = CountTokensRequest {
        encoder_id: "one".to_owned(),
        texts: vec!["a man plays".to_owned(), "a guitar".to_owned()],
        prompt: None,
    };
    if let Ok(answer) = backend.count_tokens(request, None).await {
        assert_eq!(answer.token_counts.len(), TEXTS);
    }
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

/// An answer that is not a success: the status in decimal, the header Retry-After and the body, on
/// one line each. No message contains the provider's secret, and the fault is the same after a
/// conversion to a gRPC status and back.
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
            // A caller that waits adds this duration to the current time.
            assert!(
                tokio::time::Instant::now().checked_add(wait).is_some(),
                "{wait:?} from now cannot be represented"
            );
        }
    }
}

/// A provider's address. An accepted address does not belong to this machine, its network or a
/// cloud's metadata service.
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
                "{ip} is accepted"
            );
            let first = ip.segments()[0];
            assert!(first & 0xfe00 != 0xfc00 && first & 0xffc0 != 0xfe80, "{ip} is accepted");
            match ip.to_ipv4() {
                Some(ip) => ip,
                None => return,
            }
        }
        url::Host::Domain(_) => return,
    };
    assert!(
        !ip.is_loopback() && !ip.is_private() && !ip.is_link_local() && !ip.is_unspecified() && !ip.is_broadcast(),
        "{ip} is accepted"
    );
}
