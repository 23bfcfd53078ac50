//! A registry in memory and an engine whose verdicts are given.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_model_registry::{
    RegistryError, Result,
    check::{Checker, Policy},
    engine::{Candidate, Engine, RunResult},
    evidence::Evidence,
    fetch::Bounds,
    registry::{AliasRegistry, Registry, StoredFile, Version, award_alias, champion_by_alias, withdraw_alias},
    verdict,
};
use isomer_proto::eval::v1::Verdict;
use parking_lot::Mutex;
use tempfile::TempDir;

pub const CHAMPION: &str = "champion";
pub const PASSED: &str = "isomer-passed";

fn workspace() -> PathBuf {
    Path::new(".").join("../..")
}

/// The files of a tiny encoder.
pub fn encoder() -> BTreeMap<String, Vec<u8>> {
    let folder = workspace().join("embed-svc/tests/fixtures/static_embedding");
    let names = [
        "modules.json",
        "0_StaticEmbedding/model.safetensors",
        "0_StaticEmbedding/tokenizer.json",
    ];
    let read = |name: &str| (name.to_owned(), std::fs::read(folder.join(name)).unwrap());
    names.map(read).into_iter().collect()
}

#[derive(Debug, Default)]
pub struct State {
    pub files: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    pub tags: BTreeMap<String, BTreeMap<String, String>>,
    pub aliases: BTreeMap<String, String>,
    pub records: BTreeMap<String, Evidence>,
    /// Everything that was written, in order.
    pub written: Vec<String>,
    /// The place in `written` at which a write fails, once.
    pub fails_at: Option<usize>,
    /// Whether sizes of files are kept back.
    pub without_sizes: bool,
}

/// One model with versions.
#[derive(Debug, Clone, Default)]
pub struct Memory(pub Arc<Mutex<State>>);

impl Memory {
    pub fn with(versions: &[&str]) -> Self {
        let memory = Self::default();
        for version in versions {
            memory.0.lock().files.insert((*version).to_owned(), encoder());
        }
        memory
    }

    pub fn alias(&self, alias: &str) -> Option<String> {
        self.0.lock().aliases.get(alias).cloned()
    }

    pub fn set(&self, alias: &str, version: &str) {
        self.0.lock().aliases.insert(alias.to_owned(), version.to_owned());
    }

    pub fn tag(&self, version: &str, key: &str) -> Option<String> {
        self.0.lock().tags.get(version)?.get(key).cloned()
    }

    pub fn written(&self) -> Vec<String> {
        self.0.lock().written.clone()
    }

    fn write(&self, what: String) -> Result<()> {
        let mut state = self.0.lock();
        if state.fails_at == Some(state.written.len()) {
            state.fails_at = None;
            return Err(RegistryError::Unavailable {
                doing: what,
                message: "away".to_owned(),
            });
        }
        state.written.push(what);
        Ok(())
    }
}

impl Registry for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn uri(&self, version: &Version) -> String {
        format!("memory:/{}/{}", version.model, version.number)
    }

    async fn champion(&self, version: &Version, alias: &str) -> Result<Option<Version>> {
        champion_by_alias(self, version, alias).await
    }

    async fn award(&self, version: &Version, alias: &str) -> Result<bool> {
        award_alias(self, version, alias).await
    }

    async fn withdraw(&self, version: &Version, alias: &str, _verdict: Option<verdict::Verdict>) -> Result<()> {
        withdraw_alias(self, version, alias).await
    }

    async fn promote(&self, version: &Version, alias: &str) -> Result<()> {
        self.set_alias(version, alias).await
    }

    async fn version(&self, model: &str, version: &str) -> Result<Option<Version>> {
        let state = self.0.lock();
        Ok(state.files.get(version).map(|_| Version {
            model: model.to_owned(),
            number: version.to_owned(),
            id: String::new(),
            files: String::new(),
            tags: state.tags.get(version).cloned().unwrap_or_default(),
            run: None,
            logged_model: None,
            ready: true,
        }))
    }

    async fn files(&self, version: &Version) -> Result<Vec<StoredFile>> {
        let state = self.0.lock();
        let files = state.files[&version.number].iter();
        Ok(files
            .map(|(path, content)| StoredFile {
                path: path.clone(),
                size: (!state.without_sizes).then_some(content.len() as u64),
                tag: None,
            })
            .collect())
    }

    async fn download(&self, version: &Version, file: &str, to: &Path, most: u64) -> Result<Option<u64>> {
        let content = self.0.lock().files[&version.number][file].clone();
        if content.len() as u64 > most {
            return Ok(None);
        }
        std::fs::write(to, &content).unwrap();
        Ok(Some(content.len() as u64))
    }

    async fn record(&self, version: &Version, evidence: &Evidence) -> Result<String> {
        self.write(format!("record {}", version.number))?;
        self.0.lock().records.insert(evidence.key.clone(), evidence.clone());
        Ok(format!("record-of-{}", evidence.key))
    }

    async fn set_tags(&self, version: &Version, tags: &[(String, String)]) -> Result<()> {
        for (key, value) in tags {
            self.write(format!("tag {} {key}", version.number))?;
            let mut state = self.0.lock();
            let own = state.tags.entry(version.number.clone()).or_default();
            own.insert(key.clone(), value.clone());
        }
        Ok(())
    }

    async fn remove_tag(&self, version: &Version, key: &str) -> Result<()> {
        self.write(format!("untag {} {key}", version.number))?;
        let mut state = self.0.lock();
        state.tags.entry(version.number.clone()).or_default().remove(key);
        Ok(())
    }
}

impl AliasRegistry for Memory {
    async fn at_alias(&self, model: &str, alias: &str) -> Result<Option<Version>> {
        match self.alias(alias) {
            Some(version) => self.version(model, &version).await,
            None => Ok(None),
        }
    }

    async fn versions(&self) -> Result<Vec<Version>> {
        let names: Vec<String> = self.0.lock().files.keys().cloned().collect();
        let mut all = Vec::new();
        for name in names {
            all.extend(self.version("enc", &name).await?);
        }
        Ok(all)
    }

    async fn set_alias(&self, version: &Version, alias: &str) -> Result<()> {
        self.write(format!("alias {} {alias}", version.number))?;
        self.set(alias, &version.number);
        Ok(())
    }

    async fn remove_alias(&self, _model: &str, alias: &str) -> Result<()> {
        self.write(format!("unalias {alias}"))?;
        self.0.lock().aliases.remove(alias);
        Ok(())
    }
}

/// Callback during a run; it gets the run's number, from 1.
type Callback = Box<dyn Fn(usize) + Send + Sync>;

/// An engine that gives one verdict, and records its requests.
pub struct FixedEngine {
    pub verdict: Verdict,
    pub during: Callback,
    pub runs: Arc<Mutex<Vec<RunRequest>>>,
    pub usable: Result<(), String>,
}

/// A run that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRequest {
    pub request_id: String,
    /// Name of the encoder in the report.
    pub encoder: String,
    pub baseline: Option<String>,
}

pub fn given(verdict: Verdict) -> FixedEngine {
    FixedEngine {
        verdict,
        during: Box::new(|_| {}),
        runs: Arc::default(),
        usable: Ok(()),
    }
}

impl Engine for FixedEngine {
    fn settings_digest(&self) -> &str {
        "settings"
    }

    async fn usable(&self, encoder: &Path) -> Result<Result<(), String>> {
        assert!(encoder.join("modules.json").is_file());
        Ok(self.usable.clone())
    }

    async fn run(&self, request_id: &str, encoder: &Candidate, baseline: Option<&Candidate>) -> Result<RunResult> {
        let number = {
            let mut runs = self.runs.lock();
            for one in [Some(encoder), baseline].into_iter().flatten() {
                assert!(one.folder.join("modules.json").is_file());
            }
            runs.push(RunRequest {
                request_id: request_id.to_owned(),
                encoder: encoder.name.clone(),
                baseline: baseline.map(|one| one.name.clone()),
            });
            runs.len()
        };
        (self.during)(number);
        let json = std::fs::read(workspace().join("eval-svc/fixtures/report/report.json")).unwrap();
        let report = isomer_report::read(&json).unwrap();
        Ok(RunResult {
            run: format!("run-{number}"),
            verdict: self.verdict,
            encoder: report.encoders[0].id.clone(),
            report,
            files: vec![("report.json".to_owned(), json)],
        })
    }
}

pub fn policy() -> Policy {
    Policy {
        champion: CHAMPION.to_owned(),
        passed: PASSED.to_owned(),
        promote: false,
    }
}

/// A checker, and the folder that it works in.
pub fn checker(memory: &Memory, engine: FixedEngine, policy: Policy) -> (Checker<Memory, FixedEngine>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        bytes: 1 << 20,
        files: 10,
    };
    let checker = Checker::new(memory.clone(), engine, folder.path().to_owned(), policy, bounds).unwrap();
    (checker, folder)
}
