//! An NVIDIA GPU: our own kernels (`cuda/kernels.cu`) and the products of cublasLt.
//!
//! Each row of a result is computed in an order that does not depend on the other rows: our kernels
//! are written that way, and a product uses one algorithm for any number of rows. So a text's
//! vector has the same bits in any batch.

mod attend;
mod product;

use std::{collections::HashMap, sync::Arc};

use candle_core::{
    CudaDevice, DType, Error, Result, Storage, Tensor,
    cuda_backend::{
        CudaStorageSlice, WrapErr,
        cudarc::{
            driver::{
                CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg,
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            },
            nvrtc::Ptx,
        },
    },
};
use parking_lot::Mutex;

use product::Products;

use super::{Activation, Linear, Norm, plan::Plan};
use crate::batch::Sums;

/// Machine code of `cuda/kernels.cu`.
const KERNELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.cubin"));
/// Dynamic shared memory that every kernel has by default.
const FREE_SHARED: usize = 48 << 10;

/// A GPU with its loaded modules.
pub(super) struct Gpu {
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    functions: Mutex<HashMap<String, CudaFunction>>,
    dtype: DType,
    products: Products,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("dtype", &self.dtype)
            .finish_non_exhaustive()
    }
}

macro_rules! arguments {
    ($($(#[$doc:meta])* struct $name:ident ($bytes:literal) { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        struct $name { $($field: $type),* }
        // `cuda/kernels.cu` asserts the same size.
        const _: () = assert!(size_of::<$name>() == $bytes);
        // SAFETY: plain numbers and device addresses, with the layout in `cuda/kernels.cu`.
        unsafe impl DeviceRepr for $name {}
    )*};
}

use arguments;

/// An address on the device; 0 is null.
type Address = u64;

// These structs match those in `cuda/kernels.cu`.
arguments! {
    struct NormArgs (80) {
        x: Address, out: Address, gamma: Address, beta: Address, stride: i64, first: i64, rows: i64, parts: i32,
        columns: i32, threads: i32, rms: i32, eps: f32,
    }
    struct ActivateArgs (32) { x: Address, up: Address, count: i64, kind: i32 }
    struct GatherArgs (32) { table: Address, out: Address, rows: Address, columns: i32, add: i32 }
    struct PoolArgs (40) { x: Address, weights: Address, out: Address, offsets: Address, count: i32, columns: i32 }
}

/// The grid and blocks of a launch.
#[derive(Clone, Copy)]
struct Launch {
    grid: (usize, usize),
    threads: usize,
    shared: usize,
}

fn count<T: TryFrom<usize>>(value: usize) -> Result<T> {
    T::try_from(value).map_err(|_| {
        Error::Msg(format!(
            "{value} is too large for one launch: lower embed.max_batch_tokens"
        ))
    })
}

/// The device address of a contiguous tensor.
fn address(tensor: &Tensor) -> Result<Address> {
    fn of<T>(slice: &CudaSlice<T>, stream: &CudaStream, first: usize) -> Address {
        slice.device_ptr(stream).0 + (first * size_of::<T>()) as u64
    }
    let (storage, layout) = tensor.storage_and_layout();
    let (Storage::Cuda(storage), true) = (&*storage, layout.is_contiguous()) else {
        return Err(Error::Msg("internal: not a contiguous tensor on a GPU".into()));
    };
    let (stream, first) = (storage.device.cuda_stream(), layout.start_offset());
    Ok(match &storage.slice {
        CudaStorageSlice::F32(slice) => of(slice, &stream, first),
        CudaStorageSlice::F16(slice) => of(slice, &stream, first),
        CudaStorageSlice::BF16(slice) => of(slice, &stream, first),
        CudaStorageSlice::U32(slice) => of(slice, &stream, first),
        _ => return Err(Error::Msg("internal: not a type of our kernels".into())),
    })
}

fn optional(tensor: Option<&Tensor>) -> Result<Address> {
    tensor.map_or(Ok(0), address)
}

/// A tensor whose values a kernel will write.
fn unwritten(shape: (usize, usize), dtype: DType, device: &candle_core::Device) -> Result<Tensor> {
    // SAFETY: each caller launches a kernel that writes every value before it is read.
    unsafe { Tensor::empty(shape, dtype, device) }
}

impl Gpu {
    /// Loads the kernels.
    pub(super) fn new(device: &CudaDevice, dtype: DType) -> Result<Self> {
        let stream = device.cuda_stream();
        Ok(Self {
            module: stream.context().load_module(Ptx::from_binary(KERNELS.to_vec())).w()?,
            functions: Mutex::default(),
            dtype,
            products: Products::new(stream.clone())?,
            stream,
        })
    }

    fn launch<A: DeviceRepr>(&self, name: &str, how: Launch, arguments: &A) -> Result<()> {
        let config = LaunchConfig {
            grid_dim: (
                count::<i32>(how.grid.0)?.unsigned_abs(),
                count::<u16>(how.grid.1)?.into(),
                1,
            ),
            block_dim: (count(how.threads)?, 1, 1),
            shared_mem_bytes: count(how.shared)?,
        };
        let mut functions = self.functions.lock();
        if !functions.contains_key(name) {
            let function = self.module.load_function(name).w()?;
            if how.shared > FREE_SHARED {
                let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                function.set_attribute(attribute, count(how.shared)?).w()?;
            }
            functions.insert(name.to_owned(), function);
        }
        let mut launch = self.stream.launch_builder(&functions[name]);
        launch.arg(arguments);
        // SAFETY: the arguments have the layout that the kernel of this name expects, and addresses
        // of tensors that live until the launch is queued; they are freed on the same stream.
        unsafe { launch.launch(config) }.w()?;
        Ok(())
    }

    /// The name of a kernel for this element type.
    fn named(&self, kernel: &str) -> String {
        format!("{kernel}_{}", self.dtype.as_str())
    }

    /// Normalises `parts` rows of each token in place or from one tensor to another.
    fn norm(&self, x: &Tensor, out: &Tensor, norm: &Norm, first: usize, parts: usize) -> Result<()> {
        let (tokens, stride) = x.dims2()?;
        let columns = norm.gamma.elem_count();
        if columns > 32_768 {
            return Err(Error::Msg(format!(
                "rows of {columns} values cannot be normalised; at most 32768 can"
            )));
        }
        // A thread processes 32 values; four rows of one warp each share a block.
        let (rows, threads) = (tokens * parts, columns.div_ceil(32).next_multiple_of(32));
        let together = if threads == 32 { 4 } else { 1 };
        let how = Launch {
            grid: (rows.div_ceil(together), 1),
            threads: threads * together,
            shared: 0,
        };
        let arguments = NormArgs {
            x: address(x)?,
            out: address(out)?,
            gamma: address(&norm.gamma)?,
            beta: optional(norm.beta.as_ref())?,
            stride: count(stride)?,
            first: count(first)?,
            rows: count(rows)?,
            parts: count(parts)?,
            columns: count(columns)?,
            threads: count(threads)?,
            rms: i32::from(norm.beta.is_none()),
            eps: norm.eps,
        };
        self.launch(&self.named("norm"), how, &arguments)
    }

    /// Normalisation of each row, in place.
    pub(super) fn normalise(&self, x: Tensor, norm: &Norm) -> Result<Tensor> {
        self.norm(&x, &x, norm, 0, 1)?;
        Ok(x)
    }

    /// Normalisation of each row into a new tensor.
    pub(super) fn normalised(&self, x: &Tensor, norm: &Norm) -> Result<Tensor> {
        let out = unwritten(x.dims2()?, x.dtype(), x.device())?;
        self.norm(x, &out, norm, 0, 1)?;
        Ok(out)
    }

    /// Rows of a table, added to `sum` in place if there is one.
    pub(super) fn gather(&self, table: &Tensor, rows: &Tensor, sum: Option<Tensor>) -> Result<Tensor> {
        let (found, columns) = (rows.dim(0)?, table.dim(1)?);
        let add = i32::from(sum.is_some());
        let out = sum.map_or_else(|| unwritten((found, columns), table.dtype(), table.device()), Ok)?;
        let how = Launch {
            grid: (found, 1),
            threads: 128,
            shared: 0,
        };
        let arguments = GatherArgs {
            table: address(table)?,
            out: address(&out)?,
            rows: address(rows)?,
            columns: count(columns)?,
            add,
        };
        self.launch(&self.named("gather"), how, &arguments)?;
        Ok(out)
    }

    /// `activation(x) · up` in place.
    fn activate(&self, x: &Tensor, up: Option<&Tensor>, activation: Activation) -> Result<()> {
        let values = x.elem_count();
        let how = Launch {
            grid: (values.div_ceil(8 * 256), 1),
            threads: 256,
            shared: 0,
        };
        let arguments = ActivateArgs {
            x: address(x)?,
            up: optional(up)?,
            count: count(values)?,
            kind: match activation {
                Activation::Identity => 0,
                Activation::Gelu => 1,
                Activation::GeluTanh => 2,
                Activation::Relu => 3,
                Activation::Silu => 4,
                Activation::Tanh => 5,
            },
        };
        self.launch(&self.named("activate"), how, &arguments)
    }

    /// `activation(x · Wᵀ + b) + residual`.
    pub(super) fn apply(
        &self,
        x: &Tensor,
        layer: &Linear,
        activation: Activation,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let out = unwritten((x.dim(0)?, layer.weight.dim(0)?), x.dtype(), x.device())?;
        if activation == Activation::Identity {
            self.products.product(x, layer, residual, &out)?;
            return Ok(out);
        }
        self.products.product(x, layer, None, &out)?;
        self.activate(&out, None, activation)?;
        match residual {
            Some(residual) => out + residual,
            None => Ok(out),
        }
    }

    /// `activation(gate(x)) · up(x)`.
    pub(super) fn gated(&self, x: &Tensor, gate: &Linear, up: &Linear, activation: Activation) -> Result<Tensor> {
        let out = self.apply(x, gate, Activation::Identity, None)?;
        let up = self.apply(x, up, Activation::Identity, None)?;
        self.activate(&out, Some(&up), activation)?;
        Ok(out)
    }

    /// The weighted sums of each text's rows in `f32`, text by text.
    pub(super) fn pool(&self, x: &Tensor, plan: &Plan, wanted: &Sums) -> Result<Tensor> {
        let (_, columns) = x.dims2()?;
        let sums = plan.ranges().len() * wanted.count;
        let weights = Tensor::from_slice(&wanted.weights, wanted.weights.len(), x.device())?;
        let offsets = plan.offsets()?;
        let out = unwritten((sums, columns), DType::F32, x.device())?;
        let launch = Launch {
            grid: (sums, columns.div_ceil(256)),
            threads: 256,
            shared: 0,
        };
        let arguments = PoolArgs {
            x: address(x)?,
            weights: address(&weights)?,
            out: address(&out)?,
            offsets: address(&offsets)?,
            count: count(wanted.count)?,
            columns: count(columns)?,
        };
        self.launch(&self.named("pool"), launch, &arguments)?;
        Ok(out)
    }
}
