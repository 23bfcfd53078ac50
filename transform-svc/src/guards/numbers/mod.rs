//! Numbers, dates, times and units: whether the rewrite states all quantities of the original, and
//! no others.
//!
//! Each text becomes a list of quantities ([`scan`]). A quantity has every reading that its form
//! allows (`1.500` is 1.5 or 1500), in a base unit, so that "1,500 metres" and "1.5 kilometres" are
//! equal. Two quantities match if a reading of one matches a reading of the other. A quantity
//! without a match in the other text is lost or added.

mod calendar;
mod facts;
mod lex;
mod numerals;
mod scan;
mod units;

use super::{Finding, Guard, GuardRow, Policy};
use facts::Facts;
use scan::{Reading, WeightedFact, scan};
use units::Dimension;

/// Maximum relative difference between two values in different units of one dimension, because
/// conversions are rounded.
const ROUNDING: f64 = 0.03;

pub(super) const GUARD: GuardRow = GuardRow {
    guard: Guard::Numbers,
    facts: "numbers, dates, times and units, in any form (\"3\", \"three\", \"1.5 km\", \"1,500 metres\")",
    languages: "digits: all; words: en de fr es",
    elsewhere: "small numbers: cannot tell",
    may_add: false,
    translates: true,
    look: |pair, policy| look(pair.original, pair.rewrite, pair.source, pair.target, policy),
};

fn look(original: &str, rewrite: &str, source: Option<&str>, target: Option<&str>, policy: Policy) -> Finding {
    let (before, after) = (scan(original, source), scan(rewrite, target));
    let lost = if policy.lost {
        missing(&before, &after, target)
    } else {
        Finding::Kept
    };
    let added = if policy.added {
        missing(&after, &before, source)
    } else {
        Finding::Kept
    };
    match (lost, added) {
        (Finding::Broken, _) | (_, Finding::Broken) => Finding::Broken,
        (Finding::Unknown, _) | (_, Finding::Unknown) => Finding::Unknown,
        _ if before.is_empty() && after.is_empty() && !(knows(source) && knows(target)) => Finding::Unknown,
        _ => Finding::Kept,
    }
}

fn knows(language: Option<&str>) -> bool {
    language.is_some_and(|code| numerals::LANGUAGES.contains(&code))
}

/// Whether a stated quantity is missing from the other text, which is in `language`.
fn missing(stated: &[WeightedFact], other: &[WeightedFact], language: Option<&str>) -> Finding {
    let other = Facts::new(other);
    let mut finding = Finding::Kept;
    for one in stated.iter().filter(|one| !one.weak && !other.have(&one.fact)) {
        if knows(language) || !one.spellable {
            return Finding::Broken;
        }
        finding = Finding::Unknown;
    }
    finding
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).clamp(1.0, f64::MAX)
}

fn equal(a: Reading, b: Reading) -> bool {
    let named = |dimension| matches!(dimension, Dimension::Month | Dimension::Weekday);
    if named(a.dimension) || named(b.dimension) {
        let month = [a.dimension, b.dimension].contains(&Dimension::Month);
        let bare = [a.dimension, b.dimension].contains(&Dimension::None);
        return close(a.raw, b.raw) && (a.dimension == b.dimension || (month && bare));
    }
    if a.dimension == b.dimension {
        if a.dimension == Dimension::Clock {
            return close(a.base, b.base);
        }
        // Values in one unit must be equal; values in different units may have been rounded.
        let one_unit = close(a.base * b.raw, b.base * a.raw);
        return close(a.base, b.base)
            || (!one_unit && (a.base - b.base).abs() <= ROUNDING * a.base.abs().max(b.base.abs()));
    }
    let loose = |dimension| matches!(dimension, Dimension::None);
    let clock = |dimension| matches!(dimension, Dimension::Clock);
    if loose(a.dimension) || loose(b.dimension) {
        return close(a.raw, b.raw);
    }
    // "19 heures" is a time of day and a duration.
    if clock(a.dimension) || clock(b.dimension) {
        let time = [a.dimension, b.dimension].contains(&Dimension::Time);
        return time && close(a.raw, b.raw);
    }
    // 25 degrees may be an angle or a temperature.
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Policy = Policy {
        lost: true,
        added: true,
    };

    fn english(original: &str, rewrite: &str) -> Finding {
        look(original, rewrite, Some("en"), Some("en"), BOTH)
    }

    #[test]
    fn one_number_in_two_forms_is_kept() {
        for (original, rewrite) in [
            ("It weighs 2.5 kg.", "Its weight is two and a half kilograms."),
            ("It costs $3m.", "The price is three million dollars."),
            ("Call at 5.30pm.", "Call at 17:30."),
            ("It grew by ½.", "It grew by 50 percent."),
            ("She turned 40 in the '90s.", "She turned forty in the nineties."),
            ("It is 5 °C.", "It is 5 degrees Celsius."),
            ("The limit is 60 mph.", "You may drive at sixty miles per hour."),
            ("Half an hour is enough.", "Thirty minutes are enough."),
            ("It takes a week.", "It takes seven days."),
        ] {
            assert_eq!(english(original, rewrite), Finding::Kept, "{original} / {rewrite}");
        }
    }

    #[test]
    fn another_number_unit_or_date_is_found() {
        for (original, rewrite) in [
            ("It weighs 2.5 kg.", "It weighs 25 kg."),
            ("It weighs 2.5 kg.", "It weighs 2.5 g."),
            ("Come on 3 May.", "Come on 3 June."),
            ("Come at 5:15.", "Come at 5:45."),
            ("It is -3 degrees.", "It is 3 degrees."),
            ("Buy the X200.", "Buy the X300."),
        ] {
            assert_eq!(english(original, rewrite), Finding::Broken, "{original} / {rewrite}");
        }
    }

    #[test]
    fn a_language_without_number_words_leaves_small_numbers_untold_and_finds_others() {
        let swahili = |original, rewrite| look(original, rewrite, Some("sw"), Some("sw"), BOTH);
        assert_eq!(swahili("Watu 3 walifika.", "Watu watatu walifika."), Finding::Unknown);
        assert_eq!(swahili("Mwaka 1987.", "Mwaka ule."), Finding::Broken);
        assert_eq!(swahili("Mwaka 1987.", "Ni 1987."), Finding::Kept);
        assert_eq!(
            swahili("Watu watatu walifika.", "Watu wanne walifika."),
            Finding::Unknown
        );
    }

    #[test]
    fn a_policy_says_which_side_is_asked() {
        let summary = Policy {
            lost: false,
            added: true,
        };
        let short = |rewrite| look("In 2019, 14 ships sank.", rewrite, Some("en"), Some("en"), summary);
        assert_eq!(short("Ships sank."), Finding::Kept);
        assert_eq!(short("15 ships sank."), Finding::Broken);
    }
    #[test]
    fn a_number_beyond_all_others_is_found_again_and_matches_no_small_one() {
        let vast = format!("It has {} parts.", "9".repeat(400));
        assert_eq!(english(&vast, &vast), Finding::Kept);
        assert_eq!(english(&vast, "It has 5 parts."), Finding::Broken);
    }
}
