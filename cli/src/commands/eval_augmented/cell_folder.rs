//! Scores stored by `--out`, so that the same command resumes an interrupted run.
//!
//! A score is stored under a digest of all its inputs: texts and labels of the data set, the
//! encoder's vector space, the setting, the options of the task, and the version. So a score is
//! never confused with another one. A change that no digest shows (a model behind a URL that
//! changes under the same name) must be handled by the user: `--fresh` computes all scores again.

use std::path::{Path, PathBuf};

use isomer_eval::report::gains::GainCell;
use isomer_proto::eval::v1::{DatasetAugmentation, ScoreRequest, ScoreResponse};
use prost::Message;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::exit::Failure;

/// Version of the format.
const SCHEMA: &str = "isomer.gain-cell/1";

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    cell: GainCell,
}

pub(super) struct CellFolder {
    folder: PathBuf,
    fresh: bool,
    /// The server, and the generator if none is named.
    context: [String; 2],
}

impl CellFolder {
    pub(super) fn open(out: &Path, fresh: bool, context: [String; 2]) -> Result<Self, Failure> {
        let folder = out.join("cells");
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::dependency(format!("--out: cannot make {}: {error}", folder.display())))?;
        Ok(Self { folder, fresh, context })
    }

    /// The file of a setting's score; `None` if the server's facts about the plain score are
    /// insufficient.
    pub(super) fn place(
        &self,
        encoder: &str,
        request: &ScoreRequest,
        augmentation: &DatasetAugmentation,
        plain: &ScoreResponse,
    ) -> Option<PathBuf> {
        let space = plain.vector_space.as_ref().map(|space| space.digest.as_str())?;
        if space.is_empty() || plain.dataset_digest.is_empty() {
            return None;
        }
        let options = request.options.as_ref().map(Message::encode_to_vec).unwrap_or_default();
        let index = request.index.as_ref().map(Message::encode_to_vec).unwrap_or_default();
        let mut hash = Sha256::new();
        let parts: [&[u8]; 11] = [
            SCHEMA.as_bytes(),
            env!("CARGO_PKG_VERSION").as_bytes(),
            self.context[0].as_bytes(),
            self.context[1].as_bytes(),
            encoder.as_bytes(),
            space.as_bytes(),
            plain.dataset_digest.as_bytes(),
            plain.profile_stamp.as_bytes(),
            &options,
            &index,
            &augmentation.encode_to_vec(),
        ];
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Some(self.folder.join(format!("{}.json", hex::encode(hash.finalize()))))
    }

    /// The score stored in the file, under the names of this run.
    pub(super) fn read(&self, place: &Path, dataset: &str, setting: &str) -> Result<Option<GainCell>, Failure> {
        if self.fresh {
            return Ok(None);
        }
        let json = match std::fs::read(place) {
            Ok(json) => json,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::dependency(format!(
                    "--out: cannot read {}: {error}",
                    place.display()
                )));
            }
        };
        let file: File = serde_json::from_slice(&json)
            .ok()
            .filter(|file: &File| file.schema == SCHEMA)
            .ok_or_else(|| {
                Failure::dependency(format!(
                    "--out: {} is not a score that this command wrote; remove it, or give --fresh",
                    place.display()
                ))
            })?;
        Ok(Some(GainCell {
            dataset: dataset.to_owned(),
            setting: Some(setting.to_owned()),
            ..file.cell
        }))
    }

    /// Stores a score, completely or not at all.
    pub(super) fn write(&self, place: &Path, cell: &GainCell) -> Result<(), Failure> {
        let file = File {
            schema: SCHEMA.to_owned(),
            cell: cell.clone(),
        };
        let io_failure =
            |error: std::io::Error| Failure::dependency(format!("--out: cannot write {}: {error}", place.display()));
        let json = serde_json::to_vec(&file).map_err(|error| io_failure(error.into()))?;
        let mut partial = tempfile::NamedTempFile::new_in(&self.folder).map_err(io_failure)?;
        std::io::Write::write_all(&mut partial, &json).map_err(io_failure)?;
        partial.persist(place).map_err(|error| io_failure(error.error))?;
        Ok(())
    }
}
