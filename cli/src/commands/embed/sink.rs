//! Output of vectors: lines on standard output, or a matrix file.

use std::{io::Write, path::Path};

use isomer_encoder_client::answer::ExpectedAnswer;
use isomer_proto::{common::v1::Matrix, encoder::v1::EncodeResponse};
use serde_json::json;

use super::{
    matrix::{form, values},
    results,
};
use crate::{commands::stdout_failure, exit::Failure, npy};

/// The output of vectors.
pub(crate) enum Sink<'a> {
    Lines,
    /// Lines with all of these results of a text.
    Results(ExpectedAnswer),
    Matrix {
        path: &'a Path,
        writer: Option<npy::Writer>,
    },
}

impl<'a> Sink<'a> {
    pub(crate) fn open(output: Option<&'a Path>) -> Self {
        match output {
            Some(path) => Self::Matrix { path, writer: None },
            None => Self::Lines,
        }
    }

    pub(crate) fn write(&mut self, first: usize, response: &EncodeResponse) -> Result<(), Failure> {
        if let Some(error) = response.errors.first() {
            return Err(Failure::dependency(format!(
                "text {}: {}",
                first + error.index as usize + 1,
                error.message
            )));
        }
        let matrix = || {
            let matrix = response.embeddings.as_ref();
            matrix.ok_or_else(|| Failure::dependency("the encoder answered without vectors"))
        };
        match self {
            Self::Results(expected) => {
                let inputs = response.token_counts.len();
                results::lines(first, response, ExpectedAnswer { inputs, ..*expected })
            }
            Self::Lines => lines(first, response, matrix()?),
            Self::Matrix { path, writer } => {
                let matrix = matrix()?;
                let io_failure =
                    |e: std::io::Error| Failure::dependency(format!("cannot write {}: {e}", path.display()));
                if writer.is_none() {
                    let (cols, element) = form(matrix)?;
                    *writer = Some(npy::Writer::create(path, cols, element).map_err(io_failure)?);
                }
                let Some(writer) = writer else { return Ok(()) };
                let before = writer.rows();
                writer.append(matrix.rows as usize, &matrix.data).map_err(io_failure)?;
                rows_of_texts(first, before, response)
            }
        }
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Matrix {
                path,
                writer: Some(writer),
            } => writer
                .finish()
                .map_err(|e| Failure::dependency(format!("cannot write {}: {e}", path.display()))),
            _ => Ok(()),
        }
    }
}

/// The rows of the matrix file that belong to each text, if a text has several.
fn rows_of_texts(first: usize, before: usize, response: &EncodeResponse) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut row = before;
    for (offset, rows) in response.row_counts.iter().enumerate() {
        let line = json!({
            "index": first + offset,
            "tokens": response.token_counts.get(offset),
            "truncated": response.truncated.get(offset),
            "first_row": row,
            "rows": rows,
        });
        row += *rows as usize;
        writeln!(out, "{line}").map_err(|e| stdout_failure(&e))?;
    }
    out.flush().map_err(|e| stdout_failure(&e))
}

fn lines(first: usize, response: &EncodeResponse, matrix: &Matrix) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let (cols, element) = form(matrix)?;
    let mut rows = matrix.data.chunks_exact((cols * element.bytes()).max(1));
    for offset in 0..response.token_counts.len() {
        let (name, embedding) = match response.row_counts.get(offset) {
            Some(count) => {
                let vectors = rows.by_ref().take(*count as usize);
                ("embeddings", vectors.map(|row| values(row, element)).collect())
            }
            None => match rows.next() {
                Some(row) => ("embedding", values(row, element)),
                None => return Err(Failure::dependency("the encoder answered fewer vectors than texts")),
            },
        };
        let line = json!({
            "index": first + offset,
            "tokens": response.token_counts.get(offset),
            "truncated": response.truncated.get(offset),
            (name): embedding,
        });
        writeln!(out, "{line}").map_err(|e| stdout_failure(&e))?;
    }
    out.flush().map_err(|e| stdout_failure(&e))
}
