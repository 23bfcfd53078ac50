//! Entry points for the fuzz targets of `tests/fuzz` into readers that are private to this crate.
//! Not part of the crate's interface.

use std::path::Path;

use crate::{assemble, folder, hub};

/// Reads the string column of a Parquet file.
///
/// # Errors
/// The reader's errors.
pub fn parquet_words(file: &[u8]) -> Result<Vec<String>, String> {
    assemble::parquet::strings(file)
}

/// Reads a matrix in numpy's format: rows, columns, values.
///
/// # Errors
/// The reader's errors.
pub fn npy(file: &[u8]) -> Result<(usize, usize, Vec<f32>), String> {
    assemble::word_vectors::npy(file)
}

/// Reads the header of a safetensors file: the names of its tensors with their shapes.
///
/// # Errors
/// The reader's errors, as text.
pub fn safetensors_header(path: &Path) -> Result<Vec<(String, Vec<u64>)>, String> {
    let header = folder::read_safetensors_header(path).map_err(|error| error.to_string())?;
    Ok(header
        .tensors
        .into_iter()
        .map(|(name, tensor)| (name, tensor.shape))
        .collect())
}

/// Whether a hub may list a file of this name.
pub fn is_listable(name: &str) -> bool {
    hub::may_list(&[name.to_owned()])
}

/// Whether an etag from a hub is accepted.
pub fn is_etag(name: &str) -> bool {
    hub::is_etag(name)
}

/// Whether the name may become part of a path.
pub fn is_plain_name(name: &str) -> bool {
    isomer_config::spelling::is_plain_name(name)
}
