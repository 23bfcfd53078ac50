//! Links of one layer.

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

/// Links per document in a layer; M in the paper.
pub const LINKS: usize = 32;
/// Links per document in the lowest layer, which has all documents.
pub const LOWEST_LINKS: usize = 2 * LINKS;
/// Marks the end of an incomplete list of links.
const NONE: u32 = u32::MAX;

/// Links of the documents of a layer: a fixed number per place, side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layer {
    degree: usize,
    links: Vec<u32>,
}

/// Links of the first documents of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerLinks<'a> {
    degree: usize,
    links: &'a [u32],
}

/// Writable links of documents. The first document has the place `first`.
#[derive(Debug)]
pub(super) struct Slots<'a> {
    first: u32,
    degree: usize,
    links: &'a mut [u32],
}

impl Layer {
    pub(super) fn new(documents: usize, degree: usize) -> Self {
        Self {
            degree,
            links: vec![NONE; documents * degree],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.links.len() / self.degree
    }

    pub(super) fn all(&self) -> LayerLinks<'_> {
        LayerLinks {
            degree: self.degree,
            links: &self.links,
        }
    }

    pub(super) fn slots(&mut self) -> Slots<'_> {
        Slots {
            first: 0,
            degree: self.degree,
            links: &mut self.links,
        }
    }
}

impl<'a> LayerLinks<'a> {
    /// The targets of a document's links.
    pub(super) fn of(self, place: u32) -> &'a [u32] {
        taken(&self.links[place as usize * self.degree..][..self.degree])
    }
}

impl<'a> Slots<'a> {
    /// Splits before a place.
    pub(super) fn split_at(self, place: u32) -> (Self, Self) {
        let Self { first, degree, links } = self;
        let (head, tail) = links.split_at_mut((place - first) as usize * degree);
        let part = |first, links| Self { first, degree, links };
        (part(first, head), part(place, tail))
    }

    /// A read-only view.
    pub(super) fn frozen(&self) -> LayerLinks<'_> {
        LayerLinks {
            degree: self.degree,
            links: self.links,
        }
    }

    /// The list of each document, which [`write`] can fill.
    pub(super) fn lists(self) -> impl IndexedParallelIterator<Item = &'a mut [u32]> {
        self.links.par_chunks_exact_mut(self.degree)
    }

    pub(super) fn list(&mut self, place: u32) -> &mut [u32] {
        &mut self.links[(place - self.first) as usize * self.degree..][..self.degree]
    }
}

/// The used part of a list.
pub(super) fn taken(list: &[u32]) -> &[u32] {
    let end = list.iter().position(|link| *link == NONE).unwrap_or(list.len());
    &list[..end]
}

/// Writes a list; links beyond its length are dropped.
pub(super) fn write(list: &mut [u32], links: impl IntoIterator<Item = u32>) {
    let mut links = links.into_iter();
    list.fill_with(|| links.next().unwrap_or(NONE));
}
