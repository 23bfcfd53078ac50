//! Checkpoint tensors, each read on demand.

mod file;

use std::{
    collections::HashMap,
    ops::{Deref, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use half::{bf16, f16};
use safetensors::Dtype;

use file::{OpenError, TensorFile};

use crate::error::EmbedError;

/// The tensors of a `model.safetensors`, or of the shards that a `model.safetensors.index.json`
/// names.
#[derive(Debug)]
pub struct Weights {
    files: Vec<TensorFile>,
    tensors: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

/// `f32` values, converted if the file has another type. Clones share them.
#[derive(Debug, Clone)]
pub struct Floats(Arc<[f32]>);

impl Floats {
    /// No values.
    pub fn empty() -> Self {
        Self(Vec::new().into())
    }
}

impl From<Arc<[f32]>> for Floats {
    fn from(values: Arc<[f32]>) -> Self {
        Self(values)
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

const REFETCH: &str = "fetch the model again; a download that broke off leaves such a file";

impl Weights {
    /// Opens the checkpoint of a model folder.
    ///
    /// # Errors
    /// If a file is missing, truncated or not safetensors, or only a `pytorch_model.bin` is there;
    /// the error names it.
    pub fn open(folder: &Path) -> Result<Self, EmbedError> {
        let single = folder.join("model.safetensors");
        let index = folder.join("model.safetensors.index.json");
        let paths = if single.is_file() {
            vec![single]
        } else if index.is_file() {
            shards(&index)?
        } else {
            return Err(no_weights(folder, &single));
        };
        let mut weights = Self {
            files: Vec::new(),
            tensors: HashMap::new(),
        };
        for path in paths {
            weights.add(&path)?;
        }
        Ok(weights)
    }

    /// Opens one file and notes its tensors.
    fn add(&mut self, path: &Path) -> Result<(), EmbedError> {
        let (file, data, metadata) = TensorFile::open(path).map_err(|error| {
            let message = match error {
                OpenError::Unreadable(error) => format!("the weights cannot be read: {error}"),
                OpenError::Broken(error) => format!("truncated or not safetensors: {error}"),
            };
            EmbedError::file(path, message, REFETCH)
        })?;
        let number = self.files.len();
        for (name, info) in metadata.tensors() {
            let bytes = data + info.data_offsets.0..data + info.data_offsets.1;
            let entry = Entry {
                file: number,
                dtype: info.dtype,
                shape: info.shape.clone(),
                bytes,
            };
            self.tensors.insert(name, entry);
        }
        self.files.push(file);
        Ok(())
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|entry| &entry.shape[..])
    }

    /// The file that errors name when a tensor is missing.
    pub fn file(&self) -> &Path {
        self.files
            .first()
            .map_or(Path::new("model.safetensors"), |file| &file.path)
    }

    /// A tensor as `f32`, which must have the shape given.
    ///
    /// # Errors
    /// If the tensor is missing, has another shape or is not of a float type; the error names it.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Floats, EmbedError> {
        let entry = self.entry(name, shape)?;
        let path = &self.files[entry.file].path;
        let count = entry.shape.iter().product();
        match entry.dtype {
            Dtype::F32 => {
                // Read directly into its final place: the tables of large models take gigabytes.
                let mut values: Arc<[f32]> = std::iter::repeat_n(0.0, count).collect();
                if let Some(values) = Arc::get_mut(&mut values) {
                    self.read(entry, bytemuck::cast_slice_mut(values))?;
                    if cfg!(target_endian = "big") {
                        values
                            .iter_mut()
                            .for_each(|value| *value = f32::from_bits(value.to_bits().swap_bytes()));
                    }
                }
                Ok(Floats(values))
            }
            Dtype::F16 => Ok(Floats(self.halves(entry, f16::from_le_bytes, f16::to_f32)?)),
            Dtype::BF16 => Ok(Floats(self.halves(entry, bf16::from_le_bytes, bf16::to_f32)?)),
            other => Err(EmbedError::file(
                path,
                format!("tensor `{name}` is {other:?}; F32, F16 and BF16 are read"),
                "save the model in one of these types",
            )),
        }
    }

    /// Reads a tensor's bytes.
    fn read(&self, entry: &Entry, into: &mut [u8]) -> Result<(), EmbedError> {
        let file = &self.files[entry.file];
        file.read(entry.bytes.clone(), into).map_err(|error| {
            let message = format!("the weights cannot be read any more: {error}");
            EmbedError::file(&file.path, message, REFETCH)
        })
    }

    /// A tensor's bytes.
    fn bytes(&self, entry: &Entry) -> Result<Vec<u8>, EmbedError> {
        let mut bytes = vec![0; entry.bytes.len()];
        self.read(entry, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a tensor of two-byte values.
    fn halves<T>(
        &self,
        entry: &Entry,
        read: impl Fn([u8; 2]) -> T,
        widen: impl Fn(T) -> f32,
    ) -> Result<Arc<[f32]>, EmbedError> {
        let bytes = self.bytes(entry)?;
        Ok(bytes.as_chunks().0.iter().map(|b| widen(read(*b))).collect())
    }

    /// Checks that a tensor exists with this shape.
    ///
    /// # Errors
    /// If the tensor is missing or has another shape; the error names it.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<(), EmbedError> {
        self.entry(name, shape).map(drop)
    }

    fn entry(&self, name: &str, shape: &[usize]) -> Result<&Entry, EmbedError> {
        let Some(entry) = self.tensors.get(name) else {
            return Err(self.missing(&[name.to_owned()]));
        };
        let path = &self.files[entry.file].path;
        if entry.shape != shape {
            return Err(EmbedError::file(
                path,
                format!(
                    "tensor `{name}` has shape {:?}, the configuration says {shape:?}",
                    entry.shape
                ),
                "config.json and the weights belong to different models",
            ));
        }
        Ok(entry)
    }

    /// Like [`Weights::get`], in double precision; also reads F64 tensors.
    ///
    /// # Errors
    /// As [`Weights::get`].
    pub fn doubles(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>, EmbedError> {
        let entry = self.entry(name, shape)?;
        if entry.dtype != Dtype::F64 {
            return Ok(self.get(name, shape)?.iter().map(|value| f64::from(*value)).collect());
        }
        let bytes = self.bytes(entry)?;
        Ok(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
    }

    /// A tensor of whole numbers (I64 or I32), flat.
    ///
    /// # Errors
    /// If the tensor is missing or has another type; the error names it.
    pub fn integers(&self, name: &str) -> Result<Vec<i64>, EmbedError> {
        let Some(entry) = self.tensors.get(name) else {
            return Err(self.missing(&[name.to_owned()]));
        };
        let path = &self.files[entry.file].path;
        let bytes = self.bytes(entry)?;
        match entry.dtype {
            Dtype::I64 => Ok(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()),
            Dtype::I32 => Ok(bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| i64::from(i32::from_le_bytes(*b)))
                .collect()),
            other => Err(EmbedError::file(
                path,
                format!("tensor `{name}` is {other:?}; I64 and I32 are read"),
                "save the model in one of these types",
            )),
        }
    }

    /// The error for missing tensors.
    pub fn missing(&self, names: &[String]) -> EmbedError {
        let shown = names
            .iter()
            .take(5)
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let more = if names.len() > 5 {
            format!(" and {} more", names.len() - 5)
        } else {
            String::new()
        };
        EmbedError::file(
            self.file(),
            format!("missing tensors: {shown}{more}"),
            "the checkpoint is incomplete, or of another architecture than config.json says",
        )
    }
}

/// Shard files of an index, each once, in order.
fn shards(index: &Path) -> Result<Vec<PathBuf>, EmbedError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let index_value: Index = crate::folder::read_json(index)?;
    let folder = index.parent().unwrap_or(Path::new("."));
    let names: std::collections::BTreeSet<_> = index_value.weight_map.into_values().collect();
    names
        .into_iter()
        .map(|name| {
            if Path::new(&name).components().count() == 1 && name.ends_with(".safetensors") {
                Ok(folder.join(name))
            } else {
                Err(EmbedError::file(
                    index,
                    format!("names the shard `{name}`"),
                    "shards lie beside their index",
                ))
            }
        })
        .collect()
}

fn no_weights(folder: &Path, wanted: &Path) -> EmbedError {
    let pickle = folder.join("pytorch_model.bin");
    if pickle.is_file() {
        EmbedError::file(
            &pickle,
            "pickled weights are not opened: unpickling runs code from the file",
            "convert once, where you trust the file: `AutoModel.from_pretrained(dir).save_pretrained(dir, \
             safe_serialization=True)` writes model.safetensors",
        )
    } else {
        EmbedError::file(wanted, "there are no weights", "the folder needs a model.safetensors")
    }
}
