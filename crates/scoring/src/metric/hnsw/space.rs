//! Distances of rows.

use isomer_kernels::pairs;
use ndarray::ArrayView2;
use rayon::prelude::*;

use crate::metric::{
    matrix::Rows,
    similarity::{Similarity, norm},
};

/// The documents at their places, with their distances.
#[derive(Debug)]
pub(super) struct Space<'a> {
    vectors: Rows<'a>,
    similarity: Similarity,
    /// The row of the document at each place.
    rows: Vec<u32>,
    /// By row, for cosine: 1 / norm.
    scales: Vec<f32>,
}

/// A row with which others are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'a> {
    row: &'a [f32],
    scale: f32,
}

impl<'a> Space<'a> {
    pub(super) fn new(vectors: ArrayView2<'a, f32>, similarity: Similarity, rows: Vec<u32>) -> Self {
        let vectors = Rows::new(vectors);
        let scales = match similarity {
            Similarity::Cosine => vectors.par_iter().map(scale).collect(),
            _ => Vec::new(),
        };
        Self {
            vectors,
            similarity,
            rows,
            scales,
        }
    }

    /// The row of the document at a place.
    pub(super) fn document(&self, place: u32) -> usize {
        self.rows[place as usize] as usize
    }

    /// The document at a place, as a query.
    pub(super) fn at(&self, place: u32) -> Query<'_> {
        let row = self.document(place);
        Query {
            row: self.vectors.row(row),
            scale: self.scales.get(row).copied().unwrap_or(1.0),
        }
    }

    pub(super) fn query<'q>(&self, row: &'q [f32]) -> Query<'q> {
        let scale = match self.similarity {
            Similarity::Cosine => scale(row),
            _ => 1.0,
        };
        Query { row, scale }
    }

    /// Writes the keys of places (see [`key`]) by their distances from the query.
    pub(super) fn keys(&self, query: Query<'_>, places: &[u32], work: &mut Work, keys: &mut Vec<u64>) {
        let Work { rows, distances } = work;
        rows.clear();
        rows.extend(places.iter().map(|place| self.rows[*place as usize]));
        distances.clear();
        distances.resize(rows.len(), 0.0);
        self.distances(query, rows, distances);
        keys.clear();
        keys.extend(
            distances
                .iter()
                .zip(places)
                .map(|(distance, place)| key(*distance, *place)),
        );
    }

    /// Distances of rows from the query. They decrease as the similarity increases, and need not be
    /// a metric.
    fn distances(&self, query: Query<'_>, rows: &[u32], out: &mut [f32]) {
        let data = self.vectors.values();
        match self.similarity {
            Similarity::Cosine => {
                pairs::dots(query.row, data, rows, out);
                for (distance, row) in out.iter_mut().zip(rows) {
                    // Computed in this order, so that the distance of two rows is the same in both
                    // directions, to the bit.
                    *distance = 1.0 - *distance * (query.scale * self.scales[*row as usize]);
                }
            }
            Similarity::Dot => {
                pairs::dots(query.row, data, rows, out);
                for distance in out {
                    *distance = -*distance;
                }
            }
            Similarity::Euclidean => pairs::squared_distances(query.row, data, rows, out),
            Similarity::Manhattan => pairs::absolute_distances(query.row, data, rows, out),
        }
    }
}

/// Buffers of [`Space::keys`].
#[derive(Debug, Default)]
pub(super) struct Work {
    rows: Vec<u32>,
    distances: Vec<f32>,
}

fn scale(row: &[f32]) -> f32 {
    1.0 / norm(row).max(1e-12)
}

/// A candidate as one integer. From the top: the distance's bits, transformed to sort like numbers;
/// the place; a bit that the beam uses. The nearest is the smallest; among equal distances, the
/// first inserted. A distance that is not a number (a sum overflowed) is the largest of all.
pub(super) fn key(distance: f32, place: u32) -> u64 {
    let distance = if distance.is_nan() {
        f32::INFINITY
    } else {
        distance + 0.0
    };
    let bits = distance.to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(place) << 1
}

pub(super) fn place_of(key: u64) -> u32 {
    key as u32 >> 1
}

pub(super) fn distance_of(key: u64) -> u32 {
    (key >> 32) as u32
}
