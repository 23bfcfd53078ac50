//! Checkpoint tensors, each read on demand.

mod file;
mod table;
mod tensor;

use std::{
    collections::HashMap,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
};

use safetensors::Dtype;

use file::{OpenError, TensorFile};
pub use table::Table;
use tensor::Tensor;

use crate::error::EmbedError;

/// The tensors of a `model.safetensors`, or of the shards in a `model.safetensors.index.json`.
#[derive(Debug)]
pub struct Weights {
    /// The first file.
    path: PathBuf,
    tensors: HashMap<String, Tensor>,
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

/// Number of values of a file of tensors, by its header; `None` if it cannot be read.
pub(crate) fn values(path: &Path) -> Option<u64> {
    let (_, _, metadata) = TensorFile::open(path).ok()?;
    let values = |shape: &[usize]| shape.iter().map(|size| *size as u64).product::<u64>();
    Some(metadata.tensors().values().map(|info| values(&info.shape)).sum())
}

const RELOAD: &str = "fetch the model again and start the server again; a new version is moved to this place, not written into the \
                      file that is served";
const REFETCH: &str = "fetch the model again; a download that broke off leaves such a file";

impl Weights {
    /// Opens the checkpoint of a model folder.
    ///
    /// # Errors
    /// If a file is missing, truncated or not safetensors, or if there is only a
    /// `pytorch_model.bin`; the error names the file.
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
            path: paths.first().cloned().unwrap_or(index),
            tensors: HashMap::new(),
        };
        for path in paths {
            weights.add(&path)?;
        }
        Ok(weights)
    }

    /// Opens a single file of tensors.
    ///
    /// # Errors
    /// Those of [`Weights::open`].
    pub(crate) fn open_file(path: &Path) -> Result<Self, EmbedError> {
        let mut weights = Self {
            path: path.to_path_buf(),
            tensors: HashMap::new(),
        };
        weights.add(path)?;
        Ok(weights)
    }

    /// Opens one file and records its tensors.
    fn add(&mut self, path: &Path) -> Result<(), EmbedError> {
        let (file, data, metadata) = TensorFile::open(path).map_err(|error| {
            let message = match error {
                OpenError::Unreadable(error) => format!("the weights cannot be read: {error}"),
                OpenError::Broken(error) => format!("truncated or not safetensors: {error}"),
            };
            EmbedError::file(path, message, REFETCH)
        })?;
        let file = Arc::new(file);
        for (name, info) in metadata.tensors() {
            let bytes = data + info.data_offsets.0..data + info.data_offsets.1;
            let tensor = Tensor {
                name: name.clone(),
                file: Arc::clone(&file),
                dtype: info.dtype,
                shape: info.shape.clone(),
                bytes,
            };
            self.tensors.insert(name, tensor);
        }
        Ok(())
    }

    /// Whether a tensor of this name exists.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|entry| &entry.shape[..])
    }

    /// The file named in errors about a missing tensor.
    pub fn file(&self) -> &Path {
        &self.path
    }

    /// A tensor as `f32`, which must have the given shape.
    ///
    /// # Errors
    /// If the tensor is missing, has another shape or is not of a float type; the error names it.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Floats, EmbedError> {
        self.tensor(name, shape)?.all()
    }

    /// A tensor as a table of `rows × width`, whose rows are read on demand.
    ///
    /// # Errors
    /// Those of [`Weights::get`].
    pub fn table(&self, name: &str, rows: usize, width: usize) -> Result<Table, EmbedError> {
        Table::read(self.tensor(name, &[rows, width])?, rows, width)
    }

    /// Checks that a tensor exists with this shape.
    ///
    /// # Errors
    /// If the tensor is missing or has another shape; the error names it.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<(), EmbedError> {
        self.tensor(name, shape).map(drop)
    }

    fn named(&self, name: &str) -> Result<&Tensor, EmbedError> {
        self.tensors.get(name).ok_or_else(|| self.missing(&[name.to_owned()]))
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<&Tensor, EmbedError> {
        let tensor = self.named(name)?;
        if tensor.shape != shape {
            return Err(EmbedError::file(
                &tensor.file.path,
                format!(
                    "tensor `{name}` has shape {:?}, the configuration says {shape:?}",
                    tensor.shape
                ),
                "config.json and the weights belong to different models",
            ));
        }
        Ok(tensor)
    }

    /// Like [`Weights::get`], in double precision; also reads F64 tensors.
    ///
    /// # Errors
    /// Those of [`Weights::get`].
    pub fn doubles(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>, EmbedError> {
        let tensor = self.tensor(name, shape)?;
        if tensor.dtype != Dtype::F64 {
            return Ok(self.get(name, shape)?.iter().map(|value| f64::from(*value)).collect());
        }
        let bytes = tensor.bytes()?;
        Ok(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
    }

    /// A tensor of whole numbers (I64 or I32), flat.
    ///
    /// # Errors
    /// If the tensor is missing or has another type; the error names it.
    pub fn integers(&self, name: &str) -> Result<Vec<i64>, EmbedError> {
        let tensor = self.named(name)?;
        let bytes = tensor.bytes()?;
        match tensor.dtype {
            Dtype::I64 => Ok(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()),
            Dtype::I32 => Ok(bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| i64::from(i32::from_le_bytes(*b)))
                .collect()),
            _ => Err(tensor.of_another_type("I64 and I32")),
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
            "the checkpoint is incomplete, or its architecture is not that of config.json",
        )
    }
}

/// Shard files of an index, without duplicates, in order.
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
