//! The check of one version: files, run, evidence, tags, alias.

use std::{collections::BTreeMap, path::PathBuf};

use sha2::{Digest, Sha256};

use crate::{
    engine::{Candidate, Engine, RunResult},
    error::{RegistryError, Result},
    evidence::{self, Evidence},
    fetch::{Bounds, FetchOutcome, Folder, LocalEncoder},
    registry::{Registry, Version},
    verdict::{Verdict, tag},
};

/// How often a check is repeated because the champion changed in the meantime.
const ROUNDS: usize = 5;

/// The consequences of verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Alias of the version with which others are compared.
    pub champion: String,
    /// Alias for a version that passed.
    pub passed: String,
    /// Whether a version that passed becomes the champion.
    pub promote: bool,
}

/// The end of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    pub model: String,
    pub version: String,
    pub verdict: Verdict,
    /// The reason in words; may be empty.
    pub reason: String,
    /// The version with which it was compared.
    pub baseline: Option<String>,
    /// Id of the run of Isomer.
    pub run: Option<String>,
    /// Id of the record in the registry.
    pub record: Option<String>,
    /// Whether the version now has the alias of passed versions.
    pub alias: bool,
    /// Whether it became the champion.
    pub promoted: bool,
}

/// Checks versions.
#[derive(Debug)]
pub struct Checker<R, E> {
    pub(crate) registry: R,
    engine: E,
    pub(crate) folder: Folder,
    pub(crate) policy: Policy,
    pub(crate) bounds: Bounds,
}

/// A baseline: the version at the champion's alias, if it is another one.
struct Baseline {
    version: Option<Version>,
    encoder: Option<LocalEncoder>,
}

impl Baseline {
    fn number(&self) -> Option<&str> {
        self.version.as_ref().map(|version| version.number.as_str())
    }

    fn candidate(&self, registry: &impl Registry) -> Option<Candidate> {
        let (version, encoder) = (self.version.as_ref()?, self.encoder.as_ref()?);
        Some(Candidate {
            name: registry.uri(version),
            folder: encoder.path.clone(),
        })
    }
}

/// The known facts about a version when its verdict is written.
#[derive(Debug, Default)]
struct Facts {
    listing: String,
    files: Option<String>,
    baseline: Option<String>,
    result: Option<(RunResult, String)>,
}

impl<R: Registry, E: Engine> Checker<R, E> {
    /// A checker that stores files below `folder` while it needs them.
    ///
    /// # Errors
    /// If an alias is invalid, or the folder cannot be created.
    pub fn new(registry: R, engine: E, folder: PathBuf, policy: Policy, bounds: Bounds) -> Result<Self> {
        if policy.champion == policy.passed {
            let message = format!("is `{}`, which is the champion's", policy.passed);
            let hint = "give the two aliases different names; --promote moves the champion's";
            return Err(isomer_service_kit::config::ConfigError::new("alias", message, hint).into());
        }
        Ok(Self {
            registry,
            engine,
            folder: Folder::open(folder)?,
            policy,
            bounds,
        })
    }

    pub fn registry(&self) -> &R {
        &self.registry
    }

    /// The aliases.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Checks a version, and writes the result into the registry.
    ///
    /// # Errors
    /// If it cannot be checked now. [`RegistryError::passes`] says whether a retry makes sense; a
    /// permanent error is written with [`Checker::conclude_error`].
    pub async fn check(&self, model: &str, number: &str) -> Result<CheckOutcome> {
        let version = self.version(model, number).await?;
        if !version.ready {
            return Err(RegistryError::Unavailable {
                doing: format!("checking {}", version.shown()),
                message: "its files are not complete yet".to_owned(),
            });
        }
        let fetched = self.folder.fetch(&self.registry, &version, self.bounds).await?;
        let mut facts = Facts {
            listing: fetched.listing,
            ..Facts::default()
        };
        let encoder = match fetched.outcome {
            FetchOutcome::Encoder(encoder) => encoder,
            FetchOutcome::Unsupported(reason) => {
                return self.conclude(&version, Verdict::Unsupported, reason, &facts).await;
            }
            FetchOutcome::Refused(reason) => return self.conclude(&version, Verdict::Refused, reason, &facts).await,
        };
        facts.files = Some(encoder.digest.clone());
        // The content that passed no longer exists, so the alias is removed until the new verdict.
        if version.tag(tag::FILES).is_some_and(|checked| checked != encoder.digest) {
            self.withdraw(&version, None).await?;
        }
        if let Err(reason) = self.engine.usable(&encoder.path).await? {
            return self.conclude(&version, Verdict::Unsupported, reason, &facts).await;
        }
        for _ in 0..ROUNDS {
            let baseline = match self.baseline(&version).await? {
                Ok(baseline) => baseline,
                Err(reason) => return self.conclude(&version, Verdict::Error, reason, &facts).await,
            };
            let key = self.key(&version, &encoder, &baseline);
            let candidate = Candidate {
                name: self.registry.uri(&version),
                folder: encoder.path.clone(),
            };
            let other = baseline.candidate(&self.registry);
            let result = self.engine.run(&key, &candidate, other.as_ref()).await?;
            if !self.is_still(&version, &baseline).await? {
                continue;
            }
            let (verdict, note) = Verdict::of_gate(result.verdict);
            let reason = note.map_or_else(|| evidence::reason(&result.report, &result.encoder), str::to_owned);
            facts.baseline = baseline.number().map(str::to_owned);
            facts.result = Some((result, key));
            let mut checked = self.conclude(&version, verdict, reason, &facts).await?;
            // The champion may have changed between the query and the alias.
            if !self.is_still(&version, &baseline).await? {
                self.withdraw(&version, None).await?;
                continue;
            }
            if self.policy.promote && checked.verdict == Verdict::Pass {
                if checked.alias {
                    self.registry.promote(&version, &self.policy.champion).await?;
                    checked.promoted = true;
                }
                self.registry.remove_tag(&version, tag::PROMOTION).await?;
            }
            return Ok(checked);
        }
        Err(RegistryError::Unavailable {
            doing: format!("checking {}", version.shown()),
            message: format!(
                "the version at `{}` changed during each of {ROUNDS} runs",
                self.policy.champion
            ),
        })
    }

    /// Records that a version cannot be checked.
    ///
    /// # Errors
    /// If the registry fails.
    pub async fn conclude_error(&self, model: &str, number: &str, reason: String) -> Result<CheckOutcome> {
        let version = self.version(model, number).await?;
        self.conclude(&version, Verdict::Error, reason, &Facts::default()).await
    }

    async fn version(&self, model: &str, number: &str) -> Result<Version> {
        let found = self.registry.version(model, number).await?;
        found.ok_or_else(|| RegistryError::NoVersion {
            model: model.to_owned(),
            version: number.to_owned(),
        })
    }

    async fn is_still(&self, version: &Version, baseline: &Baseline) -> Result<bool> {
        let now = self.registry.champion(version, &self.policy.champion).await?;
        let same = now.as_ref().map(|now| now.number.as_str()) == baseline.number();
        if !same {
            tracing::warn!(
                model = version.model,
                version = version.number,
                compared_with = baseline.number().unwrap_or(NONE),
                champion = now.as_ref().map_or(NONE, |now| now.number.as_str()),
                "the champion changed; the version is checked against the new one"
            );
        }
        Ok(same)
    }

    /// The files of the champion, or why the version cannot be compared with it.
    async fn baseline(&self, version: &Version) -> Result<Result<Baseline, String>> {
        let Some(champion) = self.registry.champion(version, &self.policy.champion).await? else {
            return Ok(Ok(Baseline {
                version: None,
                encoder: None,
            }));
        };
        let fetched = self.folder.fetch(&self.registry, &champion, self.bounds).await?;
        let told = |reason: &str| {
            format!(
                "it cannot be compared with version {number}, which is at the alias `{alias}`: {reason}; let a version that can be \
                 read be the champion (move the alias), and remove the tag {verdict} to check this one again",
                number = champion.number,
                alias = self.policy.champion,
                verdict = tag::VERDICT,
            )
        };
        let encoder = match fetched.outcome {
            FetchOutcome::Encoder(encoder) => encoder,
            FetchOutcome::Unsupported(reason) | FetchOutcome::Refused(reason) => return Ok(Err(told(&reason))),
        };
        Ok(match self.engine.usable(&encoder.path).await? {
            Ok(()) => Ok(Baseline {
                version: Some(champion),
                encoder: Some(encoder),
            }),
            Err(reason) => Err(told(&reason)),
        })
    }

    /// Identifies a check: the same version with the same files, against the same baseline, under
    /// the same settings.
    fn key(&self, version: &Version, encoder: &LocalEncoder, baseline: &Baseline) -> String {
        let parts = [
            self.registry.name(),
            &version.model,
            &version.number,
            &encoder.digest,
            baseline.number().unwrap_or(NONE),
            baseline.encoder.as_ref().map_or(NONE, |found| &found.digest),
            self.engine.settings_digest(),
        ];
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hex::encode(hash.finalize())
    }

    async fn withdraw(&self, version: &Version, verdict: Option<Verdict>) -> Result<()> {
        self.registry.withdraw(version, &self.policy.passed, verdict).await
    }

    async fn conclude(
        &self,
        version: &Version,
        verdict: Verdict,
        reason: String,
        facts: &Facts,
    ) -> Result<CheckOutcome> {
        // This comes first, so that the alias never points at a version that failed.
        if verdict != Verdict::Pass {
            self.withdraw(version, Some(verdict)).await?;
        }
        let mut record = None;
        let mut tags = BTreeMap::from([(tag::VERSION, env!("CARGO_PKG_VERSION").to_owned())]);
        let mut run = None;
        if let Some((result, key)) = &facts.result {
            let evidence = describe(version, verdict, key, result, facts);
            let id = self.registry.record(version, &evidence).await?;
            for (name, value) in &evidence.tags {
                if let Some(known) = tag::DETAILS.iter().find(|known| *known == name) {
                    tags.insert(known, value.clone());
                }
            }
            tags.insert(tag::RECORD, id.clone());
            tags.insert(tag::BASELINE, facts.baseline.clone().unwrap_or_else(|| NONE.to_owned()));
            run = Some(result.run.clone());
            record = Some(id);
        }
        if self.policy.promote && verdict == Verdict::Pass {
            // Before the alias, so that `finish_promotion` can find a process that ended in
            // between.
            tags.insert(tag::PROMOTION, tag::DUE.to_owned());
        }
        tags.insert(tag::REASON, reason.clone());
        tags.insert(tag::LISTING, facts.listing.clone());
        tags.insert(tag::FILES, facts.files.clone().unwrap_or_default());
        tags.retain(|_, value| !value.is_empty());
        for key in tag::DETAILS.iter().filter(|key| !tags.contains_key(*key)) {
            if version.tags.contains_key(*key) {
                self.registry.remove_tag(version, key).await?;
            }
        }
        // The digest of the listing comes last. As long as it differs, the version is checked
        // again. So if the process ends in between, no verdict about other files remains.
        let listing = tags.remove(tag::LISTING).map(|value| (tag::LISTING, value));
        let verdict_tag = (tag::VERDICT, verdict.name().to_owned());
        let all = tags.into_iter().chain([verdict_tag]).chain(listing);
        let all: Vec<(String, String)> = all.map(|(key, value)| (key.to_owned(), value)).collect();
        self.registry.set_tags(version, &all).await?;
        let alias = verdict == Verdict::Pass && self.registry.award(version, &self.policy.passed).await?;
        Ok(CheckOutcome {
            model: version.model.clone(),
            version: version.number.clone(),
            verdict,
            reason,
            baseline: facts.baseline.clone(),
            run,
            record,
            alias,
            promoted: false,
        })
    }
}

/// Stands for "no version" where a word is needed.
pub(crate) const NONE: &str = "none";

fn describe(version: &Version, verdict: Verdict, key: &str, result: &RunResult, facts: &Facts) -> Evidence {
    let report = &result.report;
    let info = report.encoders.iter().find(|one| one.id == result.encoder);
    let json = result.files.iter().find(|(name, _)| name == "report.json");
    let report_digest = json.map_or(String::new(), |(_, content)| hex::encode(Sha256::digest(content)));
    let mut tags = vec![
        (tag::VERDICT.to_owned(), verdict.name().to_owned()),
        ("isomer.model".to_owned(), version.model.clone()),
        ("isomer.model_version".to_owned(), version.number.clone()),
        (tag::RUN.to_owned(), result.run.clone()),
        (
            tag::SUITE.to_owned(),
            format!("{} {}", report.suite.name, report.suite.digest),
        ),
        (
            tag::BASELINE.to_owned(),
            facts.baseline.clone().unwrap_or_else(|| NONE.to_owned()),
        ),
        (tag::FILES.to_owned(), facts.files.clone().unwrap_or_default()),
        (
            tag::WEIGHTS.to_owned(),
            info.map_or(String::new(), |info| info.weights_digest.clone()),
        ),
        (tag::REPORT.to_owned(), report_digest),
        (tag::VERSION.to_owned(), report.isomer_version.clone()),
    ];
    tags.extend(evidence::rules(report, &result.encoder));
    tags.retain(|(_, value)| !value.is_empty());
    Evidence {
        key: key.to_owned(),
        title: format!("isomer check of {}", version.shown()),
        time: report.run.finished.as_millisecond(),
        tags,
        metrics: evidence::metrics(report, &result.encoder),
        datasets: report
            .datasets
            .iter()
            .map(|dataset| (dataset.name.clone(), dataset.digest.clone()))
            .collect(),
        files: result.files.clone(),
    }
}
