//! Sparse vectors in pgvector's type `sparsevec`, whose indices begin at 1.

use std::fmt::Write as _;

use isomer_proto::encoder::v1::SparseVector;

use super::{COLUMNS, Row};
use crate::error::{IndexError, Result};

/// Maximum number of entries of a `sparsevec`.
const MOST_ENTRIES: usize = 16_000;

/// The statement that writes rows; with sparse vectors, its seventh parameter has their texts.
pub(super) fn insert(table: &str, with_sparse: bool) -> String {
    let also = |text: &'static str| if with_sparse { text } else { "" };
    format!(
        "INSERT INTO {table} ({COLUMNS}{}) SELECT k, d, g, t, p::jsonb, v::vector{} FROM unnest($1::text[], $2::text[], \
         $3::text[], $4::text[], $5::text[], $6::text[]{}) AS r(k, d, g, t, p, v{}) ON CONFLICT (key) DO UPDATE SET \
         document = excluded.document, digest = excluded.digest, text = excluded.text, payload = excluded.payload, \
         embedding = excluded.embedding{}",
        also(", sparse"),
        also(", s::sparsevec"),
        also(", $7::text[]"),
        also(", s"),
        also(", sparse = excluded.sparse"),
    )
}

/// The sparse vectors of rows, in pgvector's notation.
///
/// # Errors
/// If a vector does not fit the type.
pub(super) fn texts(rows: &[Row], doing: &str, dimensions: u32) -> Result<Vec<Option<String>>> {
    let one = |row: &Row| match &row.additional.sparse {
        None => Ok(None),
        Some(vector) if vector.indices.len() > MOST_ENTRIES => Err(IndexError::Refused {
            doing: format!("{doing}, row `{}`", row.key.escape_debug()),
            message: format!(
                "its sparse vector has {} entries, and pgvector's sparsevec has at most {MOST_ENTRIES}",
                vector.indices.len()
            ),
        }),
        Some(vector) => Ok(Some(text(vector, dimensions))),
    };
    rows.iter().map(one).collect()
}

/// `{INDEX:VALUE,…}/DIMENSIONS`, with the shortest decimals of the same 32-bit floats.
fn text(SparseVector { indices, values }: &SparseVector, dimensions: u32) -> String {
    let mut text = String::with_capacity(indices.len() * 20 + 16);
    text.push('{');
    for (number, (index, value)) in indices.iter().zip(values).enumerate() {
        let comma = if number > 0 { "," } else { "" };
        // Writing to a String does not fail.
        let _ = write!(text, "{comma}{}:{value:e}", u64::from(*index) + 1);
    }
    let _ = write!(text, "}}/{dimensions}");
    text
}

/// A vector in pgvector's notation.
pub(super) fn read(text: &str) -> Option<SparseVector> {
    let (entries, _) = text.strip_prefix('{')?.split_once('}')?;
    let mut vector = SparseVector::default();
    for entry in entries.split(',').filter(|entry| !entry.is_empty()) {
        let (index, value) = entry.split_once(':')?;
        vector.indices.push(index.parse::<u32>().ok()?.checked_sub(1)?);
        vector.values.push(value.parse().ok()?);
    }
    Some(vector)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_sparse_vector_comes_back_to_the_bit() {
        let vector = SparseVector {
            indices: vec![0, 7, 30_521],
            values: vec![0.1, f32::MIN_POSITIVE, 3.0],
        };
        let written = text(&vector, 30_522);
        assert!(
            written.starts_with("{1:1e-1,8:") && written.ends_with("/30522"),
            "{written}"
        );
        assert_eq!(read(&written).unwrap(), vector);
        assert_eq!(
            read(&text(&SparseVector::default(), 5)).unwrap(),
            SparseVector::default()
        );
        assert_eq!(read("[1,2]"), None);
    }
}
