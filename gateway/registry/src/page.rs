//! Sizes of pages.

use prost::Message;

const PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;
/// Maximum number of bytes of a page: gRPC clients accept 4 MiB by default. One provider is smaller
/// than half of that.
const PAGE_BYTES: usize = 3 << 20;

/// Truncates a list to its first page; returns true if entries were removed.
pub(crate) fn cut<M: Message>(list: &mut Vec<M>, size: usize) -> bool {
    let mut bytes = 0_usize;
    let fits = |message: &M| {
        bytes += message.encoded_len();
        bytes <= PAGE_BYTES
    };
    let fitting = list.iter().map(fits).take_while(|fits| *fits).count().max(1);
    let whole = list.len();
    list.truncate(size.min(fitting));
    list.len() < whole
}

pub(crate) fn size(asked: u32) -> usize {
    match usize::try_from(asked).unwrap_or(LARGEST_PAGE) {
        0 => PAGE,
        size => size.min(LARGEST_PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_hundred_entries_unless_asked_and_a_thousand_at_most() {
        assert_eq!([size(0), size(7), size(u32::MAX)], [100, 7, 1000]);
    }

    #[test]
    fn a_page_ends_before_it_grows_too_large_and_always_goes_on() {
        let mut texts: Vec<String> = (0..5).map(|_| "x".repeat(1 << 20)).collect();
        assert!(cut(&mut texts, 100));
        assert_eq!(texts.len(), 2);
        assert!(!cut(&mut texts, 2));
        let mut huge = vec!["x".repeat(5 << 20), String::new()];
        assert!(cut(&mut huge, 100));
        assert_eq!(huge.len(), 1);
        assert!(!cut(&mut Vec::<String>::new(), 1));
    }
}
