//! Converts a matrix of word vectors (`.npy`) and the words of its rows (Parquet) into a
//! sentence-transformers `WordEmbeddings` module with a whitespace tokenizer.
//!
//! Row 0 of the module's table belongs to no word and is zero, as in sentence-transformers. Stop
//! words are kept.

use std::{collections::HashMap, path::Path};

use safetensors::{Dtype, tensor::TensorView};
use serde_json::json;

use super::parquet;
use crate::error::ModelError;

/// Name of row 0.
const PADDING: &str = "PADDING_TOKEN";

/// Writes `model.safetensors` and `whitespacetokenizer_config.json` into `into`. Errors refer to
/// the two files as `names`.
///
/// # Errors
/// If a file is invalid or has an unsupported format, or the numbers of words and rows differ.
pub(super) fn write((matrix, words): (&[u8], &[u8]), names: (&str, &str), into: &Path) -> Result<(), ModelError> {
    let archive = |name: &str, message: String| ModelError::archive(Path::new(name), message);
    let (rows, cols, values) = npy(matrix).map_err(|error| archive(names.0, error))?;
    let words = parquet::strings(words).map_err(|error| archive(names.1, error))?;
    if words.len() != rows {
        let message = format!("{} words for {rows} rows of {}", words.len(), names.0);
        return Err(archive(names.1, message));
    }
    let mut bytes = vec![0; cols * 4];
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    let file = into.join("model.safetensors");
    let written = TensorView::new(Dtype::F32, vec![rows + 1, cols], &bytes).and_then(|view| {
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize_to_file([("emb_layer.weight", view)], Some(metadata), &file)
    });
    written.map_err(|error| archive(names.0, format!("writing {}: {error}", file.display())))?;
    let mut vocabulary = vec![PADDING.to_owned()];
    vocabulary.extend(words);
    let config = json!({"vocab": vocabulary, "stop_words": [], "do_lower_case": false});
    let file = into.join("whitespacetokenizer_config.json");
    std::fs::write(&file, config.to_string()).map_err(ModelError::io("writing", &file))
}

/// Rows, columns and values (row by row) of a little-endian f32 matrix in numpy's format 1.0 or
/// 2.0, in either order.
pub(crate) fn npy(data: &[u8]) -> Result<(usize, usize, Vec<f32>), String> {
    const BAD: &str = "it is not a sound .npy file";
    let rest = data.strip_prefix(b"\x93NUMPY").ok_or(BAD)?;
    let (header, body) = match rest {
        [1, 0, a, b, rest @ ..] => rest.split_at_checked(usize::from(u16::from_le_bytes([*a, *b]))),
        [2, 0, a, b, c, d, rest @ ..] => rest.split_at_checked(u32::from_le_bytes([*a, *b, *c, *d]) as usize),
        _ => None,
    }
    .ok_or(BAD)?;
    let header = std::str::from_utf8(header).map_err(|_| BAD)?;
    if !header.contains("'<f4'") {
        return Err("its elements are not little-endian float32".into());
    }
    let by_columns = header.contains("'fortran_order': True");
    let shape: Vec<usize> = header
        .split_once("'shape': (")
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(shape, _)| shape.split(',').filter_map(|n| n.trim().parse().ok()).collect())
        .ok_or(BAD)?;
    let &[rows, cols] = shape.as_slice() else {
        return Err(format!("its shape is {shape:?}, expected a matrix"));
    };
    // If one side were 0, the other could have any length.
    if rows == 0 || cols == 0 {
        return Err(format!("its shape is {shape:?}: it holds no values"));
    }
    if rows.checked_mul(cols).and_then(|n| n.checked_mul(4)) != Some(body.len()) {
        return Err("it is truncated".into());
    }
    let value = |place: usize| {
        let at = 4 * place;
        f32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]])
    };
    let place = |row: usize, col: usize| if by_columns { col * rows + row } else { row * cols + col };
    let values = (0..rows).flat_map(|row| (0..cols).map(move |col| value(place(row, col))));
    Ok((rows, cols, values.collect()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn file(order: &str, values: [f32; 6]) -> Vec<u8> {
        let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': (2, 3), }}\n");
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        file
    }

    #[test]
    fn both_orders_of_a_matrix_are_read() {
        let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(npy(&file("False", rows)).unwrap(), (2, 3, rows.to_vec()));
        let columns = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
        assert_eq!(npy(&file("True", columns)).unwrap(), (2, 3, rows.to_vec()));
        for shape in ["(0, 9223372036854775807)", "(9223372036854775807, 0)", "(0, 0)"] {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
            let mut empty = b"\x93NUMPY\x01\x00".to_vec();
            empty.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
            empty.extend(header.as_bytes());
            assert!(npy(&empty).is_err(), "{shape}");
        }
        let whole = file("True", columns);
        for cut in 0..whole.len() {
            assert!(npy(&whole[..cut]).is_err());
        }
    }
}
