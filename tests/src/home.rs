//! Folders for models, caches and runs.

use std::path::{Path, PathBuf};

use isomer_models::ModelsConfig;
use tempfile::TempDir;

/// A separate home for one test: empty caches, with the machine's model files.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
}

impl Home {
    /// A home with the given models. `None`, with a printed reason, if one of them is not in the
    /// machine's cache.
    pub fn with_models(ids: &[&str]) -> Option<Self> {
        let machine = ModelsConfig::default().home;
        for id in ids {
            if !machine.join("models").join(id).is_dir() {
                isomer_stubs::skip(&format!(
                    "no model {id} in {}; `isomer models pull {id}` fetches it",
                    machine.display()
                ));
                return None;
            }
        }
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(machine.join("models")).expect("the machine's model folder");
        std::os::unix::fs::symlink(machine.join("models"), dir.path().join("models")).expect("a link to the models");
        Some(Self { dir })
    }

    /// A home without models.
    pub fn empty() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The folder of a model in the home.
    pub fn model(&self, id: &str) -> PathBuf {
        self.path().join("models").join(id)
    }
}
