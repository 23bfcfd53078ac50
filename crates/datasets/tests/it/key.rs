//! Errors of data sets, as tests compare them.

use isomer_datasets::DatasetError;

/// Kind, place and field of an error without the words of its message: `Row line 2 score`.
pub(crate) fn key(error: &DatasetError) -> String {
    match error {
        DatasetError::Row { unit, line, field, .. } => {
            format!("Row {unit} {line} {}", field.as_deref().unwrap_or("-"))
        }
        DatasetError::MissingFile { missing, .. } => format!("MissingFile {missing}"),
        DatasetError::Language { .. } => "Language".to_owned(),
        DatasetError::Empty { .. } => "Empty".to_owned(),
        DatasetError::Undefined { .. } => "Undefined".to_owned(),
        DatasetError::Broken { .. } => "Broken".to_owned(),
        DatasetError::TrainIsTest { .. } => "TrainIsTest".to_owned(),
        other => panic!("{other}"),
    }
}
