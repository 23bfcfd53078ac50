//! Vectors of one encoder, each distinct text once under each prompt.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use isomer_service_kit::vectors::Ranges;
use ndarray::Array2;

use crate::{
    encoding::EncodedTexts,
    metric::vector_matrix,
    run::{
        RunError,
        plan::{
            Encoders, Layout,
            table::{Key, Slot},
        },
    },
    stored_form::StoredForm,
    work::digest_of_vector,
};

/// Vectors of one encoder, by prompt and number of their text.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    cols: usize,
    rows: HashMap<Key, usize>,
    data: Vec<f32>,
    /// Whether the text of each row was truncated at the encoder's maximum length; `None` if the
    /// encoder does not report it.
    cut: Vec<Option<bool>>,
    /// Ranges of the dimensions in the originals of a data set, by its position and the form.
    ranges: HashMap<(usize, StoredForm), Ranges>,
}

impl Vectors {
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.rows.contains_key(&key)
    }

    /// The vector of a text, as the encoder returned it.
    fn row(&self, key: Key) -> Option<&[f32]> {
        let row = *self.rows.get(&key)?;
        self.data.get(row * self.cols..(row + 1) * self.cols)
    }

    /// Removes the vectors of all other texts.
    pub(crate) fn retain(&mut self, keys: &HashSet<Key>) {
        let mut retained = Self {
            cols: self.cols,
            ranges: std::mem::take(&mut self.ranges),
            ..Self::default()
        };
        for (text, row) in &self.rows {
            if keys.contains(text) {
                retained.rows.insert(*text, retained.rows.len());
                retained.cut.push(self.cut.get(*row).copied().flatten());
                retained
                    .data
                    .extend_from_slice(&self.data[row * self.cols..(row + 1) * self.cols]);
            }
        }
        *self = retained;
    }

    /// Adds the vectors of `texts` (numbers that are not present yet) under one prompt.
    pub(crate) fn insert(
        &mut self,
        encoder: &str,
        slot: Slot,
        texts: &[u32],
        encoded: EncodedTexts,
    ) -> Result<(), RunError> {
        if texts.is_empty() {
            return Ok(());
        }
        if self.cols != 0 && self.cols != encoded.cols {
            return Err(RunError::BadVectors {
                id: encoder.to_owned(),
                message: format!(
                    "answered vectors of {} columns after vectors of {}",
                    encoded.cols, self.cols
                ),
            });
        }
        self.cols = encoded.cols;
        for &text in texts {
            let row = self.rows.len();
            self.rows.insert((slot, text), row);
        }
        self.cut.extend(encoded.cut);
        self.data.extend(encoded.data);
        Ok(())
    }
}

/// Keys of the texts on which the form of an encoder is calibrated: the originals of a data set, of
/// retrieval its documents. Empty if the encoder needs none.
pub(crate) fn calibration(layout: &Layout, encoders: &Encoders, encoder: usize, table: usize) -> Vec<Key> {
    let Some(table) = layout
        .tables
        .get(table)
        .filter(|_| encoders.form(encoder).is_some_and(StoredForm::needs_ranges))
    else {
        return Vec::new();
    };
    let queries = table.dataset.retrieval().map_or(0, |labels| labels.query_ids.len());
    table.keys(encoder, &table.texts).split_off(queries)
}

/// Vectors of a data set's texts in the form of an encoder.
#[derive(Debug)]
pub(crate) struct StoredVectors<'a> {
    vectors: &'a Vectors,
    encoder: &'a str,
    normalises: bool,
    form: Option<StoredForm>,
    ranges: Option<&'a Ranges>,
}

impl Vectors {
    /// Finds the ranges of an encoder's form on a data set, if it needs any, from the vectors of
    /// the texts of [`calibration`].
    pub(crate) fn calibrate(
        &mut self,
        encoders: &Encoders,
        encoder: usize,
        table: usize,
        texts: &[Key],
    ) -> Result<(), RunError> {
        let Some(form) = encoders.form(encoder).filter(|form| form.needs_ranges()) else {
            return Ok(());
        };
        if !self.ranges.contains_key(&(table, form)) {
            let stored = StoredVectors::new(encoders, encoder, table, self);
            let rows = texts.iter().filter_map(|key| stored.shortened(*key).transpose());
            let rows: Vec<Cow<'_, [f32]>> = rows.collect::<Result<_, RunError>>()?;
            if let Some(ranges) = Ranges::of_rows(rows.iter()) {
                self.ranges.insert((table, form), ranges);
            }
        }
        Ok(())
    }
}

impl<'a> StoredVectors<'a> {
    /// Vectors for a data set.
    pub(crate) fn new(encoders: &'a Encoders, encoder: usize, table: usize, vectors: &'a Vectors) -> Self {
        let form = encoders.form(encoder);
        Self {
            vectors,
            encoder: encoders.id(encoder),
            normalises: encoders[encoders.source(encoder)].encoder.normalises,
            form,
            ranges: form.and_then(|form| vectors.ranges.get(&(table, form))),
        }
    }

    fn refused(&self, message: String) -> RunError {
        RunError::BadVectors {
            id: self.encoder.to_owned(),
            message,
        }
    }

    fn shortened(&self, key: Key) -> Result<Option<Cow<'a, [f32]>>, RunError> {
        let row = self.vectors.row(key);
        match self.form {
            None => Ok(row.map(Cow::Borrowed)),
            Some(form) => row
                .map(|row| form.shortened(row, self.normalises))
                .transpose()
                .map_err(|why| self.refused(why)),
        }
    }

    /// The vector of a text.
    pub(crate) fn row(&self, key: Key) -> Result<Option<Cow<'a, [f32]>>, RunError> {
        let row = self.shortened(key)?;
        match (self.form, row) {
            (Some(form), Some(row)) => {
                let stored = form.stored(row, self.ranges);
                stored.map(Some).map_err(|why| self.refused(why))
            }
            (_, row) => Ok(row),
        }
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        self.vectors.contains(key)
    }

    /// The vector of a text, as the encoder returned it.
    pub(crate) fn returned(&self, key: Key) -> Option<&'a [f32]> {
        self.vectors.row(key)
    }

    /// Whether a text was truncated; `None` if unknown.
    pub(crate) fn cut(&self, key: Key) -> Option<bool> {
        *self.vectors.cut.get(*self.vectors.rows.get(&key)?)?
    }

    /// One row per text, in order.
    pub(crate) fn matrix(&self, texts: &[Key]) -> Result<Array2<f32>, RunError> {
        let (mut data, mut cols) = (Vec::new(), self.vectors.cols);
        for text in texts {
            let row = self
                .row(*text)?
                .ok_or_else(|| self.refused("a text has no vector".to_owned()))?;
            cols = row.len();
            if data.is_empty() {
                data.reserve_exact(texts.len() * cols);
            }
            data.extend_from_slice(&row);
        }
        vector_matrix(texts.len(), cols, data).map_err(|error| self.refused(error.to_string()))
    }
}

/// Information about the vectors of a data set's texts. A text is identified by its position in the
/// data set and its key.
pub(crate) trait Encodings {
    /// Whether the text was truncated, if known; `None` if it has no vector.
    fn cut(&self, position: usize, key: Key) -> Option<Option<bool>>;

    /// Whether its vector has length 0; `None` if it has no vector.
    fn zero(&self, position: usize, key: Key) -> Option<bool>;

    /// BLAKE3 of its vector; `None` if it has no vector.
    fn digest(&self, position: usize, key: Key) -> Option<[u8; blake3::OUT_LEN]>;
}

impl Encodings for StoredVectors<'_> {
    fn cut(&self, _position: usize, key: Key) -> Option<Option<bool>> {
        self.contains(key).then(|| Self::cut(self, key))
    }

    fn zero(&self, _position: usize, key: Key) -> Option<bool> {
        let is_zero = |row: &[f32]| row.iter().all(|value| *value == 0.0);
        // Numbers of another type hide that the encoder returned nothing.
        Some(is_zero(self.returned(key)?) || is_zero(&self.row(key).ok()??))
    }

    fn digest(&self, _position: usize, key: Key) -> Option<[u8; blake3::OUT_LEN]> {
        self.row(key).ok()?.map(|row| digest_of_vector(&row))
    }
}
