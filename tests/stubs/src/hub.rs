//! A stub of the Hugging Face hub with the calls that downloads use: the content of a repository,
//! and files in ranges.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, Response, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest, Sha256};

/// The commit to which every branch points.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The files of a repository by their paths.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A hub's content and behaviour. Models and datasets are served alike.
#[derive(Default)]
pub struct Hub {
    /// The repositories by `org/name`. A repository that is not listed has the files of `""`, if
    /// there are any.
    pub repositories: BTreeMap<String, Files>,
    /// Paths that are listed in addition to the files.
    pub listed_too: Vec<String>,
    /// Returns a file's etag, instead of [`FileRequest::etag`].
    pub etag: Option<Box<dyn Fn(&FileRequest<'_>) -> String + Send + Sync>>,
    /// The status of every response about a repository.
    pub refuses: Option<u16>,
    /// Whether requests about a repository are never answered.
    pub hangs: bool,
    /// Base URL of the store to which requests for files are redirected, as the hub does for large
    /// ones.
    pub store: Option<String>,
}

/// A file that is requested.
#[derive(Debug)]
pub struct FileRequest<'a> {
    pub repository: &'a str,
    pub path: &'a str,
    /// Its content.
    pub data: &'a [u8],
    /// Number of requests for files that the hub has received, including this one.
    pub number: usize,
}

impl FileRequest<'_> {
    /// An etag like the hub's for small files: forty hexadecimal digits, which are not the SHA-256
    /// of the content.
    pub fn etag(&self) -> String {
        let place = format!("{}/{}", self.repository, self.path);
        hex::encode(Sha256::digest(place))[..40].to_owned()
    }
}

pub struct HubServer {
    /// Its base URL.
    pub address: String,
    hub: Hub,
    seen: Mutex<RequestLog>,
}

#[derive(Default)]
struct RequestLog {
    asked: Vec<String>,
    authorizations: Vec<String>,
    told: BTreeSet<String>,
}

impl Hub {
    /// A hub in which every repository has these files.
    pub fn of(files: Files) -> Self {
        Self {
            repositories: [(String::new(), files)].into(),
            ..Self::default()
        }
    }

    /// Serves the hub on a free port.
    pub async fn serve(self) -> Arc<HubServer> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = Arc::new(HubServer {
            address: format!("http://{}", listener.local_addr().unwrap()),
            hub: self,
            seen: Mutex::default(),
        });
        let routes = Router::new()
            .route("/api/{kind}/{org}/{name}/revision/{revision}", get(info))
            .route("/{org}/{name}/resolve/{revision}/{*path}", get(file))
            .route("/datasets/{org}/{name}/resolve/{revision}/{*path}", get(file))
            .with_state(Arc::clone(&running));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        running
    }
}

impl HubServer {
    /// Number of recorded requests that contain this text. A request is recorded as
    /// `info ORG/NAME@REVISION`, or as `file PATH FROM-TO` for a file that exists.
    pub fn asked(&self, part: &str) -> usize {
        let seen = self.seen.lock();
        seen.asked.iter().filter(|question| question.contains(part)).count()
    }

    /// The `Authorization` headers of requests about repositories.
    pub fn authorizations(&self) -> Vec<String> {
        self.seen.lock().authorizations.clone()
    }

    fn files(&self, repository: &str) -> Option<&Files> {
        let repositories = &self.hub.repositories;
        repositories.get(repository).or_else(|| repositories.get(""))
    }
}

async fn info(
    State(running): State<Arc<HubServer>>,
    Path((_, org, name, revision)): Path<(String, String, String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    let repository = format!("{org}/{name}");
    let commit = if revision.len() == COMMIT.len() {
        &revision
    } else {
        COMMIT
    };
    {
        let mut seen = running.seen.lock();
        seen.asked.push(format!("info {repository}@{revision}"));
        let authorization = headers.get(header::AUTHORIZATION);
        seen.authorizations
            .extend(authorization.map(|value| value.to_str().unwrap().to_owned()));
        seen.told.insert(commit.to_owned());
    }
    if running.hub.hangs {
        std::future::pending::<()>().await;
    }
    if let Some(status) = running.hub.refuses {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    let Some(files) = running.files(&repository) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let paths = files.keys().chain(&running.hub.listed_too);
    let siblings: Vec<_> = paths.map(|path| json!({ "rfilename": path })).collect();
    Json(json!({ "sha": commit, "siblings": siblings })).into_response()
}

async fn file(
    State(running): State<Arc<HubServer>>,
    Path((org, name, revision, path)): Path<(String, String, String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    let repository = format!("{org}/{name}");
    let Some(data) = running.files(&repository).and_then(|files| files.get(&path)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let range = headers[header::RANGE].to_str().unwrap().strip_prefix("bytes=").unwrap();
    {
        let mut seen = running.seen.lock();
        assert!(
            seen.told.contains(&revision),
            "files are requested at the commit that the hub named"
        );
        seen.asked.push(format!("file {path} {range}"));
    }
    let (from, to) = range.split_once('-').unwrap();
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse::<usize>().unwrap().min(data.len() - 1));
    let asked = FileRequest {
        repository: &repository,
        path: &path,
        data,
        number: running.asked("file "),
    };
    let etag = running
        .hub
        .etag
        .as_ref()
        .map_or_else(|| asked.etag(), |etag| etag(&asked));
    if let Some(store) = &running.hub.store {
        return Response::builder()
            .status(StatusCode::FOUND)
            .header("x-repo-commit", revision)
            .header("x-linked-etag", format!("\"{etag}\""))
            .header(header::LOCATION, format!("{store}/{path}"))
            .body(Body::empty())
            .unwrap();
    }
    Response::builder()
        .status(StatusCode::PARTIAL_CONTENT)
        .header("x-repo-commit", revision)
        .header(header::ETAG, format!("\"{etag}\""))
        .header(header::CONTENT_RANGE, format!("bytes {from}-{to}/{}", data.len()))
        .body(Body::from(data[from..=to].to_vec()))
        .unwrap()
}
