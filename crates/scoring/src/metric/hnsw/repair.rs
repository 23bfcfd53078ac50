//! Links to documents that cannot be reached without.
//!
//! A list of links that is full drops links, so a document may lose all that lead to it: of a
//! thousand equal documents, only those remain that entered first. A tree of links from the entry
//! shows which documents can be reached. Each other document is put in place of a link that is not
//! part of the tree, so that nothing else is lost.

use super::{
    layer::{LOWEST_LINKS, Layer, taken},
    order::{ENTRY, mixed},
};

/// The links of a tree that has the entry as its root.
struct Tree {
    reached: Vec<bool>,
    /// By place: a bit for each link of its list that is in the tree.
    edges: Vec<u64>,
}

const _: () = assert!(LOWEST_LINKS == u64::BITS as usize, "a bit for each link");

/// Makes every document of the lowest layer one that can be reached from the entry.
pub(super) fn connect(layer: &mut Layer) {
    let mut tree = Tree {
        reached: vec![false; layer.len()],
        edges: vec![0; layer.len()],
    };
    tree.grow(layer, ENTRY);
    for place in 0..layer.len() as u32 {
        if !tree.reached[place as usize] {
            tree.attach(layer, place);
            tree.grow(layer, place);
        }
    }
}

impl Tree {
    /// Adds all that can be reached from a document, nearest in links first.
    fn grow(&mut self, layer: &Layer, root: u32) {
        self.reached[root as usize] = true;
        let (mut border, mut next) = (vec![root], Vec::new());
        while !border.is_empty() {
            for place in border.drain(..) {
                for (slot, link) in layer.all().of(place).iter().enumerate() {
                    if !std::mem::replace(&mut self.reached[*link as usize], true) {
                        self.edges[place as usize] |= 1 << slot;
                        next.push(*link);
                    }
                }
            }
            std::mem::swap(&mut border, &mut next);
        }
    }

    /// Links a document from one near it that has room, or from one below that in the tree.
    fn attach(&mut self, layer: &mut Layer, place: u32) {
        let links = layer.all().of(place);
        let near = links.iter().find(|link| self.reached[**link as usize]);
        let mut at = near.copied().unwrap_or(ENTRY);
        let mut step = u64::from(place);
        loop {
            let mut slots = layer.slots();
            let list = slots.list(at);
            let used = taken(list).len();
            let edges = self.edges[at as usize];
            let full = used == list.len();
            let room = if full { edges.leading_ones() as usize } else { 0 };
            if room < list.len() {
                let slot = if full { list.len() - 1 - room } else { used };
                list[slot] = place;
                self.edges[at as usize] |= 1 << slot;
                return;
            }
            // All its links are in the tree. Down one of them: a tree ends.
            step = mixed(step);
            at = list[step as usize % list.len()];
        }
    }
}
