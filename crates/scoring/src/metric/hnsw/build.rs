//! Layers, and rounds of documents.

use std::ops::Range;

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::{
    beam::Beams,
    layer::{LINKS, LOWEST_LINKS, Layer, Slots, taken, write},
    options::HnswOptions,
    order::{ENTRY, order},
    repair,
    space::Space,
};
use crate::metric::similarity::Similarity;

/// A round has at most this fraction of the documents that are already present, ...
const PART_OF_PRESENT: usize = 8;
/// ... and at most this fraction of all documents, because documents of one round do not find one
/// another.
const PART_OF_ALL: usize = 50;
/// A list that is chosen again is filled except for this fraction, which leaves room for the next
/// documents. Otherwise a full list would be chosen again at every link, and building would take
/// twice the time for the same recall.
const ROOM: usize = 4;
/// Number of link lists that one thread renews at a time.
const GRAIN: usize = 32;

/// Places the documents and builds the links of all layers; the lowest is the first.
pub(super) fn layers<'a>(
    documents: ArrayView2<'a, f32>,
    similarity: Similarity,
    options: HnswOptions,
    beams: &Beams,
) -> (Space<'a>, Vec<Layer>) {
    let count = documents.nrows();
    assert!(count < 1 << 31, "a place has 31 bits");
    let entering = order(count, options.seed);
    let mut layers = empty(&entering);
    let rows = entering.into_iter().map(|(_, row)| row).collect();
    let space = Space::new(documents, similarity, rows);
    let mut present = 1;
    while present < count {
        let size = (present / PART_OF_PRESENT).min(count / PART_OF_ALL).max(1);
        let end = count.min(present + size);
        let round = Round {
            space: &space,
            beams,
            places: present as u32..end as u32,
            candidates: options.ef_construction.max(1),
        };
        round.enter(&mut layers);
        present = end;
    }
    if let Some(lowest) = layers.first_mut() {
        repair::connect(lowest);
    }
    (space, layers)
}

/// Empty layers. A document is in one more layer for each factor of 1 / `LINKS` by which its number
/// is less than 2⁶⁴: the paper's -ln(uniform) / ln M, rounded down. The smallest numbers come
/// first, and so do the documents of a layer.
fn empty(order: &[(u64, u32)]) -> Vec<Layer> {
    let of_level = |level: u32| {
        let bits = level * LINKS.ilog2();
        let documents = order.partition_point(|(number, _)| number.leading_zeros() >= bits);
        let degree = if level == 0 { LOWEST_LINKS } else { LINKS };
        (documents > 0).then(|| Layer::new(documents, degree))
    };
    (0..=u64::BITS / LINKS.ilog2()).map_while(of_level).collect()
}

/// Documents that are inserted together.
struct Round<'a> {
    space: &'a Space<'a>,
    beams: &'a Beams,
    places: Range<u32>,
    candidates: usize,
}

impl Round<'_> {
    /// Links the documents, layer by layer, from the top.
    fn enter(&self, layers: &mut [Layer]) {
        let mut nearest = vec![ENTRY; self.places.len()];
        for layer in layers.iter_mut().rev() {
            self.enter_layer(layer, &mut nearest);
            self.link_back(layer);
        }
    }

    /// The documents that are in a layer: they are the first ones.
    fn inside(&self, layer: &Layer) -> Range<u32> {
        let end = layer.len() as u32;
        self.places.start.min(end)..self.places.end.min(end)
    }

    /// Creates the links of the documents in a layer, and lets the other documents pass through it.
    /// `nearest` is the start of each document's search, and is set to the result.
    fn enter_layer(&self, layer: &mut Layer, nearest: &mut [u32]) {
        let Self { space, beams, .. } = *self;
        let inside = self.inside(layer);
        let (present, lists) = layer.slots().split_at(inside.start);
        let present = present.frozen();
        let (entering, passing) = nearest.split_at_mut(inside.len());
        let queries = inside.clone().into_par_iter().map(|place| space.at(place));
        let slots = entering.par_iter_mut().zip(lists.lists());
        queries.zip(slots).for_each(|(query, (nearest, list))| {
            beams.with(|beam| {
                beam.search(space, present, query, &[*nearest], self.candidates);
                *nearest = beam.found().next().unwrap_or(*nearest);
                write(list, beam.choose_of_found(space, LINKS).iter().copied());
            });
        });
        let queries = (self.places.start + inside.len() as u32..self.places.end).into_par_iter();
        queries.zip(passing).for_each(|(place, nearest)| {
            *nearest = beams.with(|beam| beam.nearest(space, present, space.at(place), *nearest));
        });
    }

    /// Adds links to the inserted documents from those to which they link.
    fn link_back(&self, layer: &mut Layer) {
        let linked = layer.all();
        let mut pairs: Vec<u64> = (self.inside(layer))
            .flat_map(|from| {
                linked
                    .of(from)
                    .iter()
                    .map(move |to| u64::from(*to) << 32 | u64::from(from))
            })
            .collect();
        pairs.par_sort_unstable();
        let groups: Vec<&[u64]> = pairs.chunk_by(|a, b| a >> 32 == b >> 32).collect();
        self.renew(layer.slots(), &groups);
    }

    /// Adds links to lists, each given by its pairs, in the order of the lists. A list that becomes
    /// too long is chosen again.
    fn renew(&self, mut slots: Slots<'_>, groups: &[&[u64]]) {
        if groups.len() > GRAIN {
            let (left, right) = groups.split_at(groups.len() / 2);
            let (head, tail) = slots.split_at(target(right[0]));
            rayon::join(|| self.renew(head, left), || self.renew(tail, right));
            return;
        }
        self.beams.with(|beam| {
            for group in groups {
                let place = target(group);
                let list = slots.list(place);
                let mut all = taken(list).to_vec();
                all.extend(group.iter().map(|pair| *pair as u32));
                if all.len() > list.len() {
                    let filled = list.len() - list.len() / ROOM;
                    write(
                        list,
                        beam.choose_of(self.space, place, &all, list.len(), filled)
                            .iter()
                            .copied(),
                    );
                } else {
                    write(list, all);
                }
            }
        });
    }
}

/// The document that receives links from a group of pairs.
fn target(group: &[u64]) -> u32 {
    group.first().map_or(0, |pair| (pair >> 32) as u32)
}
