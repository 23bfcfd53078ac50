//! Divides texts into requests.

/// Most bytes of text in one request.
pub const MOST_REQUEST_BYTES: usize = 1 << 20;

/// Indices of the texts of each request, at most `most` in one. Long texts come first: batches of
/// similar lengths waste least, and the last batch is then short.
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

/// How many of `texts`, in order, go into the next request: at most `most`, and at least one if
/// there is any.
pub fn next<'a>(texts: impl IntoIterator<Item = &'a str>, most: usize) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for text in texts.into_iter().take(most) {
        bytes += text.len();
        if count > 0 && bytes > MOST_REQUEST_BYTES {
            break;
        }
        count += 1;
    }
    count
}

/// Most texts of one request: what the encoder permits (0: it does not say), but no more than
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
}
