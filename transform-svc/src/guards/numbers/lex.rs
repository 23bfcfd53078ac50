//! Splits a text into digits, words and signs.

/// A piece of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// Digits with their separators, in ASCII.
    Digits(String),
    /// Hours and minutes.
    Clock(u32, u32),
    /// Letters, in lower case.
    Word(String),
    /// Letters and digits together, such as `s21` or `covid-19`, in lower case.
    Code(String),
    /// Any other character that is not white space.
    Sign(char),
}

/// A piece with its context.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) piece: Piece,
    /// Whether no white space precedes the piece.
    pub(super) glued: bool,
    /// Whether the piece begins with a capital.
    pub(super) capital: bool,
}

impl Token {
    pub(super) fn word(&self) -> Option<&str> {
        match &self.piece {
            Piece::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn is(&self, sign: char) -> bool {
        self.piece == Piece::Sign(sign)
    }
}

/// The digit zero of each script.
const ZEROS: [char; 6] = ['0', '٠', '۰', '०', '๐', '０'];

fn digit(c: char) -> Option<char> {
    let value = ZEROS
        .iter()
        .find_map(|zero| (c as u32).checked_sub(*zero as u32).filter(|value| *value < 10))?;
    char::from_digit(value, 10)
}

/// Prefixes that a hyphen and digits may follow, as a number.
const PREFIXES: [&str; 12] = [
    "mid", "pre", "post", "late", "early", "under", "over", "sub", "non", "ab", "bis", "top",
];
/// Letters that may directly follow digits without forming a code.
const SUFFIXES: [&str; 36] = [
    "'s", "’s", "s", "st", "nd", "rd", "th", "k", "m", "bn", "mn", "am", "pm", "h", "er", "ers", "e", "ème", "º", "ª",
    "km", "cm", "mm", "kg", "g", "mg", "ml", "l", "gb", "mb", "tb", "kw", "mw", "min", "ft", "lb",
];
/// Languages that write a space between groups of three digits.
const SPACED: [&str; 10] = ["fr", "es", "sv", "no", "fi", "pl", "cs", "ru", "uk", "sk"];

struct Lexer<'a> {
    chars: Vec<char>,
    language: Option<&'a str>,
    tokens: Vec<Token>,
}

/// The pieces of a text.
pub(super) fn lex(text: &str, language: Option<&str>) -> Vec<Token> {
    let text = text
        .replace("a.m.", "am")
        .replace("p.m.", "pm")
        .replace("A.M.", "AM")
        .replace("P.M.", "PM");
    let mut lexer = Lexer {
        chars: text.chars().collect(),
        language,
        tokens: Vec::new(),
    };
    let (mut at, mut glued) = (0, false);
    while let Some(c) = lexer.chars.get(at).copied() {
        let next = if c.is_whitespace() {
            at + 1
        } else if digit(c).is_some() {
            lexer.number(at, glued)
        } else if c.is_alphabetic() {
            lexer.letters(at, glued)
        } else {
            lexer.push(Piece::Sign(c), glued, false);
            at + 1
        };
        glued = !c.is_whitespace();
        at = next;
    }
    lexer.tokens
}

impl Lexer<'_> {
    fn push(&mut self, piece: Piece, glued: bool, capital: bool) {
        self.tokens.push(Token { piece, glued, capital });
    }

    fn digit(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied().and_then(digit)
    }

    fn digits_from(&self, mut at: usize) -> usize {
        let begin = at;
        while self.digit(at).is_some() {
            at += 1;
        }
        at - begin
    }

    fn letter_end(&self, mut at: usize) -> usize {
        while let Some(c) = self.chars.get(at) {
            let apostrophe = matches!(c, '\'' | '’') && self.chars.get(at + 1).is_some_and(|next| next.is_alphabetic());
            if !(c.is_alphabetic() || apostrophe || matches!(*c as u32, 0x300..=0x36F)) {
                break;
            }
            at += 1;
        }
        at
    }

    fn number(&mut self, begin: usize, glued: bool) -> usize {
        let mut written: String = String::new();
        let mut at = begin;
        loop {
            let group = self.digits_from(at);
            written.extend((at..at + group).filter_map(|i| self.digit(i)));
            at += group;
            let after = self.digits_from(at + 1);
            let spaced = self.language.is_some_and(|language| SPACED.contains(&language));
            match self.chars.get(at) {
                Some('.' | ',' | '٫' | '٬') if after > 0 => {
                    let sign = match self.chars[at] {
                        '٫' => '.',
                        '٬' => ',',
                        sign => sign,
                    };
                    written.push(sign);
                }
                Some('\'' | '’') if after == 3 => {}
                Some('\u{a0}' | '\u{202f}' | '\u{2009}') if after == 3 && group <= 3 => {}
                Some(' ') if spaced && after == 3 && group <= 3 => {}
                Some(':') if after == 2 && written.len() <= 2 => {
                    let minutes: String = (at + 1..at + 3).filter_map(|i| self.digit(i)).collect();
                    if let (Ok(hours @ 0..=24), Ok(minutes @ 0..=59)) = (written.parse(), minutes.parse()) {
                        self.push(Piece::Clock(hours, minutes), glued, false);
                        return at + 3;
                    }
                    break;
                }
                _ => break,
            }
            at += 1;
        }
        let letters = self.letter_end(at);
        if letters > at {
            let suffix: String = self.chars[at..letters].iter().collect();
            let lower = suffix.to_lowercase();
            // 5G is a code, 5g is five grams.
            let known = SUFFIXES.contains(&lower.as_str()) && suffix != "G";
            if !known && !written.contains(['.', ',']) {
                self.push(Piece::Code(format!("{written}{lower}")), glued, false);
                return letters;
            }
        }
        self.push(Piece::Digits(written), glued, false);
        at
    }

    fn letters(&mut self, begin: usize, glued: bool) -> usize {
        let end = self.letter_end(begin);
        let written: String = self.chars[begin..end].iter().collect();
        let word = written.to_lowercase().replace('’', "'");
        let capital = written.chars().next().is_some_and(char::is_uppercase);
        let hyphen = matches!(self.chars.get(end), Some('-')) && self.digit(end + 1).is_some();
        let follows_number = glued
            && self
                .tokens
                .last()
                .is_some_and(|token| matches!(token.piece, Piece::Digits(_)));
        let joined = self.digit(end).is_some() || (hyphen && capital && !PREFIXES.contains(&word.as_str()));
        if joined && !follows_number {
            let mut last = end + usize::from(hyphen);
            while self.chars.get(last).is_some_and(|c| c.is_alphanumeric()) {
                last += 1;
            }
            let code: String = self.chars[begin..last].iter().filter(|c| **c != '-').collect();
            self.push(Piece::Code(code.to_lowercase()), glued, capital);
            return last;
        }
        self.push(Piece::Word(word), glued, capital);
        end
    }
}
