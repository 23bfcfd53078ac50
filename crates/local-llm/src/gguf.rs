//! A GGUF file: metadata is read with clear error messages, and tensors are read once and never
//! copied.

use std::{collections::HashMap, io::Cursor, panic::catch_unwind, path::Path};

use candle_core::quantized::{
    GgmlDType,
    gguf_file::{Content, Value},
};
use isomer_kernels::quant::QuantType;

use crate::LocalError;

#[derive(Debug)]
pub(crate) struct GgufFile {
    bytes: Vec<u8>,
    metadata: HashMap<String, Value>,
    tensors: HashMap<String, Tensor>,
}

/// The location of a tensor. A matrix has `rows` rows of `cols` numbers; a vector is one row.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) kind: QuantType,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    start: usize,
    len: usize,
}

impl GgufFile {
    pub(crate) fn open(path: &Path) -> Result<Self, LocalError> {
        let open_error = |source| LocalError::Open {
            path: path.to_owned(),
            source,
        };
        let format_error = |message: String| LocalError::Format {
            path: path.to_owned(),
            message,
        };
        // Read rather than memory-mapped: if a mapped file is truncated the process ends (SIGBUS).
        let bytes = std::fs::read(path).map_err(open_error)?;
        // The library assumes that some numbers are valid, such as an alignment above 0, and panics
        // otherwise.
        let content = catch_unwind(|| Content::read(&mut Cursor::new(&bytes[..])))
            .map_err(|_| format_error("its header does not make sense".to_owned()))?
            .map_err(|e| format_error(e.to_string()))?;
        let mut tensors = HashMap::with_capacity(content.tensor_infos.len());
        for (name, info) in content.tensor_infos {
            let bad = |message: String| LocalError::BadTensor {
                name: name.clone(),
                message,
            };
            let kind = quant_type(info.ggml_dtype)
                .ok_or_else(|| bad(format!("its type {:?} is not supported", info.ggml_dtype)))?;
            let (rows, cols) = match *info.shape.dims() {
                [cols] => (1, cols),
                [rows, cols] => (rows, cols),
                ref dims => return Err(bad(format!("{} dimensions, one or two are supported", dims.len()))),
            };
            let len = kind
                .row_bytes(cols)
                .and_then(|row| row.checked_mul(rows))
                .ok_or_else(|| bad(format!("rows of {cols} are not whole {} blocks", kind.name())))?;
            let start = content
                .tensor_data_offset
                .checked_add(info.offset)
                .and_then(|start| usize::try_from(start).ok());
            let Some(start) = start.filter(|start| start.checked_add(len).is_some_and(|end| end <= bytes.len())) else {
                return Err(format_error(format!(
                    "tensor `{name}` lies beyond the end of the file at {} bytes",
                    bytes.len()
                )));
            };
            let tensor = Tensor {
                kind,
                rows,
                cols,
                start,
                len,
            };
            tensors.insert(name, tensor);
        }
        Ok(Self {
            bytes,
            metadata: content.metadata,
            tensors,
        })
    }

    /// The tensor, or an error that names it.
    pub(crate) fn tensor(&self, name: &str) -> Result<&Tensor, LocalError> {
        self.find_tensor(name)
            .ok_or_else(|| LocalError::MissingTensor { name: name.to_owned() })
    }

    pub(crate) fn find_tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// Bytes of a tensor of this file.
    pub(crate) fn bytes(&self, tensor: &Tensor) -> &[u8] {
        &self.bytes[tensor.start..tensor.start + tensor.len]
    }

    fn find<'a, T>(
        &'a self,
        key: &str,
        what: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, LocalError> {
        let Some(value) = self.metadata.get(key) else {
            return Ok(None);
        };
        match convert(value) {
            Some(value) => Ok(Some(value)),
            None => Err(LocalError::BadValue {
                key: key.to_owned(),
                message: format!("is of type {:?}, expected {what}", value.value_type()),
            }),
        }
    }

    pub(crate) fn find_text(&self, key: &str) -> Result<Option<&str>, LocalError> {
        self.find(key, "a string", |v| v.to_string().ok().map(String::as_str))
    }

    pub(crate) fn find_count(&self, key: &str) -> Result<Option<usize>, LocalError> {
        self.find(key, "a whole number from 0 up", |v| {
            let signed = v.to_i64().ok().and_then(|v| usize::try_from(v).ok());
            v.to_u64()
                .ok()
                .and_then(|v| usize::try_from(v).ok())
                .or(signed)
                .or(match v {
                    Value::I32(v) => usize::try_from(*v).ok(),
                    _ => None,
                })
        })
    }

    pub(crate) fn find_float(&self, key: &str) -> Result<Option<f32>, LocalError> {
        #[allow(clippy::cast_possible_truncation)]
        self.find(key, "a number", |v| {
            v.to_f32().ok().or_else(|| v.to_f64().ok().map(|v| v as f32))
        })
    }

    pub(crate) fn find_flag(&self, key: &str) -> Result<Option<bool>, LocalError> {
        self.find(key, "true or false", |v| v.to_bool().ok())
    }

    pub(crate) fn find_texts(&self, key: &str) -> Result<Option<Vec<&str>>, LocalError> {
        self.find(key, "a list of strings", |v| {
            let items = v.to_vec().ok()?.iter();
            items.map(|v| v.to_string().ok().map(String::as_str)).collect()
        })
    }

    pub(crate) fn find_floats(&self, key: &str) -> Result<Option<Vec<f32>>, LocalError> {
        self.find(key, "a list of 32-bit floats", |v| {
            v.to_vec().ok()?.iter().map(|v| v.to_f32().ok()).collect()
        })
    }

    /// Small integers of any width.
    pub(crate) fn find_codes(&self, key: &str) -> Result<Option<Vec<u8>>, LocalError> {
        self.find(key, "a list of small whole numbers", |v| {
            let items = v.to_vec().ok()?.iter();
            items
                .map(|v| match *v {
                    Value::I32(v) => u8::try_from(v).ok(),
                    Value::I8(v) => u8::try_from(v).ok(),
                    Value::I16(v) => u8::try_from(v).ok(),
                    Value::I64(v) => u8::try_from(v).ok(),
                    ref v => u8::try_from(v.to_u64().ok()?).ok(),
                })
                .collect()
        })
    }
}

/// Turns an absent key into an error that names it.
pub(crate) fn required<T>(key: &str, value: Option<T>) -> Result<T, LocalError> {
    value.ok_or_else(|| LocalError::MissingKey { key: key.to_owned() })
}

fn quant_type(dtype: GgmlDType) -> Option<QuantType> {
    Some(match dtype {
        GgmlDType::F32 => QuantType::F32,
        GgmlDType::F16 => QuantType::F16,
        GgmlDType::BF16 => QuantType::Bf16,
        GgmlDType::Q4_0 => QuantType::Q4_0,
        GgmlDType::Q4_1 => QuantType::Q4_1,
        GgmlDType::Q5_0 => QuantType::Q5_0,
        GgmlDType::Q5_1 => QuantType::Q5_1,
        GgmlDType::Q8_0 => QuantType::Q8_0,
        GgmlDType::Q4K => QuantType::Q4K,
        GgmlDType::Q5K => QuantType::Q5K,
        GgmlDType::Q6K => QuantType::Q6K,
        GgmlDType::Q8_1 | GgmlDType::Q2K | GgmlDType::Q3K | GgmlDType::Q8K => return None,
    })
}
