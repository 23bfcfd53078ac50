//! The rows of any file of rows, for callers that interpret its columns themselves.

use std::{fs, path::Path, path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    DatasetError, Unit,
    files::Files,
    format::{self, is_readable},
    rows::Rows,
};

#[derive(Debug, Clone)]
pub struct FileRow {
    /// Its file's name in messages.
    pub file: Arc<str>,
    pub unit: Unit,
    /// Its number in the file, from 1.
    pub number: u64,
    /// Its values by column.
    pub fields: Map<String, Value>,
}

impl FileRow {
    /// An error of the row or of one of its columns.
    pub fn error(&self, field: Option<&str>, problem: impl Into<String>) -> DatasetError {
        DatasetError::Row {
            file: self.file.to_string(),
            unit: self.unit,
            line: self.number,
            field: field.map(str::to_owned),
            problem: problem.into(),
        }
    }
}

/// Passes on the rows of a file, one after another, until `take` returns false. A folder stands for
/// its readable files, in the order of their names. The file name distinguishes JSON lines, CSV,
/// TSV (all three also with gzip) and Parquet; a file with another name is read as JSON lines.
///
/// # Errors
/// If a file cannot be read or does not have the format in its name, or if `take` fails.
pub fn read_rows<E: From<DatasetError>>(
    path: &Path,
    mut take: impl FnMut(FileRow) -> Result<bool, E>,
) -> Result<(), E> {
    for file in files(path)? {
        let files = Files::one(&file, Arc::default());
        let Some(name) = files.single() else { continue };
        let mut rows = Rows::open(&files, &name)?;
        while let Some(row) = rows.next_row()? {
            let row = FileRow {
                file: row.place.file,
                unit: row.place.unit,
                number: row.place.number,
                fields: row.fields,
            };
            if !take(row)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The files that a path stands for.
fn files(path: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let shown = || path.display().to_string();
    if !path.is_dir() {
        return match path.exists() {
            true => Ok(vec![path.to_owned()]),
            false => Err(DatasetError::NotFound { path: shown() }),
        };
    }
    let unreadable = |source| DatasetError::Unreadable { file: shown(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !file.is_dir() && is_readable(&name) {
            found.push(file);
        }
    }
    found.sort();
    if let Some(missing) = missing_shard(&found) {
        return Err(DatasetError::MissingFile {
            place: shown(),
            missing,
            hint: "add it, or name the files one by one".to_owned(),
        });
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(DatasetError::MissingFile {
            place: shown(),
            missing: "a file of rows".to_owned(),
            hint: "files end in .jsonl, .csv, .tsv or .parquet".to_owned(),
        }),
    }
}

/// The first missing shard (`x-00001-of-00003.parquet`) of a table with other shards.
fn missing_shard(files: &[PathBuf]) -> Option<String> {
    let names: Vec<_> = files
        .iter()
        .map(|file| file.file_name().unwrap_or_default().to_string_lossy())
        .collect();
    let shards: Vec<_> = names
        .iter()
        .filter_map(|name| {
            let (stem, shard) = format::stem(name)?;
            Some((stem, shard?))
        })
        .collect();
    shards.iter().find_map(|(stem, shard)| {
        let there = |number| shards.iter().any(|(other, own)| other == stem && own.number == number);
        let number = (0..shard.of).find(|number| !there(*number))?;
        Some(format!("the shard {number} of {} of `{stem}`", shard.of))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(path: &Path) -> Result<Vec<(u64, String)>, DatasetError> {
        let mut rows = Vec::new();
        read_rows(path, |row| {
            rows.push((row.number, row.fields["text"].as_str().unwrap().to_owned()));
            Ok::<_, DatasetError>(true)
        })?;
        Ok(rows)
    }

    #[test]
    fn a_folder_stands_for_its_files_in_order_and_a_row_has_its_place() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.csv"), "id,text\n1,\"three\nlines\nlong\"\n2,x\n").unwrap();
        fs::write(folder.path().join("a.jsonl"), "\n{\"text\": \"first\"}\n").unwrap();
        fs::write(folder.path().join("README.md"), "no rows").unwrap();
        let rows = read(folder.path()).unwrap();
        let expected = [(2, "first"), (2, "three\nlines\nlong"), (5, "x")];
        assert_eq!(rows, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn a_missing_file_shard_or_row_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains(".parquet"));
        let missing = read(&folder.path().join("none.jsonl")).unwrap_err();
        assert!(missing.to_string().contains("none.jsonl"), "{missing}");
        for shard in [0, 2] {
            let name = format!("t-0000{shard}-of-00003.jsonl");
            fs::write(folder.path().join(name), "{\"text\": \"a\"}\n").unwrap();
        }
        let missing = read(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("shard 1 of 3 of `t`"), "{missing}");
        let broken = folder.path().join("broken.jsonl");
        fs::write(&broken, "{\"text\": \"a\"}\n{\n").unwrap();
        assert!(read(&broken).unwrap_err().to_string().contains("line 2"));
    }
}
