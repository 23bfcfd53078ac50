//! The records of [`super::record`] as a Parquet table: one row per entry, one column per field,
//! integers as unsigned 64-bit, compressed with Snappy. Columns are found by name, so a table
//! rewritten by another program is accepted.

use std::{
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use parquet::{
    basic::Compression,
    data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        reader::{FileReader, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    record::{Field, Row},
    schema::parser::parse_message_type,
};
use serde_json::{Map, Value};

use super::{
    Cache, Entry, Key,
    exchange::{ExchangeError, ExportCounts, ImportCounts, of_file, whole_file},
    record::Record,
};

/// The columns, named like the fields of a [`Record`] and in their order.
const SCHEMA: &str = "message isomer_transform_cache {
    required binary key (STRING);
    required binary source (STRING);
    required binary output (STRING);
    required binary transformation (STRING);
    required binary language (STRING);
    required binary generator (STRING);
    required binary generator_key (STRING);
    required binary prompt (STRING);
    required binary prompt_digest (STRING);
    required double temperature;
    required double top_p;
    required int64 max_tokens (INTEGER(64, false));
    required int64 seed (INTEGER(64, false));
    required boolean seeded;
    required int64 prompt_tokens (INTEGER(64, false));
    required int64 generated_tokens (INTEGER(64, false));
    required boolean tokens_estimated;
    required binary digest (STRING);
}";
/// Maximum number of rows held in memory.
const GROUP: usize = 8192;

impl Cache {
    /// Writes all entries as a Parquet table. The file is written completely or not at all.
    ///
    /// # Errors
    /// If the cache or the file cannot be used.
    pub fn export_parquet(&self, path: &Path) -> Result<ExportCounts, ExchangeError> {
        let mut exported = ExportCounts::default();
        whole_file(path, |file| {
            let broken = |error| of_file(path, unwritten(error));
            let schema = parse_message_type(SCHEMA).map_err(broken)?;
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(broken)?;
            let mut rows = Vec::with_capacity(GROUP);
            for record in self.records() {
                match record? {
                    Some(record) if !record.cut => rows.push(record),
                    _ => exported.left_out += 1,
                }
                if rows.len() == GROUP {
                    exported.records += rows.len();
                    write_group(&mut writer, &rows).map_err(broken)?;
                    rows.clear();
                }
            }
            if !rows.is_empty() {
                exported.records += rows.len();
                write_group(&mut writer, &rows).map_err(broken)?;
            }
            writer.close().map_err(broken)?;
            Ok(())
        })?;
        Ok(exported)
    }

    /// Reads entries from a Parquet table.
    ///
    /// # Errors
    /// If the cache or the file cannot be used, or a row is not a cache record; the error names its
    /// number. No record is stored then.
    pub fn import_parquet(&self, path: &Path) -> Result<ImportCounts, ExchangeError> {
        each_row(path, |_, _| Ok(()))?;
        let mut imported = ImportCounts::default();
        each_row(path, |key, entry| self.keep(&mut imported, key, &entry))?;
        Ok(imported)
    }
}

fn unwritten(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => other.into(),
    }
}

fn write_group(writer: &mut SerializedFileWriter<&File>, records: &[Record]) -> Result<(), ParquetError> {
    let rows: Vec<Value> = records
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<_, _>>()
        .map_err(|error| ParquetError::External(Box::new(error)))?;
    let names: Vec<String> = writer
        .schema_descr()
        .columns()
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    let mut group = writer.next_row_group()?;
    for name in names {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        let cells: Vec<&Value> = rows.iter().filter_map(|row| row.get(&name)).collect();
        match cells.first() {
            Some(Value::String(_)) => {
                let texts: Vec<ByteArray> = cells
                    .iter()
                    .filter_map(|cell| Some(ByteArray::from(cell.as_str()?)))
                    .collect();
                column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
            }
            Some(Value::Bool(_)) => {
                let flags: Vec<bool> = cells.iter().filter_map(|cell| cell.as_bool()).collect();
                column.typed::<BoolType>().write_batch(&flags, None, None)?;
            }
            Some(Value::Number(number)) if number.is_f64() => {
                let numbers: Vec<f64> = cells.iter().filter_map(|cell| cell.as_f64()).collect();
                column.typed::<DoubleType>().write_batch(&numbers, None, None)?;
            }
            _ => {
                // Parquet stores the bits of unsigned integers as signed ones.
                let numbers: Vec<i64> = cells
                    .iter()
                    .filter_map(|cell| cell.as_u64())
                    .map(u64::cast_signed)
                    .collect();
                column.typed::<Int64Type>().write_batch(&numbers, None, None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    Ok(())
}

/// Calls `call` with each record of a table, in order, after verifying the record.
fn each_row(path: &Path, mut call: impl FnMut(Key, Entry) -> Result<(), ExchangeError>) -> Result<(), ExchangeError> {
    let foreign = |place: &str, message: String| ExchangeError::Foreign {
        path: path.to_owned(),
        place: place.to_owned(),
        message,
    };
    let file = File::open(path).map_err(|error| of_file(path, error))?;
    let no_table = |error: ParquetError| foreign("(the file)", format!("it is not a Parquet table: {error}"));
    let reader = SerializedFileReader::new(file).map_err(no_table)?;
    // The library panics on invalid schemas and pages.
    let senseless = || foreign("(the file)", "its schema or its pages do not make sense".to_owned());
    let rows = catch_unwind(AssertUnwindSafe(|| reader.get_row_iter(None)));
    let mut rows = rows.map_err(|_| senseless())?.map_err(no_table)?;
    for number in 1u64.. {
        let next = catch_unwind(AssertUnwindSafe(|| rows.next())).map_err(|_| senseless())?;
        let Some(row) = next else { break };
        let place = format!("row {number}");
        let row = row.map_err(|error| foreign(&place, format!("it cannot be read: {error}")))?;
        let record: Record = serde_json::from_value(of_row(row))
            .map_err(|error| foreign(&place, format!("it is not a record of a cache: {error}")))?;
        let (key, entry) = record.verified().map_err(|message| foreign(&place, message))?;
        call(key, entry)?;
    }
    Ok(())
}

/// A row as JSON, for serde. A value of a type that our columns do not use becomes null, which no
/// field accepts.
fn of_row(row: Row) -> Value {
    let cells = row.into_columns().into_iter().map(|(name, field)| {
        let value = match field {
            Field::Bool(value) => value.into(),
            Field::Int(value) => value.into(),
            Field::Long(value) => value.into(),
            Field::UInt(value) => value.into(),
            Field::ULong(value) => value.into(),
            Field::Double(value) => value.into(),
            Field::Str(value) => value.into(),
            _ => Value::Null,
        };
        (name, value)
    });
    Value::Object(cells.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::{super::exchange::tests::filled, *};

    #[test]
    fn a_text_that_was_cut_stays_known_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let cache = filled(&folder.path().join("a"));
        let key = cache.keys()[0];
        let cut = super::super::Entry {
            cut: true,
            ..cache.get(&key).unwrap().unwrap()
        };
        let alone = Cache::open(&folder.path().join("b")).unwrap();
        alone.put(key, &cut).unwrap();
        // A table has no column for this field.
        let table = folder.path().join("out.parquet");
        let exported = alone.export_parquet(&table).unwrap();
        assert_eq!((exported.records, exported.left_out), (0, 1));
        let lines = folder.path().join("out.jsonl");
        alone.export_jsonl(&lines).unwrap();
        let other = Cache::open(&folder.path().join("c")).unwrap();
        other.import_jsonl(&lines).unwrap();
        assert!(other.get(&key).unwrap().unwrap().cut);
    }

    #[test]
    fn a_table_brings_every_entry_over_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let cache = filled(&folder.path().join("a"));
        let file = folder.path().join("out.parquet");
        let exported = cache.export_parquet(&file).unwrap();
        assert_eq!((exported.records, exported.left_out), (20, 1));
        let other = Cache::open(&folder.path().join("b")).unwrap();
        assert_eq!(
            other.import_parquet(&file).unwrap(),
            ImportCounts { added: 20, known: 0 }
        );
        assert_eq!(
            other.import_parquet(&file).unwrap(),
            ImportCounts { added: 0, known: 20 }
        );
        // Both caches export to equal JSON lines.
        let lines = |cache: &Cache, name: &str| {
            let path = folder.path().join(name);
            cache.export_jsonl(&path).unwrap();
            fs::read(path).unwrap()
        };
        assert_eq!(lines(&cache, "a.jsonl"), lines(&other, "b.jsonl"));
        let empty = Cache::open(&folder.path().join("c")).unwrap();
        empty.export_parquet(&file).unwrap();
        assert_eq!(empty.import_parquet(&file).unwrap(), ImportCounts::default());
    }

    #[test]
    fn a_changed_row_or_another_file_is_refused_by_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.parquet");
        let cache = filled(&folder.path().join("a"));
        cache.export_parquet(&path).unwrap();
        let other = Cache::open(&folder.path().join("b")).unwrap();
        let refused = |says: &str| {
            let error = other.import_parquet(&path).unwrap_err().to_string();
            assert!(error.contains("out.parquet") && error.contains(says), "{error}");
            assert_eq!(other.stats().entries, 0);
        };
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        refused("not a Parquet table");
        fs::write(&path, "{}\n").unwrap();
        refused("not a Parquet table");
        // A table of the same format with a modified second row.
        let mut records: Vec<Record> = cache.records().filter_map(|record| record.unwrap()).take(3).collect();
        records[1].output.push('!');
        let file = File::create(&path).unwrap();
        let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
        let mut writer = SerializedFileWriter::new(&file, schema, Arc::default()).unwrap();
        write_group(&mut writer, &records).unwrap();
        writer.close().unwrap();
        refused("row 2: its digest");
    }
}
