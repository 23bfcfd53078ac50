//! Links to documents that would otherwise be unreachable.
//!
//! A full list of links drops links, so a document may lose all links to it: of a thousand equal
//! documents, only the first ones inserted remain reachable. A tree of links from the entry shows
//! which documents can be reached. Each unreachable document replaces a link that is not part of
//! the tree, so that no other document becomes unreachable.

use super::{
    layer::{LOWEST_LINKS, Layer, taken},
    order::{ENTRY, mixed},
};

/// The links of a tree whose root is the entry.
struct Tree {
    reached: Vec<bool>,
    /// By place: one bit per link of its list, set if the link is in the tree.
    edges: Vec<u64>,
}

const _: () = assert!(LOWEST_LINKS == u64::BITS as usize, "a bit for each link");

/// Makes every document of the lowest layer reachable from the entry.
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
    /// Adds all documents that are reachable from a document, in breadth-first order.
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

    /// Links to a document from a near one that has room, or from a descendant of that one in the
    /// tree.
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
            // All its links are in the tree. Follow one of them down; a tree is finite.
            step = mixed(step);
            at = list[step as usize % list.len()];
        }
    }
}
