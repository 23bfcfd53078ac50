//! Conversion of rows to and from Milvus's columns. Pure.

use prost::Message;

use super::{DIGEST, DOCUMENT, EMBEDDING, KEY, LONGEST_TEXT, PAYLOAD, TEXT, messages::*};
use crate::{
    encode::Additional,
    error::{IndexError, Result},
    mark::Mark,
    store::{Row, StoredRow, StoredVector},
};

/// Maximum length of a row's digest, in bytes.
const LONGEST_DIGEST: usize = 64;

/// The fields of a collection, encoded.
pub(super) fn schema(collection: &str, mark: &Mark) -> Vec<u8> {
    let field = |name: &str, data_type, params: Vec<KeyValue>| Field {
        name: name.to_owned(),
        is_primary_key: name == KEY,
        data_type,
        type_params: params,
    };
    let text = |name: &str, most: usize| {
        let most = KeyValue::new("max_length", most.to_string());
        field(name, data_type::TEXT, vec![most])
    };
    let dimensions = KeyValue::new("dim", mark.space.dimensions.to_string());
    let mut fields = vec![
        text(KEY, LONGEST_TEXT),
        text(DOCUMENT, LONGEST_TEXT),
        text(DIGEST, LONGEST_DIGEST),
        field(PAYLOAD, data_type::JSON, Vec::new()),
        field(EMBEDDING, data_type::VECTOR, vec![dimensions]),
    ];
    if mark.with_text {
        fields.push(text(TEXT, LONGEST_TEXT));
    }
    let name = collection.to_owned();
    Schema { name, fields }.encode_to_vec()
}

/// The columns of rows.
///
/// # Errors
/// If a value is longer than Milvus permits.
pub(super) fn columns(rows: &[Row]) -> Result<Vec<FieldData>> {
    let mut payloads = Vec::with_capacity(rows.len());
    for row in rows {
        let payload = serde_json::Value::Object(row.payload.clone()).to_string();
        fits(row, payload.len())?;
        payloads.push(payload.into_bytes());
    }
    let texts = |name: &str, of: &dyn Fn(&Row) -> String| {
        let data = rows.iter().map(of).collect();
        scalars(
            name,
            data_type::TEXT,
            Scalars {
                texts: Some(Texts { data }),
                json: None,
            },
        )
    };
    let json = Some(Json { data: payloads });
    let mut columns = vec![
        texts(KEY, &|row| row.key.clone()),
        texts(DOCUMENT, &|row| row.document.clone()),
        texts(DIGEST, &|row| row.digest.clone()),
        scalars(PAYLOAD, data_type::JSON, Scalars { texts: None, json }),
        vectors(rows),
    ];
    if rows.iter().any(|row| row.text.is_some()) {
        columns.push(texts(TEXT, &|row| row.text.clone().unwrap_or_default()));
    }
    Ok(columns)
}

fn scalars(name: &str, data_type: i32, scalars: Scalars) -> FieldData {
    FieldData {
        data_type,
        field_name: name.to_owned(),
        scalars: Some(scalars),
        vectors: None,
    }
}

fn vectors(rows: &[Row]) -> FieldData {
    let dimensions = rows.first().map_or(0, |row| row.vector.len());
    let data = rows.iter().flat_map(|row| row.vector.iter().copied()).collect();
    FieldData {
        data_type: data_type::VECTOR,
        field_name: EMBEDDING.to_owned(),
        scalars: None,
        vectors: Some(Vectors {
            dimensions: i64::try_from(dimensions).unwrap_or(i64::MAX),
            floats: Some(Floats { data }),
        }),
    }
}

/// Requires that the values of a row are short enough; `payload` is the size of its payload in
/// bytes.
fn fits(row: &Row, payload: usize) -> Result<()> {
    let text = row.text.as_ref().map_or(0, String::len);
    let values = [
        ("key", row.key.len(), "name a column with shorter values (--key)"),
        ("with-text", text, "divide texts (--chunk), or leave --with-text out"),
        ("payload", payload, "name fewer columns in --payload"),
    ];
    let Some((field, length, hint)) = values.into_iter().find(|(_, length, _)| *length > LONGEST_TEXT) else {
        return Ok(());
    };
    let key: String = row.key.chars().take(80).collect();
    Err(IndexError::Setting {
        field,
        message: format!("the row `{key}` has {length} bytes there; Milvus keeps at most {LONGEST_TEXT}"),
        hint,
    })
}

/// A query's vector.
pub(super) fn placeholder(vector: &[f32]) -> Vec<u8> {
    let placeholder = Placeholder {
        tag: "$0".to_owned(),
        data_type: data_type::VECTOR,
        values: vec![vector.iter().flat_map(|number| number.to_le_bytes()).collect()],
    };
    let placeholders = vec![placeholder];
    Placeholders { placeholders }.encode_to_vec()
}

/// A text in an expression. Milvus supports more escapes than these, Milvus Lite only these.
pub(super) fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for character in text.chars() {
        match character {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            other => literal.push(other),
        }
    }
    literal.push('"');
    literal
}

/// An expression for rows whose field has one of these values.
pub(super) fn any_of(field: &str, values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| literal(value)).collect();
    format!("{field} in [{}]", values.join(", "))
}

/// Columns that were read.
pub(super) struct Columns(pub(super) Vec<FieldData>);

impl Columns {
    fn column(&self, name: &str) -> Option<&FieldData> {
        self.0.iter().find(|column| column.field_name == name)
    }

    /// The texts of a column; empty if it or no row was read.
    pub(super) fn texts(&self, name: &str) -> &[String] {
        let scalars = self.column(name).and_then(|column| column.scalars.as_ref());
        let texts = scalars.and_then(|scalars| scalars.texts.as_ref());
        texts.map(|texts| texts.data.as_slice()).unwrap_or_default()
    }

    /// Rows without their vectors; `None` if a column is missing or too short.
    pub(super) fn rows(&self) -> Option<Vec<StoredRow>> {
        let [keys, documents, digests] = [KEY, DOCUMENT, DIGEST].map(|name| self.texts(name));
        let row = |(at, key): (usize, &String)| {
            Some(StoredRow {
                key: key.clone(),
                document: documents.get(at)?.clone(),
                digest: digests.get(at)?.clone(),
            })
        };
        keys.iter().enumerate().map(row).collect()
    }

    /// Vectors with the fields stored beside them; `None` if a column is missing or too short.
    pub(super) fn vectors(&self) -> Option<Vec<StoredVector>> {
        let keys = self.texts(KEY);
        if keys.is_empty() {
            return Some(Vec::new());
        }
        let vectors = self.column(EMBEDDING)?.vectors.as_ref()?;
        let numbers = &vectors.floats.as_ref()?.data;
        let dimensions = usize::try_from(vectors.dimensions).ok()?;
        let payloads = &self.column(PAYLOAD)?.scalars.as_ref()?.json.as_ref()?.data;
        let texts = self.texts(TEXT);
        let row = |(at, key): (usize, &String)| {
            let from = at.checked_mul(dimensions)?;
            Some(StoredVector {
                additional: Additional::default(),
                key: key.clone(),
                vector: numbers.get(from..from.checked_add(dimensions)?)?.to_vec(),
                text: texts.get(at).cloned(),
                payload: serde_json::from_slice(payloads.get(at)?).ok()?,
            })
        };
        keys.iter().enumerate().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn row(key: &str, text: Option<&str>) -> Row {
        Row {
            additional: Additional::default(),
            key: key.to_owned(),
            document: format!("document of {key}"),
            digest: "d".to_owned(),
            text: text.map(str::to_owned),
            payload: json!({ "n": 1, "list": [1, { "null": null }] })
                .as_object()
                .unwrap()
                .clone(),
            vector: vec![0.5, -1.0, 3.0],
        }
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        for text in [None, Some("a text\n")] {
            let rows = [row("a", text), row("b", text)];
            let read = Columns(columns(&rows).unwrap());
            assert_eq!(read.rows().unwrap()[1].document, "document of b");
            let vectors = read.vectors().unwrap();
            for (row, read) in rows.iter().zip(&vectors) {
                assert_eq!(
                    (&row.key, &row.vector, &row.text),
                    (&read.key, &read.vector, &read.text)
                );
                assert_eq!(row.payload, read.payload);
            }
        }
        let nothing = Columns(Vec::new());
        assert!(nothing.rows().unwrap().is_empty() && nothing.vectors().unwrap().is_empty());
    }

    #[test]
    fn an_answer_that_lacks_values_is_no_row() {
        let mut short = columns(&[row("a", None), row("b", None)]).unwrap();
        short[4].vectors.as_mut().unwrap().floats.as_mut().unwrap().data.pop();
        assert!(Columns(short.clone()).vectors().is_none());
        short.remove(2);
        assert!(Columns(short).rows().is_none());
    }

    #[test]
    fn a_value_that_is_too_long_is_named_with_the_remedy() {
        let long = "x".repeat(LONGEST_TEXT + 1);
        let mut heavy = row("a", None);
        heavy.payload.insert("more".to_owned(), long.clone().into());
        for (row, due) in [
            (row(&long, None), "key"),
            (row("a", Some(&long)), "with-text"),
            (heavy, "payload"),
        ] {
            match columns(&[row]).unwrap_err() {
                IndexError::Setting { field, hint, .. } => assert!(field == due && hint.contains("--"), "{field}"),
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn texts_are_escaped_in_expressions() {
        assert_eq!(literal("a \"b\" \\ c\r\n\t'd' é"), r#""a \"b\" \\ c\r\n\t'd' é""#);
        let values = ["a", "b\""].map(str::to_owned);
        assert_eq!(any_of("key", &values), r#"key in ["a", "b\""]"#);
    }
}
