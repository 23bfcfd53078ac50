//! SageMaker's model registry: groups of model packages with versions.
//!
//! It has no aliases. A version that passed is `Approved`, one that failed is `Rejected`, and all
//! others wait for a person (`PendingManualApproval`). The champion is the newest approved version,
//! which pipelines deploy.

mod client;
mod wire;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use isomer_service_kit::config::ConfigError;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use client::Client;
use wire::{APPROVED, PENDING, Package, PackageList, REJECTED, Summary};

use crate::{
    bucket::Bucket,
    error::{RegistryError, Result},
    evidence::Evidence,
    fetch::Bounds,
    registry::{Registry, StoredFile, Version},
    unpack::{Compression, UnpackOutcome, unpack},
    verdict::{Verdict, tag},
};

/// Number of versions on one page.
const PAGE: u32 = 100;
/// Maximum length of a property's value, and of an approval's description, in characters.
const LONGEST_PROPERTY: usize = 256;
const LONGEST_DESCRIPTION: usize = 1_024;

/// The registry of one account and region.
#[derive(Debug)]
pub struct SageMaker {
    client: Client,
    bounds: Bounds,
    /// Unpacked archives, by the files of the version.
    unpacked: Mutex<BTreeMap<String, Arc<Archive>>>,
}

/// An archive on this machine.
#[derive(Debug)]
struct Archive {
    folder: TempDir,
    files: Vec<StoredFile>,
}

impl SageMaker {
    /// The registry of the environment's region and credentials. Archives are unpacked within
    /// `bounds`.
    ///
    /// # Errors
    /// If the environment names no region, or an invalid one.
    pub fn from_env(bounds: Bounds) -> Result<Self> {
        Ok(Self {
            client: Client::from_env()?,
            bounds,
            unpacked: Mutex::default(),
        })
    }

    /// The packages of a group, from all pages.
    async fn listed(&self, group: &str, status: Option<&str>) -> Result<Vec<Summary>> {
        let doing = format!("listing the versions of `{group}`");
        let (mut all, mut token): (Vec<Summary>, Option<String>) = (Vec::new(), None);
        loop {
            let mut body = json!({ "ModelPackageGroupName": group, "MaxResults": PAGE });
            if let Some(status) = status {
                body["ModelApprovalStatus"] = json!(status);
            }
            if let Some(token) = &token {
                body["NextToken"] = json!(token);
            }
            let page: PackageList = self.client.call(&doing, "ListModelPackages", &body).await?;
            all.extend(page.model_package_summary_list);
            token = page.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    async fn package(&self, arn: &str) -> Result<Package> {
        let doing = format!("asking for {arn}");
        let body = json!({ "ModelPackageName": arn });
        self.client.call(&doing, "DescribeModelPackage", &body).await
    }

    /// Sets properties and the status of approval. Both are always sent completely, so the request
    /// determines the result whatever the previous state.
    async fn update(
        &self,
        version: &Version,
        change: impl FnOnce(&mut BTreeMap<String, String>),
        status: Option<&str>,
        removed: &[&str],
    ) -> Result<()> {
        let now = self.package(&version.id).await?;
        let mut properties = now.customer_metadata_properties.unwrap_or_default();
        change(&mut properties);
        let status = status.or(now.model_approval_status.as_deref()).unwrap_or(PENDING);
        let mut body = json!({
            "ModelPackageArn": version.id,
            "ModelApprovalStatus": status,
            "CustomerMetadataProperties": properties,
        });
        if let Some(reason) = properties.get(tag::REASON).filter(|reason| !reason.is_empty()) {
            body["ApprovalDescription"] = json!(cut(reason, LONGEST_DESCRIPTION));
        }
        if !removed.is_empty() {
            body["CustomerMetadataPropertiesToRemove"] = json!(removed);
        }
        let doing = format!("writing into {}", version.shown());
        let _: Value = self.client.call(&doing, "UpdateModelPackage", &body).await?;
        Ok(())
    }

    /// The unpacked archive of a version; unpacked once per version in a process.
    async fn archive(&self, version: &Version) -> Result<Arc<Archive>> {
        if let Some(known) = self.unpacked.lock().get(&version.id) {
            return Ok(known.clone());
        }
        let refused = |message: String| RegistryError::Store {
            uri: version.files.clone(),
            message,
        };
        let folder = TempDir::with_prefix("isomer-sagemaker-")
            .map_err(RegistryError::io("creating a folder in", std::env::temp_dir()))?;
        let file = folder.path().join("archive");
        let bucket = Bucket::of(&version.files, endpoint())?;
        if bucket.download("", &file, self.bounds.bytes).await?.is_none() {
            return Err(RegistryError::TooLarge(format!(
                "its archive has more than {} bytes (--max-bytes)",
                self.bounds.bytes
            )));
        }
        let (to, bounds) = (folder.path().join("files"), self.bounds);
        let unpacked = tokio::task::spawn_blocking(move || {
            let input = std::fs::File::open(&file).map_err(RegistryError::io("reading", &file))?;
            let unpacked = unpack(input, Compression::Gzip, &to, bounds)?;
            std::fs::remove_file(&file).map_err(RegistryError::io("removing", &file))?;
            Ok::<_, RegistryError>(unpacked)
        });
        let unpacked = unpacked.await.map_err(|error| RegistryError::Unavailable {
            doing: "unpacking".to_owned(),
            message: error.to_string(),
        })?;
        let files = match unpacked? {
            UnpackOutcome::Files(files) => files,
            UnpackOutcome::Unsupported(reason) => return Err(refused(reason)),
            UnpackOutcome::Refused(reason) => return Err(RegistryError::TooLarge(reason)),
        };
        let archive = Arc::new(Archive { folder, files });
        self.unpacked.lock().insert(version.id.clone(), archive.clone());
        Ok(archive)
    }
}

/// The endpoint of S3, if it is not AWS's.
fn endpoint() -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"))
}

/// The end of [`Version::files`] if they are not an archive.
const FOLDER: char = '/';

fn version(package: Package) -> Version {
    // A prefix of single files ends with `/`, but an archive does not.
    let files = package.data().map_or(String::new(), |(uri, is_archive)| {
        let plain = uri.trim_end_matches(FOLDER).to_owned();
        if is_archive { plain } else { format!("{plain}{FOLDER}") }
    });
    Version {
        model: package.model_package_group_name.unwrap_or_default(),
        number: package.model_package_version.unwrap_or_default().to_string(),
        id: package.model_package_arn,
        files,
        tags: package.customer_metadata_properties.unwrap_or_default(),
        run: None,
        logged_model: None,
        ready: package.model_package_status.is_none_or(|status| status == "Completed"),
    }
}

impl Registry for SageMaker {
    fn name(&self) -> &'static str {
        "sagemaker"
    }

    fn uri(&self, version: &Version) -> String {
        version.id.clone()
    }

    async fn version(&self, model: &str, number: &str) -> Result<Option<Version>> {
        let all = match self.listed(model, None).await {
            Err(RegistryError::Refused { code, .. }) if code == "ResourceNotFound" => return Ok(None),
            all => all?,
        };
        let is_meant = |one: &&Summary| {
            one.model_package_version
                .is_some_and(|known| known.to_string() == number)
        };
        let Some(found) = all.iter().find(is_meant) else {
            return Ok(None);
        };
        let mut found = version(self.package(&found.model_package_arn).await?);
        // The package may name its group by its ARN.
        found.model = model.to_owned();
        Ok(Some(found))
    }

    async fn champion(&self, version: &Version, _alias: &str) -> Result<Option<Version>> {
        let approved = self.listed(&version.model, Some(APPROVED)).await?;
        let others = approved.iter().filter(|one| {
            one.model_package_version
                .is_some_and(|known| known.to_string() != version.number)
        });
        let Some(newest) = others.max_by_key(|one| one.model_package_version) else {
            return Ok(None);
        };
        let mut found = self::version(self.package(&newest.model_package_arn).await?);
        found.model.clone_from(&version.model);
        Ok(Some(found))
    }

    async fn files(&self, version: &Version) -> Result<Vec<StoredFile>> {
        if version.files.is_empty() {
            return Err(RegistryError::Store {
                uri: version.id.clone(),
                message: "no container of the package names model data".to_owned(),
            });
        }
        if version.files.ends_with(FOLDER) {
            return Bucket::of(&version.files, endpoint())?.list().await;
        }
        Ok(self.archive(version).await?.files.clone())
    }

    async fn download(&self, version: &Version, file: &str, to: &Path, most: u64) -> Result<Option<u64>> {
        if version.files.ends_with(FOLDER) {
            return Bucket::of(&version.files, endpoint())?.download(file, to, most).await;
        }
        let archive = self.archive(version).await?;
        let from = archive.folder.path().join("files").join(file);
        let size = from.metadata().map_err(RegistryError::io("reading", &from))?.len();
        if size > most {
            return Ok(None);
        }
        std::fs::copy(&from, to)
            .map(Some)
            .map_err(RegistryError::io("writing", to))
    }

    async fn record(&self, version: &Version, evidence: &Evidence) -> Result<String> {
        // Beside the model data, never below it: everything there belongs to the model.
        let data = version.files.trim_end_matches(FOLDER);
        let parent = match data.rsplit_once(FOLDER) {
            Some((parent, _)) if parent.len() > "s3://".len() => parent,
            _ => data,
        };
        let key = evidence.key.get(..16).unwrap_or(&evidence.key);
        let place = format!("{parent}/isomer/{}-{}/{key}", version.model, version.number);
        let bucket = Bucket::of(&place, endpoint())?;
        for (name, content) in &evidence.files {
            bucket.upload(name, content).await?;
        }
        Ok(place)
    }

    async fn set_tags(&self, version: &Version, tags: &[(String, String)]) -> Result<()> {
        let set = |properties: &mut BTreeMap<String, String>| {
            let all = tags
                .iter()
                .map(|(key, value)| (key.clone(), cut(value, LONGEST_PROPERTY)));
            properties.extend(all);
        };
        self.update(version, set, None, &[]).await
    }

    async fn remove_tag(&self, version: &Version, key: &str) -> Result<()> {
        if !version.tags.contains_key(key) {
            return Ok(());
        }
        let remove = |properties: &mut BTreeMap<String, String>| drop(properties.remove(key));
        self.update(version, remove, None, &[key]).await
    }

    async fn award(&self, version: &Version, _alias: &str) -> Result<bool> {
        self.update(version, |_| {}, Some(APPROVED), &[]).await?;
        Ok(true)
    }

    async fn withdraw(&self, version: &Version, _alias: &str, verdict: Option<Verdict>) -> Result<()> {
        let status = match verdict {
            Some(Verdict::Fail) => REJECTED,
            _ => PENDING,
        };
        self.update(version, |_| {}, Some(status), &[]).await
    }

    async fn promote(&self, _version: &Version, _alias: &str) -> Result<()> {
        let message = "SageMaker has no champion but its newest approved version, and what passes is approved";
        Err(ConfigError::new("promote", message, "leave out --promote").into())
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        false => text.to_owned(),
        true => text.chars().take(most - 1).chain(['…']).collect(),
    }
}
