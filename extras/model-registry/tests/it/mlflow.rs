//! Locations of a version's files, as an MLflow server reports them.

use axum::{
    Json, Router,
    extract::{Path, Query},
    routing::{get, post},
};
use isomer_model_registry::{
    RegistryError,
    mlflow::{Credentials, Mlflow},
    registry::{Registry, Version},
};
use serde_json::{Value, json};
use std::collections::HashMap;

/// A server with a version at `source`, the run `r1` with files in `encoder`, and, if it is of
/// MLflow 3, two models called `model`, of which the second was logged by that run.
async fn server(source: &'static str, logs_models: bool) -> Mlflow {
    let version = json!({ "name": "enc", "version": "1", "source": source });
    let of_run = |Query(query): Query<HashMap<String, String>>| async move {
        match query["run_id"].as_str() {
            "r1" => Ok(Json(json!({ "run": { "info": {
                "run_id": "r1", "experiment_id": "7", "artifact_uri": "mlflow-artifacts:/7/r1/artifacts",
            }}}))),
            _ => Err((
                http::StatusCode::NOT_FOUND,
                Json(json!({ "error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no run" })),
            )),
        }
    };
    let search = |Json(body): Json<Value>| async move {
        assert_eq!(body["experiment_ids"], json!(["7"]));
        if body["filter"] != "name = 'model'" {
            return Json(json!({}));
        }
        let model = |id: &str, run: &str| {
            json!({ "info": {
                "model_id": id, "source_run_id": run, "artifact_uri": format!("mlflow-artifacts:/7/models/{id}/artifacts"),
            }})
        };
        Json(match body["page_token"].as_str() {
            Some("next") => json!({ "models": [model("m-2", "r1")] }),
            _ => json!({ "models": [model("m-1", "r0")], "next_page_token": "next" }),
        })
    };
    let list = |Query(query): Query<HashMap<String, String>>| async move {
        Json(match query["path"].as_str() {
            "7/r1/artifacts/encoder" => {
                json!({ "files": [{ "path": "config.json", "is_dir": false, "file_size": 2 }] })
            }
            "7/models/m-2/artifacts" => json!({ "files": [{ "path": "MLmodel", "is_dir": false, "file_size": 3 }] }),
            "7/models/m-2/artifacts/artifacts/enc 1" => {
                json!({ "files": [{ "path": "modules.json", "is_dir": false, "file_size": 2 }] })
            }
            _ => json!({}),
        })
    };
    let mut routes = Router::new()
        .route(
            "/api/2.0/mlflow/model-versions/get",
            get(async move || Json(json!({ "model_version": version }))),
        )
        .route(
            "/api/2.0/mlflow/model-versions/get-download-uri",
            get(async move || Json(json!({ "artifact_uri": source }))),
        )
        .route("/api/2.0/mlflow/runs/get", get(of_run))
        .route("/api/2.0/mlflow-artifacts/artifacts", get(list))
        .route(
            "/api/2.0/mlflow-artifacts/artifacts/{*path}",
            get(|Path(path): Path<String>| async move { path }),
        );
    if logs_models {
        routes = routes.route("/api/2.0/mlflow/logged-models/search", post(search));
    }
    let address = isomer_stubs::http::serve(routes).await;
    Mlflow::new(&format!("http://{address}"), &Credentials::default(), "isomer").unwrap()
}

async fn version(mlflow: &Mlflow) -> Version {
    mlflow.version("enc", "1").await.unwrap().unwrap()
}

#[tokio::test]
async fn files_of_a_run_are_found_by_the_runs_uri() {
    for (source, logs_models, path, from) in [
        (
            "runs:/r1/encoder",
            true,
            "config.json",
            "7/r1/artifacts/encoder/config.json",
        ),
        (
            "runs:/r1/encoder",
            false,
            "config.json",
            "7/r1/artifacts/encoder/config.json",
        ),
        ("runs:/r1/model", true, "MLmodel", "7/models/m-2/artifacts/MLmodel"),
        (
            "runs:/r1/model/artifacts/enc 1",
            true,
            "modules.json",
            "7/models/m-2/artifacts/artifacts/enc 1/modules.json",
        ),
    ] {
        let mlflow = server(source, logs_models).await;
        let version = version(&mlflow).await;
        let files = mlflow.files(&version).await.unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [path], "{source}");
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("file");
        mlflow.download(&version, path, &to, 1 << 10).await.unwrap();
        assert_eq!(std::fs::read_to_string(&to).unwrap(), from, "{source}");
    }
}

#[tokio::test]
async fn a_run_that_is_gone_and_a_store_of_another_kind_are_named() {
    for (source, told) in [
        ("runs:/r2/encoder", "no such run"),
        ("runs:/r1/../r2", "runs:/RUN/PATH"),
        ("dbfs:/models/enc", "dbfs"),
    ] {
        let mlflow = server(source, true).await;
        let error = mlflow.files(&version(&mlflow).await).await.unwrap_err();
        assert!(
            matches!(&error, RegistryError::Store { uri, message } if uri == source && message.contains(told)),
            "{error}"
        );
    }
}
