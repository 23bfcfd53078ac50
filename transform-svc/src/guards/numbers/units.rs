//! Units of measurement, by word and sign, in English, German, French and Spanish. `units.txt` has
//! the words.

use std::{collections::HashMap, sync::LazyLock};

use crate::word_lists::WordLists;

/// The measured dimension. Values of one dimension can be converted into each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Dimension {
    /// No unit.
    None,
    /// Share of a whole: percent and fractions.
    Ratio,
    Length,
    Mass,
    Time,
    Volume,
    Speed,
    Area,
    Celsius,
    Fahrenheit,
    Data,
    Power,
    Dollar,
    Euro,
    Pound,
    Yen,
    Rupee,
    /// A time of day, in minutes from midnight.
    Clock,
    Month,
    Weekday,
}

isomer_names::names!(Dimension {
    Ratio = "ratio", Length = "length", Mass = "mass", Time = "time", Volume = "volume", Speed = "speed", Area = "area",
    Celsius = "celsius", Fahrenheit = "fahrenheit", Data = "data", Power = "power", Dollar = "dollar", Euro = "euro",
    Pound = "pound", Yen = "yen", Rupee = "rupee"
} None = "none", Clock = "clock", Month = "month", Weekday = "weekday");

/// A unit: its dimension and its size in base units.
pub(super) type Unit = (Dimension, f64);

struct Word {
    units: Vec<Unit>,
    /// Whether it is a unit only after digits.
    is_short: bool,
}

static WORDS: LazyLock<HashMap<&str, Word>> = LazyLock::new(|| {
    let unit = |text: &str| {
        let (dimension, size) = text.split_once(' ')?;
        Some((Dimension::named(dimension)?, size.parse().ok()?))
    };
    let mut all = HashMap::new();
    for (measure, words) in WordLists::read(include_str!("units.txt")).iter() {
        let short = measure.strip_prefix("after digits, ");
        let units: Vec<Unit> = short.unwrap_or(measure).split(", ").filter_map(unit).collect();
        all.extend(words.iter().map(|word| {
            let (units, is_short) = (units.clone(), short.is_some());
            (*word, Word { units, is_short })
        }));
    }
    all
});

/// The unit of a lower-case word that follows a number, written in digits or in words.
pub(super) fn of_word(word: &str, after_digits: bool) -> Option<Vec<Unit>> {
    let word = WORDS.get(word).filter(|word| after_digits || !word.is_short)?;
    Some(word.units.clone())
}

/// The currency of a sign.
pub(super) fn of_sign(sign: char) -> Option<Unit> {
    Some(match sign {
        '$' => (Dimension::Dollar, 1.0),
        '€' => (Dimension::Euro, 1.0),
        '£' => (Dimension::Pound, 1.0),
        '¥' => (Dimension::Yen, 1.0),
        '₹' => (Dimension::Rupee, 1.0),
        '%' | '٪' | '％' => (Dimension::Ratio, 0.01),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_file_has_its_units() {
        let lists = WordLists::read(include_str!("units.txt"));
        assert_eq!(WORDS.len(), lists.iter().map(|(_, words)| words.len()).sum::<usize>());
        for (measure, words) in lists.iter() {
            let units = measure.trim_start_matches("after digits, ").split(", ").count();
            assert!(words.iter().all(|word| WORDS[word].units.len() == units), "{measure}");
        }
        assert_eq!(of_word("stunden", false), Some(vec![(Dimension::Time, 3600.0)]));
        assert_eq!(
            (of_word("h", false), of_word("h", true)),
            (None, Some(vec![(Dimension::Time, 3600.0)]))
        );
    }
}
