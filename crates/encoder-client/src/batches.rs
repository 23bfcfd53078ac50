//! Divides texts into requests.

/// Maximum bytes of text in one request.
pub const MOST_REQUEST_BYTES: usize = 1 << 20;

/// Indices of the texts of each request, at most `most` per request. Long texts come first: batches
/// of similar lengths waste least, and the last batch is then short.
pub fn batches(texts: &[&str], most: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(texts[index].len()));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for index in order {
        let length = texts[index].len();
        match batches.last_mut() {
            Some(batch) if batch.len() < most && bytes + length <= MOST_REQUEST_BYTES => {
                batch.push(index);
                bytes += length;
            }
            _ => {
                batches.push(vec![index]);
                bytes = length;
            }
        }
    }
    batches
}

/// The limits of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of items.
    pub items: usize,
    /// Maximum bytes of text.
    pub bytes: usize,
}

impl Bounds {
    /// Whether a request of this many items and bytes has room for an item of `more` bytes. One
    /// item always has room.
    fn admits(self, items: usize, bytes: usize, more: usize) -> bool {
        items == 0 || items < self.items && bytes.saturating_add(more) <= self.bytes
    }
}

/// Divides items into requests in the order of arrival.
#[derive(Debug)]
pub struct Batcher<T> {
    bounds: Bounds,
    held: Vec<T>,
    bytes: usize,
}

impl<T> Batcher<T> {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            held: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds an item of this many bytes. Returns a request when it is full, with this item in it or
    /// before it.
    pub fn push(&mut self, item: T, bytes: usize) -> Option<Vec<T>> {
        let full = if self.bounds.admits(self.held.len(), self.bytes, bytes) {
            None
        } else {
            self.rest()
        };
        self.held.push(item);
        self.bytes += bytes;
        // A full request is returned at once, so that it does not wait for a late item.
        if full.is_none() && self.held.len() >= self.bounds.items {
            return self.rest();
        }
        full
    }

    /// The remaining items.
    pub fn rest(&mut self) -> Option<Vec<T>> {
        self.bytes = 0;
        let rest = std::mem::take(&mut self.held);
        (!rest.is_empty()).then_some(rest)
    }
}

/// Number of leading `texts` in the next request: at most `most`, and at least one if there is any.
pub fn next<'a>(texts: impl IntoIterator<Item = &'a str>, most: usize) -> usize {
    let bounds = Bounds {
        items: most,
        bytes: MOST_REQUEST_BYTES,
    };
    let (mut count, mut bytes) = (0, 0);
    for text in texts.into_iter().take(most) {
        if !bounds.admits(count, bytes, text.len()) {
            break;
        }
        bytes += text.len();
        count += 1;
    }
    count
}

/// Maximum number of texts in one request: the encoder's limit (0: not reported), but no more than
/// `ours`.
pub fn most_items(permitted: u32, ours: usize) -> usize {
    match permitted {
        0 => ours,
        limit => ours.min(limit as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_by_texts_and_by_bytes_and_hold_each_text_once() {
        let long = "x".repeat(MOST_REQUEST_BYTES);
        let texts = ["a", &long, "ccc", "bb"];
        assert_eq!(batches(&texts, 2), [vec![1], vec![2, 3], vec![0]]);
        assert!(batches(&[], 2).is_empty());
    }

    #[test]
    fn texts_in_their_order_are_bounded_alike_and_a_text_that_is_too_long_goes_alone() {
        let long = "x".repeat(MOST_REQUEST_BYTES + 1);
        assert_eq!(next(["a", "b", "c"], 2), 2);
        assert_eq!(next(["a", &long], 8), 1);
        assert_eq!(next([long.as_str(), "a"], 8), 1);
        assert_eq!(next([], 8), 0);
    }

    #[test]
    fn items_that_come_one_by_one_are_bounded_alike_and_keep_their_order() {
        let divided = |texts: &[&str], items, bytes| {
            let mut batcher = Batcher::new(Bounds { items, bytes });
            let mut made: Vec<Vec<String>> = texts
                .iter()
                .filter_map(|text| batcher.push((*text).to_owned(), text.len()))
                .collect();
            made.extend(batcher.rest());
            made
        };
        assert_eq!(divided(&["a", "b", "c"], 2, 9), [vec!["a", "b"], vec!["c"]]);
        assert_eq!(divided(&["aa", "bb", "c"], 9, 3), [vec!["aa"], vec!["bb", "c"]]);
        assert_eq!(divided(&["aaaaaa", "b"], 9, 3), [vec!["aaaaaa"], vec!["b"]]);
        assert_eq!(divided(&["a", "b"], 1, 9), [vec!["a"], vec!["b"]]);
        assert!(divided(&[], 2, 9).is_empty());
    }
}
