//! The numbers, dates, times and units that a text states.

use super::{
    calendar,
    lex::{Piece, Token, lex},
    numerals,
    units::{self, Dimension, Unit},
};

/// One reading of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    pub(super) dimension: Dimension,
    /// The number as written.
    pub(super) raw: f64,
    /// The number in the dimension's base unit.
    pub(super) base: f64,
}

impl Reading {
    fn of(raw: f64, (dimension, factor): Unit) -> Self {
        Self {
            dimension,
            raw,
            base: raw * factor,
        }
    }

    fn bare(raw: f64) -> Self {
        Self::of(raw, (Dimension::None, 1.0))
    }
}

/// A fact that a text states.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fact {
    Quantity(Vec<Reading>),
    /// A name that contains digits.
    Code(String),
}

/// A fact with its weight.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WeightedFact {
    pub(super) fact: Fact,
    /// Whether the word also has another meaning. It can match a changed fact, but its loss is not
    /// reported.
    pub(super) weak: bool,
    /// Whether a language with unknown number words may spell out this number.
    pub(super) spellable: bool,
}

/// Words that make the following or preceding number negative.
const BELOW_ZERO: [&str; 4] = ["below zero", "unter null", "bajo cero", "below freezing"];

struct Scanner<'a> {
    tokens: Vec<Token>,
    language: &'a str,
    below_zero: bool,
    stated: Vec<WeightedFact>,
}

/// The facts of a text. Words are read in its language; without a language, only digits are read.
pub(super) fn scan(text: &str, language: Option<&str>) -> Vec<WeightedFact> {
    let lower = text.to_lowercase();
    let mut scanner = Scanner {
        tokens: lex(text, language),
        language: language
            .filter(|code| numerals::LANGUAGES.contains(code))
            .unwrap_or_default(),
        below_zero: BELOW_ZERO.iter().any(|words| lower.contains(words)) || lower.contains("au-dessous de zéro"),
        stated: Vec::new(),
    };
    let mut at = 0;
    while at < scanner.tokens.len() {
        at = scanner.step(at);
    }
    scanner.stated
}

/// The possible values of digits: a single point or comma before three digits separates thousands
/// in one language and decimals in another.
fn values(written: &str) -> Vec<f64> {
    let marks: Vec<char> = written.chars().filter(|c| matches!(c, '.' | ',')).collect();
    let plain: String = written.chars().filter(char::is_ascii_digit).collect();
    let decimal = |mark: char| -> Option<f64> {
        let (whole, part) = written.rsplit_once(mark)?;
        let whole: String = whole.chars().filter(char::is_ascii_digit).collect();
        format!("{whole}.{part}").parse().ok()
    };
    let grouped = plain.parse().ok();
    let read = match marks.as_slice() {
        [] => [grouped, None],
        [mark] => {
            let (before, after) = written.split_once(*mark).unwrap_or_default();
            let group = after.len() == 3 && (1..=3).contains(&before.len()) && !before.starts_with('0');
            [decimal(*mark), grouped.filter(|_| group)]
        }
        [first, .., last] if first == last => [grouped, None],
        [.., last] => [decimal(*last), None],
    };
    read.into_iter().flatten().collect()
}

/// Whether a number is often spelled out.
fn spellable(value: f64) -> bool {
    value.fract() == 0.0
        && (value.abs() <= 100.0
            || [100.0, 1e6]
                .iter()
                .any(|unit| value % unit == 0.0 && value / unit < 100.0))
}

impl Scanner<'_> {
    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at)
    }

    fn word(&self, at: usize) -> Option<&str> {
        self.token(at).and_then(Token::word)
    }

    fn before(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at.checked_sub(1)?)
    }

    fn is_number(&self, at: usize) -> bool {
        self.token(at)
            .is_some_and(|token| matches!(token.piece, Piece::Digits(_)))
    }

    fn state(&mut self, readings: Vec<Reading>, weak: bool) {
        let spellable = readings.iter().all(|reading| spellable(reading.raw));
        self.stated.push(WeightedFact {
            fact: Fact::Quantity(readings),
            weak,
            spellable,
        });
    }

    fn special(&mut self, dimension: Dimension, value: u32, weak: bool) {
        self.state(vec![Reading::of(f64::from(value), (dimension, 1.0))], weak);
    }

    /// Reads the fact at a token; returns the index of the token after it.
    fn step(&mut self, at: usize) -> usize {
        let Some(token) = self.token(at).cloned() else {
            return at + 1;
        };
        match token.piece {
            Piece::Code(code) => {
                self.stated.push(WeightedFact {
                    fact: Fact::Code(code),
                    weak: false,
                    spellable: false,
                });
                at + 1
            }
            Piece::Clock(hours, minutes) => {
                let end = self.clock(hours, minutes, at + 1);
                end.max(at + 1)
            }
            Piece::Digits(written) => self.iso_date(at).unwrap_or_else(|| self.digits(at, &written)),
            Piece::Word(word) => self.of_word(at, &word, token.capital),
            Piece::Sign(sign) => {
                if let Some(value) = vulgar(sign) {
                    self.state(vec![Reading::of(value, (Dimension::Ratio, 1.0))], false);
                }
                at + 1
            }
        }
    }

    /// 2023-05-17.
    fn iso_date(&mut self, at: usize) -> Option<usize> {
        let digits = |at: usize, length: usize| match &self.token(at)?.piece {
            Piece::Digits(written) if written.len() == length => written.parse::<u32>().ok(),
            _ => None,
        };
        let (year, month, day) = (digits(at, 4)?, digits(at + 2, 2)?, digits(at + 4, 2)?);
        let dashed = self.token(at + 1)?.is('-') && self.token(at + 3)?.is('-');
        if !dashed || !(1..=12).contains(&month) || day > 31 {
            return None;
        }
        self.state(vec![Reading::bare(f64::from(year))], false);
        self.special(Dimension::Month, month, false);
        self.state(vec![Reading::bare(f64::from(day))], false);
        Some(at + 5)
    }

    fn digits(&mut self, at: usize, written: &str) -> usize {
        let mut next = at + 1;
        let mut read = values(written);
        // A fraction such as 2/3; not a date, and not 24/7.
        if self.token(next).is_some_and(|token| token.is('/') && token.glued)
            && !self.token(next + 2).is_some_and(|token| token.is('/'))
        {
            let below = match self.token(next + 1).map(|token| &token.piece) {
                Some(Piece::Digits(below)) => values(below).first().copied(),
                _ => None,
            };
            if let (Some(above), Some(below)) = (read.first().copied(), below)
                && above < below
                && (2.0..=10.0).contains(&below)
            {
                self.state(vec![Reading::of(above / below, (Dimension::Ratio, 1.0))], false);
                return next + 2;
            }
        }
        let signed = self
            .before(at)
            .is_some_and(|sign| matches!(sign.piece, Piece::Sign('-' | '−' | '–')) && !sign.glued)
            && self.token(at).is_some_and(|token| token.glued);
        if signed
            || self
                .before(at)
                .and_then(Token::word)
                .is_some_and(|word| matches!(word, "minus" | "moins" | "menos"))
        {
            for value in &mut read {
                *value = -*value;
            }
        } else if self.below_zero {
            read.extend(read.clone().iter().map(|value| -value));
        }
        let currency = self.before(at).and_then(|token| match token.piece {
            Piece::Sign(sign) => units::of_sign(sign).filter(|(dimension, _)| *dimension != Dimension::Ratio),
            _ => None,
        });
        // Suffixes attached to the digits.
        let suffix = self
            .token(next)
            .filter(|token| token.glued)
            .and_then(Token::word)
            .unwrap_or_default()
            .to_owned();
        match suffix.as_str() {
            "s" | "'s"
                if read
                    .iter()
                    .all(|value| (10.0..2200.0).contains(value) && value % 10.0 == 0.0) =>
            {
                let decade = read.first().copied().unwrap_or_default();
                self.state(vec![Reading::bare(decade), Reading::bare(decade % 100.0)], false);
                return next + 1;
            }
            "er" | "ers" if read.iter().all(|value| *value >= 20.0 && value % 10.0 == 0.0) => {
                let decade = read.first().copied().unwrap_or_default();
                self.state(vec![Reading::bare(decade), Reading::bare(decade % 100.0)], false);
                return next + 1;
            }
            "st" | "nd" | "rd" | "th" | "er" | "e" | "ème" | "º" | "ª" | "'s" => next += 1,
            "k" => {
                for value in &mut read {
                    *value *= 1e3;
                }
                next += 1;
            }
            "m" if currency.is_some() => {
                for value in &mut read {
                    *value *= 1e6;
                }
                next += 1;
            }
            "m" => read.extend(read.clone().iter().map(|value| value * 1e6)),
            "h" => {
                if let (Some(hours), Some(Piece::Digits(minutes))) =
                    (read.first(), self.token(next + 1).map(|token| token.piece.clone()))
                    && minutes.len() == 2
                    && let Ok(minutes) = minutes.parse()
                {
                    return self.clock(*hours as u32, minutes, next + 2);
                }
            }
            _ => {}
        }
        // 8.30pm
        if let (Some((hours, minutes)), Some("am" | "pm")) = (written.split_once('.'), self.word(next))
            && let (Ok(hours @ 0..=12), Ok(minutes @ 0..=59)) = (hours.parse(), minutes.parse())
        {
            return self.clock(hours, minutes, next);
        }
        if matches!(self.word(next), Some("am" | "pm" | "o'clock" | "uhr"))
            && let Some(hours) = read.first().filter(|value| (0.0..=24.0).contains(*value))
        {
            let minutes = match (self.word(next), self.token(next + 1).map(|token| &token.piece)) {
                (Some("uhr"), Some(Piece::Digits(minutes))) => minutes.parse().ok().filter(|minutes| *minutes < 60),
                _ => None,
            };
            let hours = *hours as u32;
            return match minutes {
                Some(minutes) => self.clock(hours, minutes, next).max(next + 2),
                None => self.clock(hours, 0, next),
            };
        }
        self.quantity(at, next, &read, currency, true, read.iter().all(|value| *value == 1.0))
    }

    /// Reads a time of day; returns the index of the token after it.
    fn clock(&mut self, hours: u32, minutes: u32, next: usize) -> usize {
        let after = self.word(next).map(str::to_owned);
        let half = match after.as_deref() {
            Some("am") => Some(hours % 12),
            Some("pm") => Some(hours % 12 + 12),
            _ => None,
        };
        let both = |hours: u32| {
            if hours <= 12 {
                vec![hours % 24, (hours + 12) % 24]
            } else {
                vec![hours % 24]
            }
        };
        let readings = half.map_or_else(|| both(hours), |hours| vec![hours]);
        let readings = readings
            .into_iter()
            .map(|hour| Reading {
                dimension: Dimension::Clock,
                raw: if minutes == 0 { f64::from(hours) } else { f64::NAN },
                base: f64::from(hour * 60 + minutes),
            })
            .collect();
        self.state(readings, false);
        next + usize::from(matches!(
            after.as_deref(),
            Some("am" | "pm" | "o'clock" | "uhr" | "heures" | "horas")
        ))
    }

    /// Reads a number whose digits or words end before `next`, with its multiplier and its unit.
    fn quantity(
        &mut self,
        at: usize,
        next: usize,
        read: &[f64],
        currency: Option<Unit>,
        digits: bool,
        weak: bool,
    ) -> usize {
        let mut next = next;
        let mut read = read.to_vec();
        while let Some(factor) = self
            .word(next)
            .and_then(numerals::scale)
            .filter(|factor| *factor >= 1e3)
        {
            for value in &mut read {
                *value *= factor;
            }
            next += 1;
        }
        if self.half_follows(next) {
            for value in &mut read {
                *value += 0.5;
            }
            next += 2 + usize::from(self.language == "en");
        }
        if let Some(part) = self.token(next).and_then(|token| match token.piece {
            Piece::Sign(sign) => vulgar(sign),
            _ => None,
        }) {
            for value in &mut read {
                *value += part;
            }
            next += 1;
        }
        let (units, end) = self.unit(next, digits);
        let units = currency.map_or(units, |unit| Some(vec![unit]));
        // "An hour and a half".
        let end = if units.is_some() && self.half_follows(end) {
            for value in &mut read {
                *value += 0.5;
            }
            end + 2 + usize::from(self.language == "en")
        } else {
            end
        };
        let readings = match &units {
            Some(units) => read
                .iter()
                .flat_map(|value| units.iter().map(|unit| Reading::of(*value, *unit)))
                .collect(),
            None => read.iter().map(|value| Reading::bare(*value)).collect(),
        };
        let weak = weak && !self.half_follows(next) && read.iter().all(|value| value.fract() == 0.0);
        self.state(readings, weak);
        end.max(at + 1)
    }

    fn half_follows(&self, at: usize) -> bool {
        matches!(
            (self.language, self.word(at), self.word(at + 1), self.word(at + 2)),
            ("en", Some("and"), Some("a"), Some("half"))
                | ("fr", Some("et"), Some("demi" | "demie"), _)
                | ("es", Some("y"), Some("medio" | "media"), _)
        )
    }

    /// The unit at a token, and the index of the next token.
    fn unit(&self, at: usize, digits: bool) -> (Option<Vec<Unit>>, usize) {
        let mut at = at;
        // Ten-year, 5-mile.
        if self.token(at).is_some_and(|token| token.is('-') && token.glued)
            && self
                .token(at + 1)
                .is_some_and(|token| token.glued && token.word().is_some())
        {
            at += 1;
        }
        let Some(token) = self.token(at) else { return (None, at) };
        match &token.piece {
            Piece::Sign('°') => match self.word(at + 1) {
                Some("c" | "celsius") => (Some(vec![(Dimension::Celsius, 1.0)]), at + 2),
                Some("f" | "fahrenheit") => (Some(vec![(Dimension::Fahrenheit, 1.0)]), at + 2),
                _ => (units::of_word("degrees", true), at + 1),
            },
            Piece::Sign(sign) => match units::of_sign(*sign) {
                Some(unit) => (Some(vec![unit]), at + 1),
                None => (None, at),
            },
            Piece::Word(word) => {
                let following = self.word(at + 1);
                match (word.as_str(), following) {
                    ("per", Some("cent")) | ("pour", Some("cent")) | ("por", Some("ciento")) => {
                        return (Some(vec![(Dimension::Ratio, 0.01)]), at + 2);
                    }
                    ("degrees" | "degree" | "grad" | "degrés" | "grados", Some("celsius" | "c")) => {
                        return (Some(vec![(Dimension::Celsius, 1.0)]), at + 2);
                    }
                    ("degrees" | "degree" | "grad" | "degrés" | "grados", Some("fahrenheit" | "f")) => {
                        return (Some(vec![(Dimension::Fahrenheit, 1.0)]), at + 2);
                    }
                    _ => {}
                }
                let Some(units) = units::of_word(word, digits) else {
                    return (None, at);
                };
                // "Per hour" turns a length into a speed.
                let slash = self.token(at + 1).is_some_and(|token| token.is('/'));
                let rate = matches!(
                    (slash, following, self.word(at + 2)),
                    (true, _, Some("h" | "hr" | "hour")) | (false, Some("per" | "an"), Some("hour"))
                );
                if let Some((_, metres)) = units
                    .iter()
                    .find(|(dimension, _)| *dimension == Dimension::Length)
                    .filter(|_| rate)
                {
                    return (Some(vec![(Dimension::Speed, metres / 1000.0)]), at + 3);
                }
                (Some(units), at + 1)
            }
            _ => (None, at),
        }
    }

    fn of_word(&mut self, at: usize, word: &str, capital: bool) -> usize {
        let near_number = at.checked_sub(1).is_some_and(|before| self.is_number(before))
            || self.is_number(at + 1)
            || at.checked_sub(2).is_some_and(|before| self.is_number(before));
        if !self.language.is_empty() {
            let opens = at == 0
                || self
                    .before(at)
                    .is_some_and(|token| token.is('.') || token.is('!') || token.is('?'));
            if let Some((month, doubtful)) = calendar::month(word)
                && (!doubtful
                    || (near_number && capital)
                    || (capital && !opens && word != "mar" && self.language != "fr"))
            {
                self.special(Dimension::Month, month, false);
                return at + 1;
            }
            if let Some((day, short)) = calendar::weekday(word)
                && (!short || (capital && !opens && self.language == "en"))
            {
                self.special(Dimension::Weekday, day, false);
                return at + 1;
            }
        }
        match (self.language, word) {
            ("en", "noon" | "midday") => {
                self.state(vec![clock_reading(12)], true);
                return at + 1;
            }
            ("en", "midnight") => {
                self.state(vec![clock_reading(0)], true);
                return at + 1;
            }
            // "A" and "an" before a unit mean one, also in the sense of "per week".
            ("en", "a" | "an") => {
                let unit = self.word(at + 1).and_then(|word| units::of_word(word, false));
                if unit.is_some_and(|units| units.iter().any(|(dimension, _)| *dimension == Dimension::Time)) {
                    return self.quantity(at, at + 1, &[1.0], None, false, true);
                }
            }
            _ => {}
        }
        if let Some(end) = self.fraction(at, word) {
            return end;
        }
        if let Some(decade) = numerals::decade(self.language, word) {
            self.state(vec![Reading::bare(decade), Reading::bare(1900.0 + decade)], false);
            return at + 1;
        }
        let (words, places) = self.run(at);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let before = self.before(at).and_then(Token::word);
        let Some(numeral) = numerals::read(self.language, &words, before) else {
            return at + 1;
        };
        let next = places.get(numeral.words - 1).map_or(at + 1, |place| place + 1);
        // Roman numerals follow a name.
        if numeral.weak && word.len() > 1 && word.chars().all(|c| matches!(c, 'i' | 'v' | 'x')) && !capital {
            return at + 1;
        }
        // Two thirds.
        if !numeral.ordinal
            && !numeral.weak
            && let Some(part) = self
                .word(next)
                .and_then(|word| numerals::fraction(self.language, word))
                .filter(|part| *part < 0.5)
        {
            self.state(vec![Reading::of(numeral.value * part, (Dimension::Ratio, 1.0))], false);
            return next + 1;
        }
        if numeral.ordinal {
            let mut readings = vec![Reading::bare(numeral.value)];
            if numeral.value <= 10.0 {
                readings.push(Reading::of(1.0 / numeral.value, (Dimension::Ratio, 1.0)));
            }
            self.state(readings, false);
            return next;
        }
        if matches!(self.word(next), Some("o'clock" | "uhr" | "am" | "pm")) && (0.0..=24.0).contains(&numeral.value) {
            return self.clock(numeral.value as u32, 0, next);
        }
        // "Second" and "first" have no unit, and "one" alone is weak with or without a unit.
        let ordinal_word = matches!(word, "first" | "second" | "once" | "twice" | "both" | "pair" | "couple");
        if ordinal_word {
            let end = self.pair_of(next);
            let (units, end) = self.unit(end, false);
            let readings = match units.filter(|_| matches!(word, "pair" | "couple")) {
                Some(units) => units.into_iter().map(|unit| Reading::of(numeral.value, unit)).collect(),
                None => vec![Reading::bare(numeral.value)],
            };
            let taken = matches!(word, "pair" | "couple");
            self.state(readings, true);
            return if taken { end.max(next) } else { next };
        }
        self.quantity(at, next, &[numeral.value], None, false, numeral.weak)
    }

    /// The index after "couple", skipping an "of".
    fn pair_of(&self, at: usize) -> usize {
        at + usize::from(self.word(at) == Some("of"))
    }

    /// Half, a quarter, the units of half an hour.
    fn fraction(&mut self, at: usize, word: &str) -> Option<usize> {
        let quarter = self.language == "en"
            && word == "quarter"
            && self
                .before(at)
                .and_then(Token::word)
                .is_some_and(|before| matches!(before, "a" | "one"));
        let value = if quarter {
            0.25
        } else {
            numerals::fraction(self.language, word)?
        };
        // The "half" of "first half" (of a match) is not a quantity.
        if self
            .before(at)
            .and_then(Token::word)
            .is_some_and(|before| matches!(before, "first" | "second" | "latter" | "other"))
        {
            return Some(at + 1);
        }
        let mut next = at + 1;
        if self.token(next).is_some_and(|token| token.is('-')) {
            next += 1;
        }
        if matches!(self.word(next), Some("a" | "an")) {
            next += 1;
        }
        if let Some(scale) = self.word(next).and_then(numerals::scale) {
            self.state(vec![Reading::bare(value * scale)], false);
            return Some(next + 1);
        }
        let (units, end) = self.unit(next, false);
        match units {
            Some(units) => {
                self.state(units.into_iter().map(|unit| Reading::of(value, unit)).collect(), false);
                Some(end)
            }
            None => {
                self.state(vec![Reading::of(value, (Dimension::Ratio, 1.0))], false);
                Some(at + 1)
            }
        }
    }

    /// The words, starting at a token, that may form a spelled-out number, without hyphens, and
    /// their positions.
    fn run(&self, at: usize) -> (Vec<String>, Vec<usize>) {
        let (mut words, mut places) = (Vec::new(), Vec::new());
        let mut place = at;
        while let Some(token) = self.token(place) {
            match &token.piece {
                Piece::Word(word) => {
                    words.push(word.clone());
                    places.push(place);
                }
                Piece::Sign('-') if token.glued => {}
                _ => break,
            }
            place += 1;
            if words.len() > 10 {
                break;
            }
        }
        (words, places)
    }
}

fn clock_reading(hour: u32) -> Reading {
    Reading {
        dimension: Dimension::Clock,
        raw: f64::from(hour),
        base: f64::from(hour * 60),
    }
}

fn vulgar(sign: char) -> Option<f64> {
    Some(match sign {
        '½' => 0.5,
        '¼' => 0.25,
        '¾' => 0.75,
        '⅓' => 1.0 / 3.0,
        '⅔' => 2.0 / 3.0,
        _ => return None,
    })
}
