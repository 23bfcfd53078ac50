//! Places and peoples with several names: a country, its people, and short names of both. All words
//! of a name must occur.

use std::{
    collections::{BTreeSet, HashMap},
    sync::LazyLock,
};

use super::NAMES;

/// A place by its index, and the words of one of its names.
type PlaceName = (usize, Vec<&'static str>);

/// The names, indexed by their first words.
static WRITTEN: LazyLock<HashMap<&str, Vec<PlaceName>>> = LazyLock::new(|| {
    let mut written = HashMap::<_, Vec<_>>::new();
    for (place, names) in NAMES.list("place").iter().enumerate() {
        for name in names.split(", ") {
            let parts: Vec<&str> = name.split(' ').collect();
            written.entry(parts[0]).or_default().push((place, parts));
        }
    }
    written
});

/// The places that a text names, by their indices.
pub(super) fn of(words: &[String]) -> BTreeSet<usize> {
    let at = |from: usize| {
        let begun = WRITTEN.get(words[from].as_str()).into_iter().flatten();
        let rest = &words[from..];
        begun.filter(|(_, parts)| rest.len() >= parts.len() && rest.iter().zip(parts).all(|(a, b)| a == b))
    };
    (0..words.len()).flat_map(at).map(|(place, _)| *place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_of_the_file_is_read() {
        NAMES.assert_names(&["generic", "place"]);
        let two = |name: &str| of(&name.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(!two("united states").is_empty() && two("united states") == two("americans"));
    }
}
