//! One tensor of a file.

use std::{ops::Range, sync::Arc};

use half::{bf16, f16};
use safetensors::Dtype;

use super::{Floats, RELOAD, file::TensorFile};
use crate::error::EmbedError;

/// The types that [`Tensor::floats`] reads.
const FLOATS: &str = "F32, F16 and BF16";

/// The location of a tensor, and the format of its values.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) file: Arc<TensorFile>,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Range<usize>,
}

impl Tensor {
    fn read(&self, bytes: Range<usize>, into: &mut [u8]) -> Result<(), EmbedError> {
        let bytes = self.bytes.start + bytes.start..self.bytes.start + bytes.end;
        self.file.read(bytes, into).map_err(|error| {
            let message = format!("the weights cannot be read any more: {error}");
            EmbedError::file(&self.file.path, message, RELOAD)
        })
    }

    pub(super) fn bytes(&self) -> Result<Vec<u8>, EmbedError> {
        let mut bytes = vec![0; self.bytes.len()];
        self.read(0..bytes.len(), &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn all(&self) -> Result<Floats, EmbedError> {
        let mut values: Arc<[f32]> = std::iter::repeat_n(0.0, self.shape.iter().product()).collect();
        if let Some(values) = Arc::get_mut(&mut values) {
            self.floats(0, values)?;
        }
        Ok(Floats(values))
    }

    /// Whether the values are of a type that [`Tensor::floats`] reads.
    pub(super) fn check_float(&self) -> Result<(), EmbedError> {
        match self.dtype {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
            _ => Err(self.of_another_type(FLOATS)),
        }
    }

    /// The values starting at `first`, as many as `into` has room for.
    pub(super) fn floats(&self, first: usize, into: &mut [f32]) -> Result<(), EmbedError> {
        match self.dtype {
            Dtype::F32 => {
                // Values are read directly into their destination: the tables of large models take
                // gigabytes.
                let bytes = first * size_of::<f32>()..(first + into.len()) * size_of::<f32>();
                self.read(bytes, bytemuck::cast_slice_mut(into))?;
                if cfg!(target_endian = "big") {
                    into.iter_mut()
                        .for_each(|value| *value = f32::from_bits(value.to_bits().swap_bytes()));
                }
                Ok(())
            }
            Dtype::F16 => self.halves(first, into, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Dtype::BF16 => self.halves(first, into, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            _ => Err(self.of_another_type(FLOATS)),
        }
    }

    /// The error for an unsupported type; `read` names the supported ones.
    pub(super) fn of_another_type(&self, read: &str) -> EmbedError {
        EmbedError::file(
            &self.file.path,
            format!("tensor `{}` is {:?}; {read} are read", self.name, self.dtype),
            "save the model in one of these types",
        )
    }

    /// Reads two-byte values.
    fn halves(&self, first: usize, into: &mut [f32], widen: impl Fn([u8; 2]) -> f32) -> Result<(), EmbedError> {
        let mut bytes = vec![0; into.len() * 2];
        self.read(first * 2..first * 2 + bytes.len(), &mut bytes)?;
        for (value, bytes) in into.iter_mut().zip(bytes.as_chunks().0) {
            *value = widen(*bytes);
        }
        Ok(())
    }
}
