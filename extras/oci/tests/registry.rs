//! Evidence in a registry in memory that implements what is asked of one: with and without the
//! referrers API, open and with both kinds of authentication. `tests/evidence/run` has a real one.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::{Method, StatusCode, header};
use isomer_oci::{
    OciError,
    credentials::Credentials,
    reference::Reference,
    referrer::{Descriptor, Evidence, FoundBy, push, referrers},
    registry::{INDEX, MANIFEST, Repository, digest},
};
use isomer_service_kit::config::Secret;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A manifest: its media type and its bytes.
type ManifestFile = (String, Vec<u8>);

#[derive(Default)]
struct Content {
    blobs: BTreeMap<String, Vec<u8>>,
    /// By digest and by tag.
    manifests: BTreeMap<String, ManifestFile>,
    /// Whether there is a referrers API.
    api: bool,
    /// `Basic` or `Bearer`, if somebody has to log in.
    scheme: &'static str,
    /// Where blobs really are, if they are elsewhere.
    elsewhere: String,
    /// Tags that another program writes just after us, once: the index that it puts there.
    raced: BTreeMap<String, Vec<u8>>,
    /// Requests received: method, path, authorization.
    seen: Vec<(Method, String, Option<String>)>,
    host: String,
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Content>>);

fn answer(status: u16, body: impl Into<Body>) -> Response {
    Response::builder().status(status).body(body.into()).unwrap()
}

async fn handle(State(memory): State<Memory>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let (path, query) = (
        parts.uri.path().to_owned(),
        parts.uri.query().unwrap_or_default().to_owned(),
    );
    let given = parts
        .headers
        .get(header::AUTHORIZATION)
        .map(|value| value.to_str().unwrap().to_owned());
    let mut content = memory.0.lock();
    content.seen.push((parts.method.clone(), path.clone(), given.clone()));
    if path == "/token" {
        assert!(
            query.contains("scope=repository%3Aencoders%2Fenc%3Apull%2Cpush"),
            "{query}"
        );
        return match given.as_deref() {
            Some("Basic YW5uOnBhc3M=") => answer(200, json!({ "token": "t0ken" }).to_string()),
            _ => answer(
                401,
                json!({ "errors": [{ "code": "UNAUTHORIZED", "message": "who?" }] }).to_string(),
            ),
        };
    }
    let (wanted, challenge) = match content.scheme {
        "Basic" => ("Basic YW5uOnBhc3M=", "Basic realm=\"r\"".to_owned()),
        "Bearer" => (
            "Bearer t0ken",
            format!("Bearer realm=\"http://{}/token\",service=\"s\"", content.host),
        ),
        _ => ("", String::new()),
    };
    if !wanted.is_empty() && given.as_deref() != Some(wanted) {
        let mut refused = answer(401, "");
        refused
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge.parse().unwrap());
        return refused;
    }
    let rest = path.strip_prefix("/v2/encoders/enc/").unwrap().to_owned();
    let (kind, name) = rest.split_once('/').unwrap();
    match (parts.method.as_str(), kind) {
        ("HEAD", "blobs") => answer(if content.blobs.contains_key(name) { 200 } else { 404 }, ""),
        ("GET", "blobs") if !content.elsewhere.is_empty() => {
            let place = format!("{}/{name}", content.elsewhere);
            Response::builder()
                .status(307)
                .header(header::LOCATION, place)
                .body(Body::empty())
                .unwrap()
        }
        ("GET", "blobs") => match content.blobs.get(name) {
            Some(bytes) => answer(200, bytes.clone()),
            None => answer(404, ""),
        },
        ("POST", "blobs") => {
            let place = "/v2/encoders/enc/blobs/uploads/u1?state=x";
            Response::builder()
                .status(202)
                .header(header::LOCATION, place)
                .body(Body::empty())
                .unwrap()
        }
        ("PUT", "blobs") => {
            let named = digest(&body);
            assert_eq!(query, format!("state=x&digest={}", named.replace(':', "%3A")));
            content.blobs.insert(named, body.to_vec());
            answer(201, "")
        }
        ("PUT", "manifests") => {
            let kind = parts.headers[header::CONTENT_TYPE].to_str().unwrap().to_owned();
            let named = digest(&body);
            content.manifests.insert(named, (kind.clone(), body.to_vec()));
            content.manifests.insert(name.to_owned(), (kind, body.to_vec()));
            if let Some(other) = content.raced.remove(name) {
                content.manifests.insert(name.to_owned(), (INDEX.to_owned(), other));
            }
            let subject = serde_json::from_slice::<Value>(&body).unwrap()["subject"]["digest"]
                .as_str()
                .map(str::to_owned);
            let mut stored = answer(201, "");
            if let Some(subject) = subject.filter(|_| content.api) {
                stored.headers_mut().insert("oci-subject", subject.parse().unwrap());
            }
            stored
        }
        ("GET", "manifests") => match content.manifests.get(name) {
            Some((kind, bytes)) => {
                let found = Response::builder().header(header::CONTENT_TYPE, kind);
                found.body(Body::from(bytes.clone())).unwrap()
            }
            None => answer(
                404,
                json!({ "errors": [{ "code": "MANIFEST_UNKNOWN", "message": "no" }] }).to_string(),
            ),
        },
        ("GET", "referrers") if content.api => {
            let all = content.manifests.iter().filter(|(key, _)| key.starts_with("sha256:"));
            let found = all.filter_map(|(key, (kind, bytes))| {
                let manifest: Value = serde_json::from_slice(bytes).unwrap();
                let is_one = manifest["subject"]["digest"] == name;
                is_one.then(|| json!({ "mediaType": kind, "digest": key, "size": bytes.len(), "artifactType": manifest["artifactType"] }))
            });
            answer(
                200,
                json!({ "schemaVersion": 2, "manifests": found.collect::<Vec<_>>() }).to_string(),
            )
        }
        _ => answer(404, ""),
    }
}

async fn registry(change: impl FnOnce(&mut Content)) -> (Memory, Reference) {
    let memory = Memory::default();
    let routes = Router::new().fallback(handle).with_state(memory.clone());
    let address = isomer_stubs::http::serve(routes).await;
    let mut content = memory.0.lock();
    content.host = address.to_string();
    let artifact = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "layers": [] })
        .to_string()
        .into_bytes();
    for name in ["1".to_owned(), digest(&artifact)] {
        content.manifests.insert(name, (MANIFEST.to_owned(), artifact.clone()));
    }
    change(&mut content);
    drop(content);
    (memory, Reference::parse(&format!("{address}/encoders/enc:1")).unwrap())
}

fn ann() -> Credentials {
    Credentials {
        username: "ann".to_owned(),
        password: Secret::new("pass"),
    }
}

fn evidence(text: &str) -> Evidence {
    Evidence {
        artifact_type: "application/vnd.test+json".to_owned(),
        content: text.as_bytes().to_vec(),
        annotations: [("org.example.kind".to_owned(), "test".to_owned())].into(),
    }
}

async fn subject(repository: &Repository) -> Descriptor {
    Descriptor::of(&repository.manifest("1").await.unwrap().unwrap())
}

#[tokio::test]
async fn evidence_is_found_with_the_api_and_without_and_the_same_again_changes_nothing() {
    for (api, scheme) in [
        (true, ""),
        (false, ""),
        (true, "Basic"),
        (false, "Bearer"),
        (true, "Bearer"),
    ] {
        let (memory, reference) = registry(|content| {
            content.api = api;
            content.scheme = scheme;
        })
        .await;
        let repository = Repository::new(&reference, ann(), false).unwrap();
        let subject = subject(&repository).await;
        let pushed = push(&repository, &subject, &evidence("{\"a\":1}")).await.unwrap();
        let tag = subject.digest.replace(':', "-");
        assert_eq!(
            pushed.found_by,
            if api { FoundBy::Api } else { FoundBy::Tag(tag.clone()) }
        );
        assert_eq!(
            memory.0.lock().manifests.contains_key(&tag),
            !api,
            "a tag where there is no API, and none else"
        );
        let other = push(&repository, &subject, &evidence("{\"a\":2}")).await.unwrap();
        assert_eq!(
            push(&repository, &subject, &evidence("{\"a\":1}")).await.unwrap(),
            pushed
        );
        let mut found: Vec<String> = referrers(&repository, &subject)
            .await
            .unwrap()
            .into_iter()
            .map(|one| one.digest)
            .collect();
        let mut wanted = vec![pushed.digest.clone(), other.digest];
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
        let manifest: Value = serde_json::from_slice(&memory.0.lock().manifests[&pushed.digest].1).unwrap();
        assert_eq!(manifest["subject"]["digest"], subject.digest.as_str());
        assert_eq!(manifest["artifactType"], "application/vnd.test+json");
        let layer = manifest["layers"][0]["digest"].as_str().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("blob");
        assert!(repository.blob(layer, &to, 100).await.unwrap());
        assert_eq!(std::fs::read(&to).unwrap(), b"{\"a\":1}");
        assert!(!repository.blob(layer, &to, 3).await.unwrap(), "longer than it may be");
    }
}

#[tokio::test]
async fn entries_of_others_at_the_tag_are_kept_even_those_that_come_meanwhile() {
    let (memory, reference) = registry(|_| {}).await;
    let repository = Repository::new(&reference, Credentials::default(), false).unwrap();
    let subject = subject(&repository).await;
    let tag = subject.digest.replace(':', "-");
    let entry = |n: u8| json!({ "mediaType": "application/x", "digest": digest(&[n]), "size": 1, "unknown": "kept" });
    let index =
        |all: &[Value]| json!({ "schemaVersion": 2, "manifests": all, "annotations": { "a": "b" } }).to_string();
    {
        let mut content = memory.0.lock();
        content
            .manifests
            .insert(tag.clone(), (INDEX.to_owned(), index(&[entry(1)]).into_bytes()));
        // Written by another program that had read it before us.
        content
            .raced
            .insert(tag.clone(), index(&[entry(1), entry(2)]).into_bytes());
    }
    let pushed = push(&repository, &subject, &evidence("x")).await.unwrap();
    let now: Value = serde_json::from_slice(&memory.0.lock().manifests[&tag].1).unwrap();
    assert_eq!(now["manifests"][0], entry(1));
    assert_eq!(now["manifests"][1], entry(2));
    assert_eq!(now["manifests"][2]["digest"], pushed.digest.as_str());
    assert_eq!(now["annotations"]["a"], "b");
    // A manifest at the tag that is not an index is not overwritten.
    let image = json!({ "schemaVersion": 2, "layers": [] }).to_string().into_bytes();
    memory
        .0
        .lock()
        .manifests
        .insert(tag.clone(), (MANIFEST.to_owned(), image.clone()));
    let error = push(&repository, &subject, &evidence("y")).await.unwrap_err();
    assert!(error.to_string().contains("is not an index"), "{error}");
    assert_eq!(memory.0.lock().manifests[&tag].1, image);
}

#[tokio::test]
async fn a_password_is_asked_for_and_a_wrong_one_is_told() {
    for scheme in ["Basic", "Bearer"] {
        let (_, reference) = registry(|content| content.scheme = scheme).await;
        for credentials in [
            Credentials::default(),
            Credentials {
                password: Secret::new("wrong-password"),
                ..ann()
            },
        ] {
            let repository = Repository::new(&reference, credentials, false).unwrap();
            let error = repository.manifest("1").await.unwrap_err();
            assert!(matches!(error, OciError::Denied { .. }), "{scheme}: {error}");
            assert!(!error.to_string().contains("wrong-password"));
        }
    }
}

#[tokio::test]
async fn the_token_stays_with_the_registry_when_bytes_are_elsewhere() {
    let bytes = b"weights".to_vec();
    let name = digest(&bytes);
    let asked: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (seen, given) = (asked.clone(), bytes.clone());
    let store = Router::new().fallback(move |request: Request| {
        seen.lock().push(request.headers().contains_key(header::AUTHORIZATION));
        let body = if request.uri().path().contains("altered") {
            b"others".to_vec()
        } else {
            given.clone()
        };
        async move { (StatusCode::OK, body) }
    });
    let place = isomer_stubs::http::serve(store).await;
    let (memory, reference) = registry(|content| {
        content.scheme = "Bearer";
        content.elsewhere = format!("http://{place}/store");
    })
    .await;
    let repository = Repository::new(&reference, ann(), false).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("blob");
    assert!(repository.blob(&name, &to, 100).await.unwrap());
    assert_eq!(std::fs::read(&to).unwrap(), bytes);
    assert_eq!(*asked.lock(), [false]);
    let authorised = memory
        .0
        .lock()
        .seen
        .iter()
        .any(|(_, path, given)| path.contains("/blobs/") && given.is_some());
    assert!(authorised, "the registry saw the token");
    // Other bytes under the same digest.
    memory.0.lock().elsewhere = format!("http://{place}/altered");
    let error = repository.blob(&name, &to, 100).await.unwrap_err();
    assert!(error.to_string().contains("have the digest"), "{error}");
}

#[tokio::test]
async fn a_manifest_of_another_digest_is_refused() {
    let (memory, reference) = registry(|_| {}).await;
    let repository = Repository::new(&reference, Credentials::default(), false).unwrap();
    let found = repository.manifest("1").await.unwrap().unwrap();
    assert!(repository.manifest(&found.digest).await.unwrap().is_some());
    memory
        .0
        .lock()
        .manifests
        .insert(found.digest.clone(), (MANIFEST.to_owned(), b"{}".to_vec()));
    let error = repository.manifest(&found.digest).await.unwrap_err();
    assert!(error.to_string().contains("its bytes have the digest"), "{error}");
    assert_eq!(repository.manifest("2").await.unwrap(), None);
}
