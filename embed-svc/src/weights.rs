//! Checkpoint tensors, memory-mapped.

use std::{
    collections::HashMap,
    fs::File,
    ops::{Deref, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use crate::error::EmbedError;

/// The tensors of a `model.safetensors`, or of the shards that a `model.safetensors.index.json` names.
#[derive(Debug)]
pub struct Weights {
    files: Vec<(PathBuf, Arc<Mmap>)>,
    tensors: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

/// `f32` values: in the mapped file where they lie there as such, else converted.
#[derive(Debug, Clone)]
pub enum Floats {
    /// A range of bytes of a mapped file, aligned and in native byte order.
    Mapped(Arc<Mmap>, Range<usize>),
    /// Converted from another type.
    Owned(Arc<[f32]>),
}

impl Floats {
    /// No values.
    pub fn empty() -> Self {
        Self::Owned(Vec::new().into())
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            // Alignment and length were checked when the variant was made.
            Self::Mapped(map, range) => bytemuck::try_cast_slice(&map[range.clone()]).unwrap_or_default(),
            Self::Owned(values) => values,
        }
    }
}

const REFETCH: &str = "fetch the model again; a download that broke off leaves such a file";

impl Weights {
    /// Maps the checkpoint of a model folder.
    ///
    /// # Errors
    /// Names the file: missing, truncated, not safetensors; only a `pytorch_model.bin` there.
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

    /// Maps one file and notes its tensors.
    fn add(&mut self, path: &Path) -> Result<(), EmbedError> {
        let unreadable =
            |error: std::io::Error| EmbedError::file(path, format!("the weights cannot be read: {error}"), REFETCH);
        let file = File::open(path).map_err(unreadable)?;
        // SAFETY: the map is read-only. As with every mapped file, another process that truncates it while we run would
        // end this one; model folders are written once, under another name, and renamed.
        let map = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
        let broken = |error: safetensors::SafeTensorError| {
            EmbedError::file(path, format!("truncated or not safetensors: {error}"), REFETCH)
        };
        // Also checks that the data is all there and that no tensor reaches beyond it.
        let (header, metadata) = SafeTensors::read_metadata(&map).map_err(broken)?;
        let number = self.files.len();
        for (name, info) in metadata.tensors() {
            let start = header + size_of::<u64>();
            let bytes = start + info.data_offsets.0..start + info.data_offsets.1;
            let entry = Entry {
                file: number,
                dtype: info.dtype,
                shape: info.shape.clone(),
                bytes,
            };
            self.tensors.insert(name, entry);
        }
        self.files.push((path.to_path_buf(), Arc::new(map)));
        Ok(())
    }

    /// Whether a tensor of this name is there.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|entry| &entry.shape[..])
    }

    /// The file that errors about a missing tensor name.
    pub fn file(&self) -> &Path {
        self.files
            .first()
            .map_or(Path::new("model.safetensors"), |(path, _)| path)
    }

    /// A tensor as `f32`, which must have the shape given.
    ///
    /// # Errors
    /// Names the tensor: missing, another shape, not a float type.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Floats, EmbedError> {
        let entry = self.entry(name, shape)?;
        let (path, map) = &self.files[entry.file];
        let bytes = &map[entry.bytes.clone()];
        let convert =
            |size: usize, read: &dyn Fn(&[u8]) -> f32| bytes.chunks_exact(size).map(read).collect::<Arc<[f32]>>();
        match entry.dtype {
            Dtype::F32 if cfg!(target_endian = "little") && bytemuck::try_cast_slice::<u8, f32>(bytes).is_ok() => {
                Ok(Floats::Mapped(map.clone(), entry.bytes.clone()))
            }
            Dtype::F32 => Ok(Floats::Owned(convert(4, &|b| {
                f32::from_le_bytes([b[0], b[1], b[2], b[3]])
            }))),
            Dtype::F16 => Ok(Floats::Owned(convert(2, &|b| {
                f16::from_le_bytes([b[0], b[1]]).to_f32()
            }))),
            Dtype::BF16 => Ok(Floats::Owned(convert(2, &|b| {
                bf16::from_le_bytes([b[0], b[1]]).to_f32()
            }))),
            other => Err(EmbedError::file(
                path,
                format!("tensor `{name}` is {other:?}; F32, F16 and BF16 are read"),
                "save the model in one of these types",
            )),
        }
    }

    /// Looks whether a tensor is there with this shape.
    ///
    /// # Errors
    /// Names the tensor: missing, another shape.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<(), EmbedError> {
        self.entry(name, shape).map(drop)
    }

    fn entry(&self, name: &str, shape: &[usize]) -> Result<&Entry, EmbedError> {
        let Some(entry) = self.tensors.get(name) else {
            return Err(self.missing(&[name.to_owned()]));
        };
        let (path, _) = &self.files[entry.file];
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

    /// [`Weights::get`] in double precision: of an F64 tensor too.
    ///
    /// # Errors
    /// As [`Weights::get`].
    pub fn doubles(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>, EmbedError> {
        let entry = self.entry(name, shape)?;
        if entry.dtype != Dtype::F64 {
            return Ok(self.get(name, shape)?.iter().map(|value| f64::from(*value)).collect());
        }
        let bytes = &self.files[entry.file].1[entry.bytes.clone()];
        Ok(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
    }

    /// A tensor of whole numbers (I64 or I32), flat.
    ///
    /// # Errors
    /// Names the tensor: missing, another type.
    pub fn integers(&self, name: &str) -> Result<Vec<i64>, EmbedError> {
        let Some(entry) = self.tensors.get(name) else {
            return Err(self.missing(&[name.to_owned()]));
        };
        let (path, map) = &self.files[entry.file];
        let bytes = &map[entry.bytes.clone()];
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

    /// The error for tensors that are not there.
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
