//! One Parquet file of rows.

use std::{
    fs::{self, File},
    path::Path,
    sync::Arc,
};

use parquet::{
    basic::{Compression, ZstdLevel},
    data_type::{ByteArray, ByteArrayType, FloatType},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        reader::FileReader,
        serialized_reader::SerializedFileReader,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    record::{Field, Row as Record, RowAccessor},
    schema::{parser::parse_message_type, types::ColumnPath},
};
use serde_json::Value;

use super::super::{Row, StoredRow};
use crate::encode::Additional;

/// Name of the mark in the file's own metadata.
const MARK: &str = "isomer_index";
const SCHEMA: &str = "message row { required binary key (STRING); required binary document (STRING); required binary digest \
                      (STRING); optional binary text (STRING); required binary payload (JSON); required group embedding (LIST) \
                      { repeated group list { required float element; } } }";
/// The columns that identify rows.
const KEYS: &str = "message row { required binary key (STRING); required binary document (STRING); required binary digest \
                    (STRING); }";

/// Writes rows into a new file, which exists either completely or not at all.
pub(super) fn write(path: &Path, mark: &str, rows: &[Row]) -> Result<(), ParquetError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // The name begins with a dot and has a different ending from a file of rows, so that readers of
    // the folder skip it.
    let temporary = tempfile::Builder::new()
        .prefix(".writing-")
        .suffix(".tmp")
        .tempfile_in(folder)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_column_dictionary_enabled(
            ColumnPath::from(vec!["embedding".into(), "list".into(), "element".into()]),
            false,
        )
        .set_key_value_metadata(Some(vec![KeyValue::new(MARK.to_owned(), mark.to_owned())]))
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(temporary.as_file().try_clone()?, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for text in [
        (|row| &row.key) as fn(&Row) -> &String,
        |row| &row.document,
        |row| &row.digest,
    ] {
        let values: Vec<ByteArray> = rows.iter().map(|row| text(row).clone().into_bytes().into()).collect();
        bytes(&mut group, &values, None)?;
    }
    let texts: Vec<ByteArray> = rows
        .iter()
        .filter_map(|row| Some(row.text.clone()?.into_bytes().into()))
        .collect();
    let there: Vec<i16> = rows.iter().map(|row| i16::from(row.text.is_some())).collect();
    bytes(&mut group, &texts, Some(&there))?;
    let payloads: Vec<ByteArray> = rows
        .iter()
        .map(|row| Value::Object(row.payload.clone()).to_string().into_bytes().into())
        .collect();
    bytes(&mut group, &payloads, None)?;
    let values: Vec<f32> = rows.iter().flat_map(|row| row.vector.iter().copied()).collect();
    let begins = |row: &Row| (0..row.vector.len()).map(|at| i16::from(at > 0)).collect::<Vec<_>>();
    let repeated: Vec<i16> = rows.iter().flat_map(begins).collect();
    let mut column = column(&mut group)?;
    column
        .typed::<FloatType>()
        .write_batch(&values, Some(&vec![1; values.len()]), Some(&repeated))?;
    column.close()?;
    group.close()?;
    writer.close()?;
    temporary.as_file().sync_all()?;
    temporary
        .persist(path)
        .map_err(|error| ParquetError::from(error.error))?;
    Ok(())
}

fn column<'a>(
    group: &'a mut SerializedRowGroupWriter<'_, File>,
) -> Result<parquet::file::writer::SerializedColumnWriter<'a>, ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns than a row".to_owned());
    group.next_column()?.ok_or_else(missing)
}

fn bytes(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[ByteArray],
    there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = column(group)?;
    column.typed::<ByteArrayType>().write_batch(values, there, None)?;
    column.close()
}

/// The mark of a file; `None` if it has none.
pub(super) fn mark(path: &Path) -> Result<Option<String>, ParquetError> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let own = metadata.and_then(|pairs| pairs.iter().find(|pair| pair.key == MARK));
    Ok(own.and_then(|pair| pair.value.clone()))
}

/// The rows of a file without their vectors.
pub(super) fn keys(path: &Path) -> Result<Vec<StoredRow>, ParquetError> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let rows = reader.get_row_iter(Some(parse_message_type(KEYS)?))?;
    rows.map(|row| stored(&row?)).collect()
}

fn stored(row: &Record) -> Result<StoredRow, ParquetError> {
    Ok(StoredRow {
        key: row.get_string(0)?.clone(),
        document: row.get_string(1)?.clone(),
        digest: row.get_string(2)?.clone(),
    })
}

pub(super) fn rows(path: &Path) -> Result<Vec<Row>, ParquetError> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    reader.get_row_iter(None)?.map(|row| whole(&row?)).collect()
}

fn whole(row: &Record) -> Result<Row, ParquetError> {
    let StoredRow { key, document, digest } = stored(row)?;
    let text = match row.get_column_iter().nth(3) {
        Some((_, Field::Str(text))) => Some(text.clone()),
        _ => None,
    };
    let payload = serde_json::from_str(row.get_string(4)?);
    let vector = match row.get_column_iter().nth(5) {
        Some((_, Field::ListInternal(list))) => list.elements().iter().map(|value| match value {
            Field::Float(value) => Ok(*value),
            _ => Err(ParquetError::General(
                "a vector holds a value that is not a number".to_owned(),
            )),
        }),
        _ => return Err(ParquetError::General("a row has no vector".to_owned())),
    };
    Ok(Row {
        additional: Additional::default(),
        key,
        document,
        digest,
        text,
        payload: payload.map_err(|error| ParquetError::General(format!("a payload cannot be read: {error}")))?,
        vector: vector.collect::<Result<_, _>>()?,
    })
}

/// Removes files that killed runs left incomplete.
pub(super) fn remove_half_written(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(".writing-") && name.ends_with(".tmp") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
