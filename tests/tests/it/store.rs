//! `isomer store`: entries that runs rely on are kept, and all others are removed.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use isomer_blobs::{BlobStore, StoreConfig};
use isomer_stubs::openai::{Answer, Stub};
use isomer_tests::{
    home::Home,
    process::{check_into_report, finish, isomer},
};
use serde_json::Value;

const MODEL: &str = "all-MiniLM-L6-v2";
const PAIRS: usize = 12;

/// A suite of distinct sentences of our own.
fn suite(folder: &Path) -> String {
    let data = folder.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let rows: String = (0..PAIRS)
        .map(|i| {
            format!(
                "{{\"sentence1\": \"The old heron number {i} slept quietly beside the wooden fence.\", \
                 \"sentence2\": \"Beside the wall a young goose was resting near gate {i} all day.\", \"score\": {}}}\n",
                (i * 7 % 11) as f64 / 2.0
            )
        })
        .collect();
    std::fs::write(data.join("test.jsonl"), rows).unwrap();
    let suite = folder.join("suite.toml");
    let text = "name = \"kept\"\nseeds = [1337]\ntransformations = [\"paraphrase\"]\nattempts = 2\n\n\
                [[dataset]]\ntask = \"sts\"\npath = \"data\"\nname = \"kept\"\n";
    std::fs::write(&suite, text).unwrap();
    suite.display().to_string()
}

struct Scene {
    folder: tempfile::TempDir,
    suite: String,
    stub: Stub,
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            suite: suite(folder.path()),
            stub: Stub::start(Answer::Good).await,
            folder,
        }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn blobs(&self) -> BlobStore {
        let config = StoreConfig {
            url: self.store().display().to_string(),
            ..StoreConfig::default()
        };
        BlobStore::open(&config).unwrap().unwrap()
    }

    /// A check on a machine without cached data.
    async fn check(&self) -> Option<Value> {
        let home = Home::with_models(&[MODEL])?;
        let mut command = check_into_report(&home, &self.suite, &format!("openai:stub@{}", self.stub.url()));
        command.args(["--model", MODEL, "--store"]).arg(self.store());
        let (code, stdout, stderr) = ended(command).await;
        assert_eq!(code, 0, "{stderr}");
        Some(serde_json::from_str(&stdout).unwrap())
    }

    async fn gc(&self, more: &[&str]) -> Value {
        let home = Home::empty();
        let mut command = isomer(&home);
        command.args(["store", "gc", "--format", "json", "--settle", "0s", "--store"]);
        command.arg(self.store()).args(more);
        let (code, stdout, stderr) = ended(command).await;
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }
}

/// Runs a command to its end, off the runtime that serves the stub.
async fn ended(mut command: Command) -> (i32, String, String) {
    tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap()
}

fn removed(swept: &Value) -> u64 {
    let kinds = swept["removed"].as_object().unwrap();
    kinds.values().map(|kind| kind["objects"].as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_rely_on_stays_until_they_are_deleted() {
    let scene = Scene::new().await;
    let Some(first) = scene.check().await else { return };
    let calls = scene.stub.calls();
    assert_eq!(removed(&scene.gc(&["--older-than", "0s", "--delete"]).await), 0);
    let second = scene.check().await.unwrap();
    assert_eq!(second["counters"]["texts_generated"], 0);
    assert_eq!(scene.stub.calls(), calls);

    let home = Home::empty();
    let mut command = isomer(&home);
    command
        .args(["store", "usage", "--format", "json", "--store"])
        .arg(scene.store());
    let (code, stdout, stderr) = ended(command).await;
    assert_eq!(code, 0, "{stderr}");
    let usage: Value = serde_json::from_str(&stdout).unwrap();
    let ids: Vec<&Value> = usage["runs"].as_array().unwrap().iter().map(|run| &run["id"]).collect();
    assert!(
        ids.contains(&&first["run"]["id"]) && ids.contains(&&second["run"]["id"]),
        "{ids:?}"
    );
    assert_eq!(usage["kinds"]["texts"]["objects"], 2 * PAIRS);
    assert_eq!(usage["unheld"]["objects"], 0);

    for report in [&first, &second] {
        assert_eq!(removed(&scene.gc(&["--older-than", "0s", "--delete"]).await), 0);
        let id = report["run"]["id"].as_str().unwrap();
        isomer_retention::release(&scene.blobs(), id).await.unwrap();
    }
    // By default, entries younger than a day are kept.
    let young = scene.gc(&["--delete"]).await;
    assert_eq!(removed(&young), 0);
    assert!(young["young"]["objects"].as_u64().unwrap() >= 2 * PAIRS as u64);
    let dry = scene.gc(&["--older-than", "0s"]).await;
    assert_eq!(
        (removed(&dry), &dry["deleted"]),
        (young["young"]["objects"].as_u64().unwrap(), &Value::Bool(false))
    );
    assert_eq!(
        removed(&scene.gc(&["--older-than", "0s", "--delete"]).await),
        removed(&dry)
    );
    assert_eq!(removed(&scene.gc(&["--older-than", "0s", "--delete"]).await), 0);
    // The store is empty, so everything must be generated again.
    scene.check().await.unwrap();
    assert_eq!(scene.stub.calls(), 2 * calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_cannot_do_is_said_with_what_to_do() {
    let home = Home::empty();
    for (args, says) in [
        (&["store", "usage"][..], "--store"),
        (&["store", "gc", "--store", "s", "--forget-runs", "1d"], "at least 2d"),
        (&["store", "gc", "--store", "s", "--older-than", "soon"], "30d"),
        (&["store", "gc", "--store", "redis://h"], "store.url"),
        (
            &["store", "usage", "--store", "s", "--server", "127.0.0.1:1"],
            "leave --server out",
        ),
    ] {
        let mut command = isomer(&home);
        command.current_dir(home.path()).args(args);
        let (code, _, stderr) = ended(command).await;
        assert!(code == 2 && stderr.contains(says), "{args:?}: {code}: {stderr}");
    }
}
