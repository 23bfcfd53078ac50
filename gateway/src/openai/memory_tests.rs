//! Tests the memory that bodies of HTTP requests take while they are read.
#![allow(clippy::unwrap_used, unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::{Router, body::Body, extract::DefaultBodyLimit};
use http::{Request, header};
use tower::ServiceExt;

use super::tests::backends;
use crate::dialects;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with a count of the bytes in use. It counts for all tests of this
/// executable; nextest runs each test in its own process.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn grow(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's guarantee is the one that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Large blocks are moved by the system without a copy.
        match size.checked_sub(layout.size()) {
            Some(more) => grow(more),
            None => {
                NOW.fetch_sub(layout.size() - size, Ordering::Relaxed);
            }
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Bytes of a hostile value.
const VALUE: usize = 4 << 20;
/// Memory of lists with the maximum number of elements, however short, plus all other memory.
const CONSTANT: usize = 6 << 20;

/// Paths with request bodies. A value of any kind replaces `@`.
const BODIES: &[(&str, &[&str])] = &[
    (
        "/v1/embeddings",
        &[
            r#"{"model":@}"#,
            r#"{"model":"nobody","input":@}"#,
            r#"{"model":"nobody","input":[@]}"#,
            r#"{"model":"nobody","input":[[0],@]}"#,
            r#"{"model":"nobody","input":"x","encoding_format":@}"#,
            r#"{"model":"nobody","input":"x","dimensions":@}"#,
            r#"{"model":"nobody","input":"x","user":@}"#,
            r#"{"model":"nobody","input":"x","prompt_name":@}"#,
            r#"{"model":"nobody","input":"x","truncation":@}"#,
            r#"{"model":"nobody","input":"x","augment":@}"#,
            r#"{"model":"nobody","input":"x","augment":{"transformations":@}}"#,
            r#"{"model":"nobody","input":"x","augment":{"transformations":[],"generators":@}}"#,
            r#"{"model":"nobody","input":"x","augment":{"transformations":[],"evidence":@}}"#,
            r#"{"model":"nobody","input":"x","augment":{"transformations":[],"evidence":[@]}}"#,
            r#"{"model":"nobody","input":"x","augment":{"transformations":[],"cascade":@}}"#,
            r#"{"model":"nobody","input":"x","augment":{"transformations":[],"pooling":@}}"#,
            r#"{"model":"nobody","input":"x","input_type":@}"#,
            r#"{"model":"nobody","input":"x","output_dtype":@}"#,
            r#"{"model":"nobody","input":"x","normalized":@}"#,
            r#"{"model":"nobody","input":"x","task":@}"#,
            r#"{"model":"nobody","input":"x","unknown":@}"#,
        ],
    ),
    (
        "/v1/rerank",
        &[
            r#"{"model":"nobody","query":"x","documents":@}"#,
            r#"{"model":"nobody","query":"x","documents":[@]}"#,
            r#"{"model":"nobody","query":"x","documents":[{"text":"x","more":@}]}"#,
            r#"{"model":"nobody","query":"x","documents":["x"],"label":@}"#,
        ],
    ),
    (
        "/v2/embed",
        &[
            r#"{"model":"nobody","texts":@}"#,
            r#"{"model":"nobody","input_type":"classification","texts":["x"],"embedding_types":@}"#,
            r#"{"model":"nobody","input_type":@}"#,
            r#"{"model":"nobody","images":@}"#,
            r#"{"model":"nobody","inputs":@}"#,
            r#"{"model":"nobody","max_tokens":@}"#,
            r#"{"model":"nobody","truncate":@}"#,
        ],
    ),
    (
        "/v2/rerank",
        &[
            r#"{"model":"nobody","query":"x","documents":@}"#,
            r#"{"model":"nobody","query":"x","documents":[],"max_tokens_per_doc":@}"#,
        ],
    ),
    (
        "/api/embed",
        &[
            r#"{"model":"nobody","input":@}"#,
            r#"{"model":"nobody","input":"x","options":@}"#,
            r#"{"model":"nobody","input":"x","options":{"seed":@}}"#,
            r#"{"model":"nobody","input":"x","options":{"stop":[@]}}"#,
            r#"{"model":"nobody","input":"x","keep_alive":@}"#,
        ],
    ),
    (
        "/api/embeddings",
        &[
            r#"{"model":"nobody","prompt":"x","options":@}"#,
            r#"{"model":"nobody","prompt":"x","keep_alive":@}"#,
        ],
    ),
    ("/api/show", &[r#"{"model":@}"#, r#"{"model":"nobody","unknown":@}"#]),
    (
        "/embed?model=nobody",
        &[r#"{"inputs":@}"#, r#"{"inputs":"x","truncation_direction":@}"#],
    ),
    ("/rerank?model=nobody", &[r#"{"query":"x","texts":@}"#]),
    (
        "/predict?model=nobody",
        &[r#"{"inputs":@}"#, r#"{"inputs":[@]}"#, r#"{"inputs":[["x","x"],@]}"#],
    ),
    (
        "/similarity?model=nobody",
        &[
            r#"{"inputs":@}"#,
            r#"{"inputs":{"source_sentence":"x","sentences":@}}"#,
            r#"{"inputs":{"source_sentence":"x","sentences":[]},"parameters":@}"#,
        ],
    ),
    ("/tokenize?model=nobody", &[r#"{"inputs":@}"#]),
    ("/decode?model=nobody", &[r#"{"ids":@}"#]),
    (
        "/?model=nobody",
        &[
            r#"{"inputs":@}"#,
            r#"{"inputs":{"source_sentence":"x","sentences":@}}"#,
            r#"{"inputs":"x","parameters":@}"#,
        ],
    ),
];

fn values() -> Vec<String> {
    let list = |element: &str, bytes: usize| {
        let count = bytes / (element.len() + 1);
        format!("[{}]", vec![element; count].join(","))
    };
    let mut values: Vec<String> = ["0", "\"\"", "[]", "{}", "null", "[0]", "\"float\"", "[\"\",\"\"]"]
        .iter()
        .map(|element| list(element, VALUE))
        .collect();
    // Many lists, each within the bound on one list.
    values.push(list(&list("0", 100_000), VALUE));
    values.push(list(&list("\"\"", 100_000), VALUE));
    let fields: Vec<String> = (0..VALUE / 12).map(|n| format!("\"{n:06}\":[]")).collect();
    values.push(format!("{{{}}}", fields.join(",")));
    values.push(format!("\"{}\"", "x".repeat(VALUE)));
    values
}

/// Peak memory of a request in bytes, beyond the memory in use before.
async fn peak(front: &Router, path: &str, body: String) -> usize {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(body)).unwrap();
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let answer = front.clone().oneshot(request).await.unwrap();
    let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    assert!(bytes.len() < 64 << 10, "{path}: an answer of {} bytes", bytes.len());
    PEAK.load(Ordering::Relaxed).saturating_sub(before)
}

#[tokio::test]
async fn no_body_takes_more_than_four_times_its_size() {
    let backends = backends().await;
    let front = super::routes(backends.clone()).merge(dialects::routes(&backends));
    let front = front.layer(DefaultBodyLimit::disable());
    let mut large = Vec::new();
    for value in values() {
        for (path, bodies) in BODIES {
            for body in *bodies {
                let peak = peak(&front, path, body.replace('@', &value)).await;
                let most = 4 * value.len() + CONSTANT;
                if peak > most {
                    large.push(format!("{path} {body} with {}…: {peak} bytes", &value[..20]));
                }
            }
        }
    }
    assert!(large.is_empty(), "{large:#?}");
}

#[tokio::test]
async fn lists_of_honest_size_are_read() {
    let backends = backends().await;
    let front = super::routes(backends.clone()).merge(dialects::routes(&backends));
    let texts = format!("[{}]", vec!["\"\""; 65_536 / 10 * 8].join(","));
    for (path, body) in [
        ("/v1/embeddings", r#"{"model":"nobody","input":@}"#),
        ("/v1/rerank", r#"{"model":"nobody","query":"x","documents":@}"#),
        (
            "/v2/embed",
            r#"{"model":"nobody","input_type":"classification","texts":@}"#,
        ),
        ("/v2/rerank", r#"{"model":"nobody","query":"x","documents":@}"#),
        ("/api/embed", r#"{"model":"nobody","input":@,"options":{"stop":@}}"#),
        ("/embed?model=nobody", r#"{"inputs":@}"#),
        ("/rerank?model=nobody", r#"{"query":"x","texts":@}"#),
        ("/tokenize?model=nobody", r#"{"inputs":@}"#),
    ] {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body.replace('@', &texts))).unwrap();
        let answer = front.clone().oneshot(request).await.unwrap();
        // The list is read, even if the stub knows no such encoder.
        assert!(
            [200, 404].contains(&answer.status().as_u16()),
            "{path}: {}",
            answer.status()
        );
    }
}
