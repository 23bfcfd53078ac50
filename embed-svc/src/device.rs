//! Where models run, and in which arithmetic.

use serde::{Deserialize, Serialize};

use crate::error::EmbedError;

/// Arithmetic of the linear layers inside a transformer. Embedding tables, normalisations, attention and what follows the
/// transformer are computed in `f32` whatever is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats: what the reference libraries compute.
    #[default]
    F32,
    /// Weights and inputs rounded to integers ([`isomer_kernels::int8`]): faster, smaller, and not quite the same vectors.
    Int8,
}

/// A device that was found to work.
#[derive(Debug, Clone)]
pub enum Device {
    /// The CPU, on our kernels, in `f32`.
    Cpu,
    /// The CPU, on our kernels, linear layers as integers.
    CpuInt8,
    /// A device of Candle.
    Candle(candle_core::Device),
}

impl Device {
    /// Reads `auto`, `cpu` or `cuda:N`.
    ///
    /// # Errors
    /// Another word; a device that this build or machine lacks.
    pub fn parse(text: &str) -> Result<Self, EmbedError> {
        let refuse = |problem: String| EmbedError::Device {
            device: text.to_owned(),
            problem,
        };
        match text {
            // Without a GPU build there is nothing to choose from.
            "auto" | "cpu" => Ok(Self::Cpu),
            _ => {
                let number = text
                    .strip_prefix("cuda:")
                    .and_then(|number| number.parse::<usize>().ok());
                let number = number.ok_or_else(|| refuse("unknown; give `auto`, `cpu` or `cuda:N`".into()))?;
                candle_core::Device::new_cuda(number)
                    .map(Self::Candle)
                    .map_err(|error| refuse(error.to_string()))
            }
        }
    }

    /// The same device in this arithmetic.
    ///
    /// # Errors
    /// Integers anywhere but on the CPU.
    pub fn computing_in(self, precision: Precision) -> Result<Self, EmbedError> {
        match (self, precision) {
            (Self::Cpu | Self::CpuInt8, Precision::F32) => Ok(Self::Cpu),
            (Self::Cpu | Self::CpuInt8, Precision::Int8) => Ok(Self::CpuInt8),
            (device @ Self::Candle(_), Precision::F32) => Ok(device),
            (device @ Self::Candle(_), Precision::Int8) => Err(EmbedError::Device {
                device: device.name(),
                problem: "precision int8 is for the CPU; give device `cpu`, or precision `f32`".into(),
            }),
        }
    }

    /// The arithmetic.
    pub fn precision(&self) -> Precision {
        match self {
            Self::CpuInt8 => Precision::Int8,
            Self::Cpu | Self::Candle(_) => Precision::F32,
        }
    }

    /// Whether our kernels compute.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu | Self::CpuInt8)
    }

    /// `cpu`, `cuda:0`, ….
    pub fn name(&self) -> String {
        match self {
            Self::Cpu | Self::CpuInt8 | Self::Candle(candle_core::Device::Cpu) => "cpu".into(),
            Self::Candle(device) => match device.location() {
                candle_core::DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
                candle_core::DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
                candle_core::DeviceLocation::Cpu => "cpu".into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn integers_are_refused_anywhere_but_on_the_cpu() {
        let cpu = Device::parse("cpu").unwrap().computing_in(Precision::Int8).unwrap();
        assert_eq!((cpu.name().as_str(), cpu.precision()), ("cpu", Precision::Int8));
        assert_eq!(cpu.computing_in(Precision::F32).unwrap().precision(), Precision::F32);
        let other = Device::Candle(candle_core::Device::Cpu);
        let error = other.computing_in(Precision::Int8).unwrap_err().to_string();
        assert!(error.contains("give device `cpu`, or precision `f32`"), "{error}");
    }
}
