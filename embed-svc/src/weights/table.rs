//! An embedding table whose rows are read when they are first needed.
//!
//! A table is a large part of a small or multilingual model, and a text needs few of its rows.
//! Reading the whole table would slow down the start and cost memory in each replica.

use std::sync::OnceLock;

use super::{Floats, tensor::Tensor};
use crate::error::EmbedError;

/// Number of rows that are read together.
const TOGETHER: usize = 16;
/// Tables with fewer values are read as a whole.
const SMALL: usize = 1 << 20;

/// A table of `rows × width`.
#[derive(Debug)]
pub struct Table {
    rows: usize,
    width: usize,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Held(Floats),
    Read {
        tensor: Tensor,
        blocks: Box<[OnceLock<Box<[f32]>>]>,
    },
}

impl Table {
    /// A table in memory.
    pub fn held(values: Floats, width: usize) -> Self {
        Self {
            rows: values.len() / width.max(1),
            width,
            values: Values::Held(values),
        }
    }

    /// A tensor of this shape.
    pub(super) fn read(tensor: &Tensor, rows: usize, width: usize) -> Result<Self, EmbedError> {
        if rows * width < SMALL {
            return Ok(Self::held(tensor.all()?, width));
        }
        // An unreadable type is reported now rather than with the first text.
        tensor.check_float()?;
        Ok(Self {
            rows,
            width,
            values: Values::Read {
                tensor: tensor.clone(),
                blocks: (0..rows.div_ceil(TOGETHER)).map(|_| OnceLock::new()).collect(),
            },
        })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The width of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// A row, whose index must be within the table.
    ///
    /// # Errors
    /// If its part of the file cannot be read, or was written to since the file was opened.
    pub fn row(&self, row: usize) -> Result<&[f32], EmbedError> {
        let at = |first: usize| (row - first) * self.width..(row - first + 1) * self.width;
        match &self.values {
            Values::Held(values) => Ok(&values[at(0)]),
            Values::Read { tensor, blocks } => {
                let first = row / TOGETHER * TOGETHER;
                let block = &blocks[row / TOGETHER];
                if let Some(values) = block.get() {
                    return Ok(&values[at(first)]);
                }
                let rows = TOGETHER.min(self.rows - first);
                let mut values = vec![0.0; rows * self.width].into_boxed_slice();
                tensor.floats(first * self.width, &mut values)?;
                Ok(&block.get_or_init(|| values)[at(first)])
            }
        }
    }

    /// All rows, in order.
    ///
    /// # Errors
    /// Those of [`Table::row`].
    pub fn all(&self) -> Result<Floats, EmbedError> {
        match &self.values {
            Values::Held(values) => Ok(values.clone()),
            Values::Read { tensor, .. } => tensor.all(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_precision_loss)]
    use std::{fs, io::Write, path::Path};

    use safetensors::{Dtype, serialize_to_file, tensor::TensorView};

    use super::*;
    use crate::weights::Weights;

    const WIDTH: usize = 64;
    /// More than is read as a whole, and not a multiple of the rows that are read together.
    const ROWS: usize = SMALL / WIDTH + TOGETHER + 5;

    /// The values of a row; every row differs.
    fn row(row: usize) -> Vec<f32> {
        (0..WIDTH).map(|column| (row * 3 + column) as f32).collect()
    }

    fn write(folder: &Path, dtype: Dtype, encode: impl Fn(f32) -> Vec<u8>) {
        let bytes: Vec<u8> = (0..ROWS).flat_map(row).flat_map(encode).collect();
        let before = TensorView::new(Dtype::U8, vec![3], &[1, 2, 3]).unwrap();
        let table = TensorView::new(dtype, vec![ROWS, WIDTH], &bytes).unwrap();
        serialize_to_file(
            [("before", before), ("table", table)],
            None,
            &folder.join("model.safetensors"),
        )
        .unwrap();
    }

    fn floats(folder: &Path) {
        write(folder, Dtype::F32, |value| value.to_le_bytes().to_vec());
    }

    fn open(folder: &Path) -> Table {
        Weights::open(folder).unwrap().table("table", ROWS, WIDTH).unwrap()
    }

    #[test]
    fn every_row_is_the_files_in_any_order_and_from_many_threads() {
        let folder = tempfile::tempdir().unwrap();
        floats(folder.path());
        let table = open(folder.path());
        assert_eq!((table.rows(), table.width()), (ROWS, WIDTH));
        for at in [ROWS - 1, 0, 15, 16, 17, 16, ROWS - 6] {
            assert_eq!(table.row(at).unwrap(), row(at), "row {at}");
        }
        std::thread::scope(|scope| {
            for first in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for at in (0..ROWS).skip(first * 7).step_by(3) {
                        assert_eq!(table.row(at).unwrap(), row(at), "row {at}");
                    }
                });
            }
        });
        let all: Vec<f32> = (0..ROWS).flat_map(row).collect();
        assert_eq!(table.all().unwrap()[..], all);
    }

    #[test]
    fn values_of_two_bytes_are_widened() {
        let folder = tempfile::tempdir().unwrap();
        // Whole numbers to 256 are exact in both.
        let small = |value: f32| value % 256.0;
        for (dtype, encode) in [
            (
                Dtype::BF16,
                Box::new(move |value| half::bf16::from_f32(small(value)).to_le_bytes().to_vec())
                    as Box<dyn Fn(f32) -> Vec<u8>>,
            ),
            (
                Dtype::F16,
                Box::new(move |value| half::f16::from_f32(small(value)).to_le_bytes().to_vec()),
            ),
        ] {
            write(folder.path(), dtype, encode);
            let table = open(folder.path());
            for at in [0, 100, ROWS - 1] {
                let expected: Vec<f32> = row(at).into_iter().map(small).collect();
                assert_eq!(table.row(at).unwrap(), expected, "{dtype:?}, row {at}");
            }
        }
        write(folder.path(), Dtype::I32, |value| (value as i32).to_le_bytes().to_vec());
        let error = Weights::open(folder.path()).unwrap().table("table", ROWS, WIDTH);
        assert!(error.unwrap_err().to_string().contains("tensor `table` is I32"));
    }

    #[test]
    fn a_file_that_is_written_to_gives_no_other_rows() {
        let folder = tempfile::tempdir().unwrap();
        floats(folder.path());
        let path = folder.path().join("model.safetensors");
        let table = open(folder.path());
        assert_eq!(table.row(20).unwrap(), row(20));
        // As long as before, so that the size does not show the change.
        let mut bytes = fs::read(&path).unwrap();
        let half = bytes.len() / 2;
        bytes[half..].fill(7);
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(&bytes).unwrap();
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(1))
            .unwrap();
        assert_eq!(table.row(21).unwrap(), row(21), "was read before, with row 20");
        let error = table.row(ROWS - 1).unwrap_err().to_string();
        assert!(
            error.contains("model.safetensors") && error.contains("was written to"),
            "{error}"
        );
        // A file that replaces it is a different file.
        let table = open(folder.path());
        let other = tempfile::tempdir_in(folder.path()).unwrap();
        write(other.path(), Dtype::F32, |_| vec![0; 4]);
        fs::rename(other.path().join("model.safetensors"), &path).unwrap();
        assert_eq!(table.row(3).unwrap(), row(3));
        assert_eq!(open(folder.path()).row(3).unwrap(), [0.0; WIDTH]);
    }
}
