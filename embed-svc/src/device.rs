//! The devices that models run on, and the arithmetic they use.

use clap::ValueEnum;
use isomer_kernels::{Kernel, bf16::Bf16Kernel, int8::Int8Kernel};
use serde::{Deserialize, Serialize};

use crate::error::EmbedError;

/// Arithmetic of a transformer. Whatever is chosen, normalisations, rotations, softmax and pooling,
/// the sums of products, and what follows the transformer are computed in `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats, as the reference libraries compute.
    #[default]
    F32,
    /// Weights and states in 16-bit floats, on a GPU.
    ///
    /// Large values may overflow, which is an error, not a wrong vector.
    F16,
    /// bfloat16: weights and states on a GPU, weights and inputs of linear layers on the CPU.
    ///
    /// It has the range of `f32` with 8 bits of mantissa. See [`isomer_kernels::bf16`].
    Bf16,
    /// Weights and inputs of linear layers rounded to integers, on the CPU.
    ///
    /// It is faster and smaller, and its vectors differ slightly. Embedding tables and states stay
    /// in `f32`. See [`isomer_kernels::int8`].
    Int8,
}

isomer_names::names!(Precision { F32 = "f32", F16 = "f16", Bf16 = "bf16", Int8 = "int8" });

/// The code that computes transformers on the CPU. A GPU always computes on Candle's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CpuBackend {
    /// Our own kernels.
    #[default]
    Kernels,
    /// Candle: the code that a GPU without kernels of ours runs.
    ///
    /// It is slower, and its vectors differ from those of the kernels by rounding.
    Candle,
}

isomer_names::names!(CpuBackend { Kernels = "kernels", Candle = "candle" });

impl CpuBackend {
    /// Refuses an arithmetic that the backend lacks.
    fn check(self, precision: Precision) -> Result<(), String> {
        match (self, precision) {
            (_, Precision::F32 | Precision::Bf16)
            | (Self::Kernels, Precision::Int8)
            | (Self::Candle, Precision::F16) => Ok(()),
            (Self::Kernels, Precision::F16) => Err(
                "precision f16 is for GPUs; on the CPU give precision `f32`, `bf16` or `int8`, or backend `candle`"
                    .into(),
            ),
            (Self::Candle, Precision::Int8) => Err(
                "backend candle has no precision int8; give backend `kernels`, or precision `f32`, `f16` or `bf16`"
                    .into(),
            ),
        }
    }
}

/// Arithmetic of linear layers on the CPU that is narrower than `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Weights and inputs in bfloat16.
    Bf16,
    /// Weights and inputs as integers.
    Int8,
}

/// A working device, with its arithmetic.
#[derive(Debug, Clone)]
pub enum Device {
    /// The CPU, on our kernels, in `f32`.
    Cpu,
    /// The CPU, on our kernels, with linear layers in a narrower arithmetic.
    CpuRounded(Rounding),
    /// A device of Candle: a GPU, or the CPU under [`CpuBackend::Candle`].
    Candle {
        /// Candle's handle of the device.
        device: candle_core::Device,
        /// Its arithmetic; never [`Precision::Int8`].
        precision: Precision,
    },
}

/// The device that a configuration requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// `cuda:0` if this build has CUDA and a device answers, else the CPU.
    Auto,
    /// The CPU, with the configured backend.
    Cpu,
    /// An NVIDIA GPU.
    Cuda(usize),
    /// An Apple GPU.
    Metal,
}

const SERVED: &str = "`auto`, `cpu`, `cuda:N`, several GPUs as `cuda:0,cuda:1`, or `metal`";

impl Choice {
    /// Parses the syntax of [`Device::open`] and refuses requests that this build does not support.
    /// It does not look for devices. `backend` computes on the CPU.
    ///
    /// # Errors
    /// If a name is unknown, devices cannot be combined, or this build lacks the device or its
    /// arithmetic.
    pub fn parse(text: &str, precision: Precision, backend: CpuBackend) -> Result<Vec<Self>, EmbedError> {
        let refuse = |problem: String| EmbedError::Device {
            device: text.to_owned(),
            problem,
        };
        let mut choices = Vec::new();
        for word in text.split(',').map(str::trim) {
            let choice = match word {
                "auto" => Self::Auto,
                "cpu" => Self::Cpu,
                "metal" => Self::Metal,
                _ => {
                    let number = word.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                    Self::Cuda(number.ok_or_else(|| refuse(format!("`{word}` is unknown; give {SERVED}")))?)
                }
            };
            if choices.contains(&choice) {
                return Err(refuse(format!("`{word}` is named twice")));
            }
            choices.push(choice);
        }
        if choices.len() > 1 && !choices.iter().all(|choice| matches!(choice, Self::Cuda(_))) {
            return Err(refuse(
                "only GPUs of one kind work together, or vectors would depend on the GPU; give `cuda:0,cuda:1`".into(),
            ));
        }
        for choice in &choices {
            let lacking = match choice {
                Self::Cuda(_) if !cfg!(feature = "cuda") => "CUDA: build with feature `cuda` (`just cuda`)",
                Self::Metal if !cfg!(feature = "metal") => "Metal: build with feature `metal`",
                _ => "",
            };
            if !lacking.is_empty() {
                return Err(refuse(format!("this build has no {lacking}, or give `cpu`")));
            }
            match (choice, precision) {
                (Self::Cuda(_) | Self::Metal, Precision::Int8) => {
                    return Err(refuse(
                        "precision int8 is for the CPU; give device `cpu`, or precision `f32`, `f16` or `bf16`".into(),
                    ));
                }
                // Only the CPU has integers, so `auto` means the CPU.
                (Self::Cpu, _) | (Self::Auto, Precision::Int8) => backend.check(precision).map_err(refuse)?,
                (Self::Auto, _) if !cfg!(feature = "cuda") => backend
                    .check(precision)
                    .map_err(|problem| refuse(format!("this build has no CUDA, and {problem}")))?,
                _ => {}
            }
        }
        Ok(choices)
    }
}

/// An NVIDIA GPU with a separate stream. By default Candle uses one stream per host thread. Then
/// the computing threads would not wait for weights loaded by another thread, and all of them would
/// share the workspace of one cuBLAS handle.
fn cuda(number: usize) -> candle_core::Result<candle_core::Device> {
    if std::env::var_os("NVIDIA_TF32_OVERRIDE").is_some_and(|value| value != "0") {
        return Err(candle_core::Error::Msg(
            "NVIDIA_TF32_OVERRIDE rounds the inputs of f32 products to 11 bits, so vectors would not be those of f32; \
             unset it, or give precision `bf16`"
                .into(),
        ));
    }
    let device = candle_core::Device::new_cuda_with_stream(number)?;
    #[cfg(feature = "cuda")]
    {
        let cuda = device.as_cuda_device()?;
        // SAFETY: this context was just created for the device, and all of its work goes to this
        // one stream, in the order of submission, whichever thread submits it: there are no other
        // streams that events would have to order it with.
        unsafe { cuda.disable_event_tracking() };
        memory::keep(cuda)?;
    }
    Ok(device)
}

/// The pool from which a GPU's tensors are allocated.
#[cfg(feature = "cuda")]
mod memory {
    use candle_core::{
        CudaDevice, Result,
        cuda_backend::{
            WrapErr,
            cudarc::driver::{result, sys},
        },
    };

    fn pool(device: &CudaDevice) -> Result<sys::CUmemoryPool> {
        let context = device.cuda_stream().context().clone();
        context.bind_to_thread().w()?;
        // SAFETY: the context holds a device of this process.
        unsafe { result::device::get_default_mem_pool(context.cu_device()) }.w()
    }

    fn read(pool: sys::CUmemoryPool, attribute: sys::CUmemPool_attribute) -> Result<u64> {
        let mut value = 0u64;
        // SAFETY: the attributes that are read here are numbers of 64 bits.
        unsafe { result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast()) }.w()?;
        Ok(value)
    }

    /// Keeps freed memory for the next batch. By default the pool may return it to the driver at
    /// every synchronisation, and each batch would map gigabytes again.
    pub(super) fn keep(device: &CudaDevice) -> Result<()> {
        let all = u64::MAX;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the attribute is a number of 64 bits.
        unsafe { result::mem_pool::set_attribute(pool(device)?, threshold, (&raw const all).cast_mut().cast()) }.w()
    }

    /// Returns free memory except `kept` bytes to the driver, once the queued work has run.
    pub(super) fn trim(device: &CudaDevice, kept: u64) -> Result<()> {
        device.cuda_stream().synchronize().w()?;
        let pool = pool(device)?;
        let used = read(pool, sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        let kept = usize::try_from(used.saturating_add(kept)).unwrap_or(usize::MAX);
        // SAFETY: the pool belongs to the device.
        unsafe { result::mem_pool::trim_to(pool, kept) }.w()
    }

    /// Bytes in the pool, in use or free.
    pub(super) fn reserved(device: &CudaDevice) -> Result<u64> {
        read(
            pool(device)?,
            sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
        )
    }
}

impl Device {
    /// A device of Candle in 32 bits.
    pub fn candle(device: candle_core::Device) -> Self {
        Self::Candle {
            device,
            precision: Precision::F32,
        }
    }

    /// Opens `auto`, `cpu`, `cuda:N`, several `cuda:N` separated by commas, or `metal`. `backend`
    /// computes on the CPU.
    ///
    /// # Errors
    /// If [`Choice::parse`] refuses the text, or a device does not answer.
    pub fn open(text: &str, precision: Precision, backend: CpuBackend) -> Result<Vec<Self>, EmbedError> {
        let on_cpu = || {
            Ok(match (backend, precision) {
                (CpuBackend::Candle, _) => Self::Candle {
                    device: candle_core::Device::Cpu,
                    precision,
                },
                (CpuBackend::Kernels, Precision::Bf16) => Self::CpuRounded(Rounding::Bf16),
                (CpuBackend::Kernels, Precision::Int8) => Self::CpuRounded(Rounding::Int8),
                // `Choice::parse` refuses f16.
                (CpuBackend::Kernels, Precision::F32 | Precision::F16) => Self::Cpu,
            })
        };
        let refuse = |problem: String| EmbedError::Device {
            device: text.to_owned(),
            problem,
        };
        let one = |choice: Choice| {
            let opened = match choice {
                Choice::Cpu => return on_cpu(),
                Choice::Auto if !cfg!(feature = "cuda") || precision == Precision::Int8 => return on_cpu(),
                Choice::Auto => cuda(0),
                Choice::Cuda(number) => cuda(number),
                Choice::Metal => candle_core::Device::new_metal(0),
            };
            match opened {
                Ok(device) => Ok(Self::Candle { device, precision }),
                Err(error) if choice == Choice::Auto => match backend.check(precision) {
                    Ok(()) => {
                        tracing::info!("no CUDA device answers ({error}): models run on the CPU");
                        on_cpu()
                    }
                    Err(problem) => Err(refuse(format!("no CUDA device answers ({error}), and {problem}"))),
                },
                Err(error) => Err(refuse(format!("does not answer: {error}"))),
            }
        };
        let devices: Vec<Self> = Choice::parse(text, precision, backend)?
            .into_iter()
            .map(one)
            .collect::<Result<_, _>>()?;
        let kinds: Vec<String> = devices.iter().map(Self::kind).collect();
        match kinds.windows(2).find(|pair| pair[0] != pair[1]) {
            Some(pair) => Err(refuse(format!(
                "a {} and a {} round differently, so vectors would differ by who made them; give GPUs of one model",
                pair[0], pair[1]
            ))),
            None => Ok(devices),
        }
    }

    /// The arithmetic.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Cpu => Precision::F32,
            Self::CpuRounded(Rounding::Bf16) => Precision::Bf16,
            Self::CpuRounded(Rounding::Int8) => Precision::Int8,
            Self::Candle { precision, .. } => *precision,
        }
    }

    /// The kind of processor and code that determines the bits of a vector: `cpu` for our kernels,
    /// `candle-cpu`, or a GPU's model name. It is part of the key of the vector cache.
    pub fn kind(&self) -> String {
        #[cfg(feature = "cuda")]
        if let Self::Candle { device, .. } = self
            && let Ok(cuda) = device.as_cuda_device()
            && let Ok(name) = cuda.cuda_stream().context().name()
        {
            return format!("cuda {name}");
        }
        match self {
            Self::Candle {
                device: candle_core::Device::Cpu,
                ..
            } => "candle-cpu".into(),
            _ => self.name(),
        }
    }

    /// Returns a GPU's free memory, except `kept` bytes, to its driver.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))]
    pub(crate) fn trim(&self, kept: u64) {
        #[cfg(feature = "cuda")]
        if let Self::Candle { device, .. } = self
            && let Ok(cuda) = device.as_cuda_device()
            && let Err(error) = memory::trim(cuda, kept)
        {
            tracing::warn!(device = self.name(), "free memory could not be returned: {error}");
        }
    }

    /// Bytes in a GPU's memory pool, in use or free.
    pub(crate) fn reserved(&self) -> Option<u64> {
        #[cfg(feature = "cuda")]
        if let Self::Candle { device, .. } = self
            && let Ok(cuda) = device.as_cuda_device()
        {
            return memory::reserved(cuda).ok();
        }
        None
    }

    /// Whether our own kernels compute on the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu | Self::CpuRounded(_))
    }

    /// `kernels` for our own code on the CPU, `candle` for all other code.
    pub fn backend(&self) -> &'static str {
        if self.is_cpu() { "kernels" } else { "candle" }
    }

    /// The instructions of our kernel that computes linear layers; `None` for Candle's code.
    pub fn instructions(&self) -> Option<&'static str> {
        match self {
            Self::Cpu => Some(Kernel::best().name()),
            Self::CpuRounded(Rounding::Bf16) => Some(Bf16Kernel::best().name()),
            Self::CpuRounded(Rounding::Int8) => Some(Int8Kernel::best().name()),
            Self::Candle { .. } => None,
        }
    }

    /// Bytes of a weight in memory. For our kernels it is an upper bound, because embedding tables
    /// stay in `f32`.
    pub fn weight_width(&self) -> u64 {
        match self {
            Self::Candle {
                precision: Precision::F16 | Precision::Bf16,
                ..
            } => 2,
            _ => 4,
        }
    }

    /// `cpu`, `cuda:0`, ….
    pub fn name(&self) -> String {
        match self {
            Self::Cpu | Self::CpuRounded(_) => "cpu".into(),
            Self::Candle { device, .. } => match device.location() {
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

    use CpuBackend::{Candle, Kernels};

    fn refused(text: &str, precision: Precision) -> String {
        Choice::parse(text, precision, Kernels).unwrap_err().to_string()
    }

    #[test]
    fn the_cpu_computes_in_32_bits_in_bfloat16_or_in_integers() {
        let opened = |precision| Device::open("cpu", precision, Kernels).unwrap();
        let int8 = &opened(Precision::Int8)[0];
        assert_eq!((int8.name().as_str(), int8.precision()), ("cpu", Precision::Int8));
        assert_eq!(opened(Precision::F32)[0].precision(), Precision::F32);
        let bf16 = &opened(Precision::Bf16)[0];
        assert_eq!((bf16.backend(), bf16.precision()), ("kernels", Precision::Bf16));
        let error = refused("cpu", Precision::F16);
        assert!(
            error.contains("on the CPU give precision `f32`, `bf16` or `int8`"),
            "{error}"
        );
        // Only the CPU supports integers, so `auto` means the CPU.
        assert!(Device::open("auto", Precision::Int8, Kernels).unwrap()[0].is_cpu());
    }

    #[test]
    fn candle_computes_on_the_cpu_in_all_but_integers() {
        for precision in [Precision::F32, Precision::F16, Precision::Bf16] {
            let opened = &Device::open("cpu", precision, Candle).unwrap()[0];
            assert_eq!((opened.backend(), opened.precision()), ("candle", precision));
            // This kind differs from that of our kernels, so that a cache holds the vectors of only
            // one of them.
            assert_eq!((opened.name(), opened.kind()), ("cpu".into(), "candle-cpu".into()));
        }
        for device in ["cpu", "auto"] {
            let error = Choice::parse(device, Precision::Int8, Candle).unwrap_err().to_string();
            assert!(error.contains("give backend `kernels`"), "{error}");
        }
        let kernels = &Device::open("cpu", Precision::F32, Kernels).unwrap()[0];
        assert_eq!((kernels.backend(), kernels.kind()), ("kernels", "cpu".into()));
    }

    #[test]
    fn devices_that_do_not_go_together_are_refused() {
        for (text, word) in [
            ("gpu", "`gpu` is unknown"),
            ("cuda:x", "`cuda:x` is unknown"),
            ("", "`` is unknown"),
            ("cpu,cpu", "named twice"),
            ("cuda:1,cuda:1", "named twice"),
            ("cpu,cuda:0", "only GPUs of one kind"),
            ("auto,cuda:1", "only GPUs of one kind"),
        ] {
            let error = refused(text, Precision::F32);
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_build_without_cuda_says_how_to_get_one() {
        assert!(Device::open("auto", Precision::F32, Kernels).unwrap()[0].is_cpu());
        let error = refused("cuda:0,cuda:1", Precision::F32);
        assert!(error.contains("`just cuda`"), "{error}");
        let error = refused("auto", Precision::F16);
        assert!(error.contains("this build has no CUDA"), "{error}");
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn several_gpus_are_read_in_order_and_integers_are_not_for_them() {
        let choices = Choice::parse("cuda:1, cuda:0", Precision::Bf16, Kernels).unwrap();
        assert_eq!(choices, [Choice::Cuda(1), Choice::Cuda(0)]);
        assert!(refused("cuda:0", Precision::Int8).contains("give device `cpu`"));
    }
}
