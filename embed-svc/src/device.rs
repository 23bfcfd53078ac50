//! Where models run.

use crate::error::EmbedError;

/// A device that was found to work.
#[derive(Debug, Clone)]
pub enum Device {
    /// The CPU, on our kernels.
    Cpu,
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

    /// `cpu`, `cuda:0`, ….
    pub fn name(&self) -> String {
        match self {
            Self::Cpu | Self::Candle(candle_core::Device::Cpu) => "cpu".into(),
            Self::Candle(device) => match device.location() {
                candle_core::DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
                candle_core::DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
                candle_core::DeviceLocation::Cpu => "cpu".into(),
            },
        }
    }
}
