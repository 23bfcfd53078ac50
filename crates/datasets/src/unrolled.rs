//! Pairs stored as one row of long lists.

use std::sync::Arc;

use serde_json::Value;

use super::{
    row::FieldMap,
    row::{Location, Row},
};

impl Row {
    /// In some data sets mteb stores the pairs as one row of long lists. Returns rows of single
    /// pairs, or the row itself.
    pub(super) fn pairs(self) -> Pairs {
        let length = |name: &str| self.fields.get(name).and_then(Value::as_array).map(Vec::len);
        let count = length("sentence1").filter(|count| length("sentence2") == Some(*count));
        let Some(count) = count else {
            return Pairs::One(Some(Box::new(self)));
        };
        let Self { place, fields, map, .. } = self;
        let mut lists = Vec::new();
        for (name, value) in fields {
            match value {
                Value::Array(items) if items.len() == count => lists.push((name, items.into_iter())),
                // A list of another length belongs to no pair; its reader reports the error.
                other => drop((name, other)),
            }
        }
        Pairs::Many {
            place,
            map,
            lists,
            next: 0,
            count,
        }
    }
}

/// Rows of single pairs.
pub(super) enum Pairs {
    One(Option<Box<Row>>),
    /// The row contains lists of pairs.
    Many {
        place: Location,
        map: Arc<FieldMap>,
        lists: Vec<(String, std::vec::IntoIter<Value>)>,
        next: usize,
        count: usize,
    },
}

impl Iterator for Pairs {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        match self {
            Self::One(row) => row.take().map(|row| *row),
            Self::Many { next, count, .. } if next == count => None,
            Self::Many {
                place,
                map,
                lists,
                next,
                ..
            } => {
                let item = *next;
                *next += 1;
                let field =
                    |(name, items): &mut (String, std::vec::IntoIter<Value>)| Some((name.clone(), items.next()?));
                Some(Row {
                    place: place.clone(),
                    fields: lists.iter_mut().filter_map(field).collect(),
                    typed: true,
                    map: Arc::clone(map),
                    item: Some(item),
                })
            }
        }
    }
}
