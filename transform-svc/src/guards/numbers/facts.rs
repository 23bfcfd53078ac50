//! The facts of a text, indexed for matching. The cost of a lookup does not grow with the text.

use std::collections::{HashMap, HashSet};

use super::{
    close, equal,
    scan::{Fact, Reading, WeightedFact},
    units::Dimension,
};

/// The facts of a text.
pub(super) struct Facts<'a> {
    codes: HashSet<&'a str>,
    /// The numbers in the codes, ascending.
    numbers: Vec<f64>,
    /// A dimension and the size of a unit in base units.
    readings: HashMap<Unit, Vec<Reading>>,
}

/// A dimension, and how many base units a unit is.
type Unit = (Dimension, u32);

fn unit(reading: &Reading) -> Unit {
    let factor = reading.base / reading.raw;
    // Zero and times of day have no factor. Factors are rounded, so that each unit has one list.
    let factor = if factor.is_nan() { 0 } else { (factor as f32).to_bits() };
    (reading.dimension, factor)
}

/// The number in a code: "G7" and "Group of Seven" mean the same.
fn number(code: &str) -> Option<f64> {
    let digits: String = code.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The neighbours of a value in an ascending list.
fn near<T>(list: &[T], below: impl Fn(&T) -> bool) -> &[T] {
    let at = list.partition_point(below);
    &list[at.saturating_sub(1)..list.len().min(at + 1)]
}

impl<'a> Facts<'a> {
    pub(super) fn new(stated: &'a [WeightedFact]) -> Self {
        let (mut codes, mut readings) = (HashSet::new(), HashMap::<_, Vec<_>>::new());
        for stated in stated {
            match &stated.fact {
                Fact::Code(code) => {
                    codes.insert(code.as_str());
                }
                Fact::Quantity(own) => {
                    for reading in own {
                        readings.entry(unit(reading)).or_default().push(*reading);
                    }
                }
            }
        }
        let mut numbers: Vec<f64> = codes.iter().filter_map(|code| number(code)).collect();
        numbers.sort_unstable_by(f64::total_cmp);
        for list in readings.values_mut() {
            list.sort_unstable_by(|a, b| a.base.total_cmp(&b.base));
        }
        Self {
            codes,
            numbers,
            readings,
        }
    }

    /// Whether a fact matches one of these facts.
    pub(super) fn have(&self, fact: &Fact) -> bool {
        match fact {
            Fact::Code(code) => {
                self.codes.contains(code.as_str())
                    || number(code).is_some_and(|value| {
                        let raw = |list: &Vec<Reading>| {
                            near(list, |reading| reading.raw < value)
                                .iter()
                                .any(|reading| close(reading.raw, value))
                        };
                        self.readings.values().any(raw)
                    })
            }
            Fact::Quantity(readings) => readings.iter().any(|one| {
                let in_code = near(&self.numbers, |number| *number < one.raw);
                in_code.iter().any(|number| close(*number, one.raw))
                    || self.readings.values().any(|list| {
                        // Matching values lie in an interval around the value sought, so one of its
                        // neighbours matches.
                        let by_raw = near(list, |other| other.raw < one.raw);
                        let by_base = near(list, |other| other.base < one.base);
                        by_raw.iter().chain(by_base).any(|other| equal(*one, *other))
                    })
            }),
        }
    }
}
