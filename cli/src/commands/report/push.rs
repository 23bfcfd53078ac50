//! `isomer report attest --push`: stores the attestation with an artifact of an OCI registry.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use isomer_attestation::{BUNDLE_TYPE, Envelope, PREDICATE_TYPE, statements};
use isomer_model_registry::{
    fetch::Bounds,
    locate::{DESCRIPTION, is_plain, locate, may_be_fetched},
    registry::StoredFile,
    unpack::{Compression, UnpackOutcome, unpack},
};
use isomer_models::ModelFiles;
use isomer_oci::{
    OciError,
    credentials::Credentials,
    reference::Reference,
    referrer::{self, Descriptor, Evidence, FoundBy, Layers},
    registry::{Manifest, Repository},
};
use isomer_service_kit::Fault;

use super::{
    attest::{self, files_of},
    read, write_and,
};
use crate::{args::evidence::AttestArgs, connect::Session, exit::Failure};

/// Annotations that name the file of a layer, of ORAS and of ModelPack.
const NAMES: [&str; 2] = ["org.opencontainers.image.title", "org.cncf.model.filepath"];
/// Prefix of file names that mark the removal of another file, in layers of images.
const REMOVED: &str = ".wh.";
const ALL_REMOVED: &str = ".wh..wh..opq";
/// Maximum number of files of an artifact.
const MOST_FILES: usize = 200_000;

/// Signs the results of a check for the encoder in an artifact, and stores the signature with the
/// artifact. The artifact is fetched, so that its signed contents have been verified.
pub(super) async fn push(session: &Session, args: &AttestArgs, reference: &str) -> Result<ExitCode, Failure> {
    let key = attest::key(&args.key, "--key")?;
    let (report, json) = read(&args.report, "--report")?;
    let reference = Reference::parse(reference).map_err(push_failure)?;
    let credentials = Credentials::of(&reference.host).map_err(push_failure)?;
    let repository = Repository::new(&reference, credentials, args.plain_http).map_err(push_failure)?;
    let found = repository.manifest(&reference.version).await.map_err(push_failure)?;
    let manifest = found.ok_or_else(|| push_failure(OciError::Absent(reference.to_string())))?;
    let found = carried(session, &repository, &reference, &manifest, args.max_bytes).await?;
    let all = statements(&report, &json).map_err(|error| Failure::usage(error.to_string()).of_flag("--report"))?;
    let known: Vec<String> = all.iter().map(|(encoder, _)| encoder.clone()).collect();
    let is_carried = |digests: &BTreeMap<String, String>| digests.get("sha256") == Some(&found.weights_digest);
    // A variant has the weights of its encoder, and the artifact is the encoder.
    let is_variant = |id: &String| report.encoders.iter().any(|one| one.id == *id && one.variant.is_some());
    let own = all.into_iter().find(|(encoder, statement)| {
        let weights = statement.subject.first();
        weights.is_some_and(|weights| is_carried(&weights.digest)) && !is_variant(encoder)
    });
    let Some((encoder, statement)) = own else {
        return Err(Failure::dependency(format!(
            "--push: {reference} carries an encoder with the weights SHA-256 {}, which the report is not about ({}); push the encoder \
             that was checked, or check this one",
            found.weights_digest,
            known.join(", ")
        )));
    };
    let hex = manifest.digest.trim_start_matches("sha256:");
    let statement = statement.with_files(&found.files).with_artifact(&reference.name(), hex);
    let internal = |error: &dyn std::fmt::Display| Failure::dependency(error.to_string());
    let statement = serde_json::to_vec(&statement).map_err(|error| internal(&error))?;
    let envelope = Envelope::sign(&statement, &key).map_err(|error| internal(&error))?;
    let evidence = Evidence {
        artifact_type: BUNDLE_TYPE.to_owned(),
        content: envelope.bundle(&key.public()).map_err(|error| internal(&error))?,
        annotations: [
            ("org.opencontainers.image.created", report.run.finished.to_string()),
            ("dev.sigstore.bundle.content", "dsse-envelope".to_owned()),
            ("dev.sigstore.bundle.predicateType", PREDICATE_TYPE.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
    };
    let pushed = referrer::push(&repository, &Descriptor::of(&manifest), &evidence)
        .await
        .map_err(push_failure)?;
    let how = match &pushed.found_by {
        FoundBy::Api => "the referrers API".to_owned(),
        FoundBy::Tag(tag) => format!("the tag {tag}, since the registry has no referrers API"),
    };
    let line = format!("{}@{}: {encoder}, found by {how}", reference.name(), pushed.digest);
    let signed = serde_json::to_vec(&envelope).map_err(|error| internal(&error))?;
    let document = serde_json::json!({
        "encoder": encoder,
        "artifact": format!("{}@{}", reference.name(), manifest.digest),
        "attestation": format!("{}@{}", reference.name(), pushed.digest),
        "tag": match &pushed.found_by {
            FoundBy::Api => None,
            FoundBy::Tag(tag) => Some(tag),
        },
    });
    write_and(
        &session.global,
        vec![(attest::FILE.to_owned(), signed)],
        &args.out,
        Some((line, document)),
    )
}

fn push_failure(error: OciError) -> Failure {
    Failure::from(Fault::from(error)).of_flag("--push")
}

/// Digests of the files of the encoder in an artifact.
async fn carried(
    session: &Session,
    repository: &Repository,
    reference: &Reference,
    manifest: &Manifest,
    most: u64,
) -> Result<ModelFiles, Failure> {
    let refused = |reason: &str| Failure::dependency(format!("--push: {reference}: {reason}"));
    let layers: Layers =
        serde_json::from_slice(&manifest.bytes).map_err(|error| refused(&format!("its manifest: {error}")))?;
    if layers.layers.is_empty() {
        return Err(refused(
            "it has no layers; of an index for several platforms, name the manifest of one by its digest",
        ));
    }
    let folder = tempfile::tempdir().map_err(|error| refused(&format!("a temporary folder: {error}")))?;
    let unpacked = folder.path().join("files");
    let mut all = Contents {
        files: BTreeMap::new(),
        left: most,
        root: unpacked.clone(),
    };
    for layer in &layers.layers {
        let blob = folder.path().join("blob");
        all.add(repository, layer, &blob).await.map_err(|error| match error {
            Problem::Registry(error) => push_failure(error),
            Problem::Artifact(reason) => refused(&reason),
        })?;
    }
    let files: Vec<StoredFile> = all.files.into_values().collect();
    let description = fs::read_to_string(unpacked.join(DESCRIPTION)).ok();
    let located = locate(&files, description.as_deref()).map_err(|reason| refused(&reason))?;
    let encoder = folder.path().join("encoder");
    for file in &located.files {
        let to = encoder.join(&file.to);
        let parent = to.parent().unwrap_or(&encoder);
        let moved = fs::create_dir_all(parent).and_then(|()| fs::rename(unpacked.join(&file.from), &to));
        moved.map_err(|error| refused(&format!("{}: {error}", file.from)))?;
    }
    files_of(session, &encoder.to_string_lossy()).await
}

enum Problem {
    Registry(OciError),
    Artifact(String),
}

/// The files of an artifact, layer by layer.
struct Contents {
    files: BTreeMap<String, StoredFile>,
    /// Remaining number of bytes that may be read.
    left: u64,
    root: PathBuf,
}

impl Contents {
    async fn add(&mut self, repository: &Repository, layer: &Descriptor, blob: &Path) -> Result<(), Problem> {
        let name = NAMES.iter().find_map(|name| layer.annotations.get(*name));
        let mut parts = layer.media_type.split(|c: char| !c.is_ascii_alphanumeric());
        let is_archive = parts.any(|part| part == "tar");
        // Files that no encoder needs are not fetched.
        if !is_archive && name.is_none_or(|name| !may_be_fetched(name)) {
            return Ok(());
        }
        let too_large = || Problem::Artifact("it is larger than --max-bytes".to_owned());
        if layer.size > self.left {
            return Err(too_large());
        }
        let whole = repository.blob(&layer.digest, blob, self.left).await;
        if !whole.map_err(Problem::Registry)? {
            return Err(too_large());
        }
        let broken = |error: std::io::Error| Problem::Artifact(format!("the layer {}: {error}", layer.digest));
        if let Some(name) = name.filter(|_| !is_archive) {
            if !is_plain(name) {
                return Err(Problem::Artifact(format!(
                    "the layer {} is named `{}`",
                    layer.digest,
                    name.escape_debug()
                )));
            }
            let to = self.root.join(name);
            let parent = to.parent().unwrap_or(&self.root);
            fs::create_dir_all(parent)
                .and_then(|()| fs::rename(blob, &to))
                .map_err(broken)?;
            self.took(StoredFile {
                path: name.clone(),
                size: Some(layer.size),
                tag: None,
            });
            return Ok(());
        }
        let compression = match layer.media_type.as_str() {
            kind if kind.contains("gzip") => Compression::Gzip,
            kind if kind.contains("zstd") => Compression::Zstd,
            _ => Compression::None,
        };
        let bounds = Bounds {
            bytes: self.left,
            files: MOST_FILES,
        };
        let input = fs::File::open(blob).map_err(broken)?;
        let unpacked = tokio::task::block_in_place(|| unpack(input, compression, &self.root, bounds));
        let files = match unpacked.map_err(|error| Problem::Artifact(error.to_string()))? {
            UnpackOutcome::Files(files) => files,
            UnpackOutcome::Unsupported(reason) | UnpackOutcome::Refused(reason) => {
                return Err(Problem::Artifact(format!("the layer {}: {reason}", layer.digest)));
            }
        };
        let removed = |file: &&StoredFile| name_of(&file.path).starts_with(REMOVED);
        for file in files.iter().filter(removed) {
            let folder = &file.path[..file.path.len() - name_of(&file.path).len()];
            let gone = match name_of(&file.path) {
                ALL_REMOVED => folder.to_owned(),
                name => format!("{folder}{}", &name[REMOVED.len()..]),
            };
            // Files of earlier layers, not of this one.
            self.files
                .retain(|path, _| *path != gone && !path.starts_with(&format!("{}/", gone.trim_end_matches('/'))));
        }
        for file in files.into_iter().filter(|file| !removed(&file)) {
            self.took(file);
        }
        Ok(())
    }

    fn took(&mut self, file: StoredFile) {
        self.left = self.left.saturating_sub(file.size.unwrap_or_default());
        self.files.insert(file.path.clone(), file);
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
