//! Lists of words in text files: lines `name: word | word`. Lines of one name are one list, and a
//! line that begins with `#` is a comment.

use std::collections::HashMap;

pub(crate) struct WordLists(HashMap<&'static str, Vec<&'static str>>);

impl WordLists {
    pub(crate) fn read(text: &'static str) -> Self {
        let mut lists = HashMap::<_, Vec<_>>::new();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for (name, words) in lines.filter_map(|line| line.split_once(": ")) {
            lists.entry(name).or_default().extend(words.trim_end().split(" | "));
        }
        Self(lists)
    }

    /// The words of a list, in order; none if the file has no such list.
    pub(crate) fn list(&self, name: &str) -> &[&'static str] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The lists with their names, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &[&'static str])> {
        self.0.iter().map(|(name, words)| (*name, words.as_slice()))
    }

    pub(crate) fn has(&self, list: &str, word: &str) -> bool {
        self.list(list).contains(&word)
    }

    /// The value of a word in a list of `word value`.
    pub(crate) fn value(&self, list: &str, word: &str) -> Option<f64> {
        let mut rows = self.list(list).iter().filter_map(|row| row.split_once(' '));
        rows.find(|(known, _)| *known == word)
            .and_then(|(_, value)| value.parse().ok())
    }

    /// Asserts that the lists have these names, after a language and a dot, and that no word is
    /// empty.
    #[cfg(test)]
    pub(crate) fn assert_names(&self, names: &[&str]) {
        let found: std::collections::BTreeSet<_> = self
            .0
            .keys()
            .map(|name| name.rsplit('.').next().unwrap_or(name))
            .collect();
        assert_eq!(found, names.iter().copied().collect());
        assert!(self.iter().all(|(_, words)| words.iter().all(|word| !word.is_empty())));
    }
}
