//! Products of linear layers by cublasLt, with bias and residual in the same launch.

use std::{collections::HashMap, ffi::c_void, sync::Arc};

use candle_core::{
    DType, Error, Result, Tensor,
    cuda_backend::{
        WrapErr,
        cudarc::{
            cublas::sys::cublasOperation_t::CUBLAS_OP_T,
            cublaslt::{result as lt, sys},
            driver::{CudaSlice, CudaStream, DevicePtr},
        },
    },
};
use parking_lot::Mutex;

use super::{super::Linear, Address, address, optional};

/// Workspace in bytes: the size that the library's documentation recommends for this generation.
const WORKSPACE: usize = 32 << 20;
/// Number of rows for which the algorithm of a product is chosen.
const USUAL_ROWS: u64 = 8192;

/// The library on one stream.
pub(super) struct Products {
    stream: Arc<CudaStream>,
    handle: Handle,
    workspace: CudaSlice<u8>,
    algorithms: Mutex<HashMap<Product, sys::cublasLtMatmulAlgo_t>>,
}

/// The library's handle.
struct Handle(sys::cublasLtHandle_t);

// SAFETY: the library permits concurrent use of one handle by several threads.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle was created by `Products::new` and is not used again.
        let _ = unsafe { lt::destroy_handle(self.0) };
    }
}

/// The kind of a product: all products of a kind use the same algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Product {
    dtype: DType,
    outputs: u64,
    inputs: u64,
    bias: bool,
    residual: bool,
}

/// Addresses of the matrices of a product, and its rows. Absent matrices have address 0.
#[derive(Clone, Copy)]
struct Operands {
    rows: u64,
    x: Address,
    weight: Address,
    bias: Address,
    residual: Address,
    out: Address,
}

/// An object of the library that is destroyed when dropped.
struct OwnedHandle<T: Copy>(T, unsafe fn(T) -> std::result::Result<(), lt::CublasError>);

impl<T: Copy> Drop for OwnedHandle<T> {
    fn drop(&mut self) {
        // SAFETY: created by the constructor that matches this destructor, and not used again.
        let _ = unsafe { self.1(self.0) };
    }
}

impl Products {
    pub(super) fn new(stream: Arc<CudaStream>) -> Result<Self> {
        Ok(Self {
            handle: Handle(lt::create_handle().map_err(Error::wrap)?),
            // SAFETY: only cublasLt uses this memory, and it does not expect initialised values.
            workspace: unsafe { stream.alloc::<u8>(WORKSPACE) }.w()?,
            algorithms: Mutex::default(),
            stream,
        })
    }

    /// `out = x · Wᵀ + b + residual`.
    pub(super) fn product(&self, x: &Tensor, layer: &Linear, residual: Option<&Tensor>, out: &Tensor) -> Result<()> {
        let (outputs, inputs) = layer.weight.dims2()?;
        let kind = Product {
            dtype: x.dtype(),
            outputs: outputs as u64,
            inputs: inputs as u64,
            bias: layer.bias.is_some(),
            residual: residual.is_some(),
        };
        let operands = Operands {
            rows: x.dim(0)? as u64,
            x: address(x)?,
            weight: address(&layer.weight)?,
            bias: optional(layer.bias.as_ref())?,
            residual: optional(residual)?,
            out: address(out)?,
        };
        self.multiply(kind, operands).map_err(|error| {
            Error::Msg(format!(
                "the product of {} x {inputs} x {outputs} values failed: {error}",
                operands.rows
            ))
        })
    }

    fn multiply(&self, kind: Product, operands: Operands) -> std::result::Result<(), lt::CublasError> {
        use sys::{
            cublasComputeType_t::CUBLAS_COMPUTE_32F, cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            cublasLtMatmulDescAttributes_t as Attribute, cudaDataType_t as Type,
        };
        fn set<T>(
            description: &OwnedHandle<sys::cublasLtMatmulDesc_t>,
            attribute: Attribute,
            value: T,
        ) -> std::result::Result<(), lt::CublasError> {
            let value = (&raw const value).cast::<c_void>();
            // SAFETY: the attribute is of type `T` in the library's documentation.
            unsafe { lt::set_matmul_desc_attribute(description.0, attribute, value, size_of::<T>()) }
        }
        let numbers = match kind.dtype {
            DType::F16 => Type::CUDA_R_16F,
            DType::BF16 => Type::CUDA_R_16BF,
            _ => Type::CUDA_R_32F,
        };
        let description = OwnedHandle(
            lt::create_matmul_desc(CUBLAS_COMPUTE_32F, Type::CUDA_R_32F)?,
            lt::destroy_matmul_desc,
        );
        set(&description, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T)?;
        if kind.bias {
            set(
                &description,
                Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE,
                CUBLASLT_EPILOGUE_BIAS,
            )?;
            set(
                &description,
                Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                operands.bias,
            )?;
        }
        // The library is column-major, so our rows are its columns.
        let matrix = |columns: u64, rows: u64| {
            let pitch = i64::try_from(columns).unwrap_or(i64::MAX);
            Ok::<_, lt::CublasError>(OwnedHandle(
                lt::create_matrix_layout(numbers, columns, rows, pitch)?,
                lt::destroy_matrix_layout,
            ))
        };
        let weights = matrix(kind.inputs, kind.outputs)?;
        let algorithm = {
            let mut chosen = self.algorithms.lock();
            match chosen.get(&kind) {
                Some(known) => *known,
                None => {
                    let (x, out) = (matrix(kind.inputs, USUAL_ROWS)?, matrix(kind.outputs, USUAL_ROWS)?);
                    let found = Self::choose(self.handle.0, &description, [&weights, &x, &out])?;
                    *chosen.entry(kind).or_insert(found)
                }
            }
        };
        let (inputs, outputs) = (
            matrix(kind.inputs, operands.rows)?,
            matrix(kind.outputs, operands.rows)?,
        );
        let (alpha, beta) = (1.0f32, if kind.residual { 1.0f32 } else { 0.0 });
        let added = if kind.residual { operands.residual } else { operands.out };
        // SAFETY: the addresses are those of tensors of these shapes that live until the work is
        // queued, and are freed on the same stream; the workspace is used on this stream alone.
        unsafe {
            lt::matmul(
                self.handle.0,
                description.0,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                operands.weight as *const c_void,
                weights.0,
                operands.x as *const c_void,
                inputs.0,
                added as *const c_void,
                outputs.0,
                operands.out as *mut c_void,
                outputs.0,
                &raw const algorithm,
                self.workspace.device_ptr(&self.stream).0 as *mut c_void,
                WORKSPACE,
                self.stream.cu_stream().cast(),
            )
        }
    }

    /// The library's first choice among the algorithms with a fixed order of summation.
    fn choose(
        handle: sys::cublasLtHandle_t,
        description: &OwnedHandle<sys::cublasLtMatmulDesc_t>,
        [weights, x, out]: [&OwnedHandle<sys::cublasLtMatrixLayout_t>; 3],
    ) -> std::result::Result<sys::cublasLtMatmulAlgo_t, lt::CublasError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = OwnedHandle(lt::create_matmul_pref()?, lt::destroy_matmul_pref);
        let no_reduction = 0u32;
        let workspace = WORKSPACE;
        // SAFETY: the attributes are of these types, and the descriptions live until the end.
        unsafe {
            lt::set_matmul_pref_attribute(
                preference.0,
                Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                (&raw const no_reduction).cast(),
                size_of::<u32>(),
            )?;
            lt::set_matmul_pref_attribute(
                preference.0,
                Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const workspace).cast(),
                size_of::<usize>(),
            )?;
            let found =
                lt::get_matmul_algo_heuristic(handle, description.0, weights.0, x.0, out.0, out.0, preference.0)?;
            Ok(found.algo)
        }
    }
}
