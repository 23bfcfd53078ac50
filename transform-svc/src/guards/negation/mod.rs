//! Negation: whether the rewrite affirms a statement that the original denies, or denies one that
//! it affirms.
//!
//! A text is cut into clauses. A clause denies once, however many denying words it has, as in "we
//! ain't got no money" and "no vino nadie". The number of denials in a text is a range: "not
//! uncommon" and "fail" may or may not be counted, since "common" and "not succeed" mean the same.
//! Two texts conflict if their ranges do not overlap. If the ranges overlap, or if the
//! transformation may omit or add facts, the *focus* of a denial decides: the word that is denied
//! ("refund" of "would not refund") must not occur in a clause of the other text that denies
//! nothing.

mod words;

use unicode_segmentation::UnicodeSegmentation;

use super::{Finding, Guard, GuardRow, Policy, stem::Forms};
use words::{Lexicon, lexicon};

/// Maximum number of words between a denying word and the word that it denies.
const REACH: usize = 5;

/// A clause, which may or may not contain a denial.
#[derive(Debug, Default, PartialEq)]
struct Clause {
    /// Content words.
    content: Vec<String>,
    /// The minimum and maximum number of denials.
    least: usize,
    most: usize,
    /// The word that is certainly or possibly denied.
    focus: Option<String>,
}

pub(super) const GUARD: GuardRow = GuardRow {
    guard: Guard::Negation,
    facts: "a denial lost or added",
    languages: "en de fr es",
    elsewhere: "cannot tell",
    may_add: false,
    translates: false,
    look: |pair, policy| look(pair.original, pair.rewrite, pair.source, policy),
};

fn look(original: &str, rewrite: &str, language: Option<&str>, policy: Policy) -> Finding {
    let Some(lexicon) = language.and_then(lexicon) else {
        return Finding::Unknown;
    };
    let (before, after) = (clauses(original, lexicon), clauses(rewrite, lexicon));
    let least = |clauses: &[Clause]| clauses.iter().map(|clause| clause.least).sum::<usize>();
    let most = |clauses: &[Clause]| clauses.iter().map(|clause| clause.most).sum::<usize>();
    // An omission or addition is a conflict only if the other text affirms the same statement.
    let lost = (policy.lost && least(&before) > most(&after)) || affirmed(&before, &after, !policy.lost);
    let added = (policy.added && policy.lost && least(&after) > most(&before))
        || affirmed(&after, &before, !(policy.added && policy.lost));
    if lost || added { Finding::Broken } else { Finding::Kept }
}

/// Whether a clause of the other text affirms a statement that a clause denies. Certain denials
/// were counted already unless `also_hard`.
fn affirmed(denying: &[Clause], other: &[Clause], also_hard: bool) -> bool {
    let content = |denies: bool| -> Forms<'_> {
        let clauses = other.iter().filter(|clause| (clause.most > 0) == denies);
        clauses.flat_map(|clause| &clause.content).map(String::as_str).collect()
    };
    let (affirms, denies) = (content(false), content(true));
    denying
        .iter()
        .filter(|clause| clause.most > 0 && (also_hard || clause.least == 0))
        .filter_map(|clause| clause.focus.as_deref())
        .any(|focus| affirms.has(focus) && !denies.has(focus))
}

fn clauses(text: &str, lexicon: &Lexicon) -> Vec<Clause> {
    let lower = text.to_lowercase().replace('’', "'");
    let question = lower.trim_end().ends_with('?');
    let mut clauses = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for piece in lower.split_word_bounds() {
        let is_word = piece.chars().any(char::is_alphanumeric);
        let breaks = matches!(piece, "." | "," | ";" | ":" | "!" | "?" | "(" | ")" | "—" | "–")
            || lexicon.breaks.contains(&piece);
        if breaks && !words.is_empty() {
            // An idiom such as "no choice but" may span a clause boundary.
            let over = lexicon.idioms.iter().any(|idiom| ends_idiom(&words, idiom, piece));
            if !over {
                clauses.push(clause(&words, lexicon, question && clauses.is_empty()));
                words.clear();
            }
        }
        if is_word {
            words.extend(split(piece, lexicon));
        }
    }
    clauses.push(clause(&words, lexicon, question && clauses.is_empty()));
    clauses
}

fn ends_idiom(words: &[String], idiom: &[&str], last: &str) -> bool {
    idiom.split_last().is_some_and(|(end, begin)| {
        *end == last
            && !begin.is_empty()
            && words.len() >= begin.len()
            && words[words.len() - begin.len()..]
                .iter()
                .zip(begin)
                .all(|(a, b)| a == b)
    })
}

/// French words joined by an apostrophe are split: `n'ai` is two words.
fn split<'a>(word: &'a str, lexicon: &Lexicon) -> Vec<String> {
    let parts: Vec<&'a str> = match lexicon.code {
        "fr" => word.split('\'').filter(|part| !part.is_empty()).collect(),
        _ => vec![word],
    };
    parts.into_iter().map(str::to_owned).collect()
}

/// The contribution of a single word to a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denial {
    None,
    Soft,
    Hard,
}

fn denial(words: &[String], at: usize, lexicon: &Lexicon) -> Denial {
    let Some(word) = words.get(at).map(String::as_str) else {
        return Denial::None;
    };
    let next = words.get(at + 1).map(String::as_str);
    if lexicon.code == "fr" && matches!(word, "personne" | "plus") {
        // French "personne" and "plus" deny only together with "ne".
        let ne = words[at.saturating_sub(4)..at]
            .iter()
            .chain(words.get(at + 1))
            .any(|word| matches!(word.as_str(), "ne" | "n"));
        return if ne { Denial::Hard } else { Denial::None };
    }
    // "No. 5" is a number.
    if lexicon.code == "en" && word == "no" && next.is_some_and(|next| next.chars().all(|c| c.is_ascii_digit())) {
        return Denial::None;
    }
    if lexicon.hard.contains(&word) || (lexicon.code == "en" && word.ends_with("n't")) {
        return Denial::Hard;
    }
    if lexicon.soft.contains(&word) {
        return Denial::Soft;
    }
    if lexicon.innocent.contains(&word) {
        return Denial::None;
    }
    let begins = |(prefix, rest): &(&str, usize)| {
        word.strip_prefix(prefix)
            .is_some_and(|end| end.chars().count() >= *rest)
    };
    let ends = |suffix: &&str| {
        word.strip_suffix(suffix)
            .is_some_and(|start| start.chars().count() >= 3)
    };
    if lexicon.prefixes.iter().any(begins) || lexicon.suffixes.iter().any(ends) {
        return Denial::Soft;
    }
    Denial::None
}

fn clause(words: &[String], lexicon: &Lexicon, question: bool) -> Clause {
    let denials: Vec<Denial> = (0..words.len()).map(|at| denial(words, at, lexicon)).collect();
    let idiom = |at: usize| {
        lexicon.idioms.iter().any(|idiom| {
            idiom
                .iter()
                .enumerate()
                .all(|(i, part)| words.get(at + i).is_some_and(|word| word == part))
        })
    };
    // "Isn't it …?" is a question and denies nothing.
    let asks = |at: usize| {
        question
            && at == 0
            && words[at].ends_with("n't")
            && words.get(1).is_some_and(|word| lexicon.empty.contains(&word.as_str()))
    };
    // "No mountain is higher" means the same as "the highest".
    let compares = lexicon.code == "en"
        && words
            .first()
            .is_some_and(|word| matches!(word.as_str(), "no" | "nothing" | "nobody" | "none" | "never"))
        && words.iter().any(|word| word == "than");
    let (mut hard, mut soft, mut idiomatic) = (0, 0, false);
    // A certain denial has a focus, and takes precedence over an uncertain one.
    let (mut last_hard, mut first_soft) = (None, None);
    for (at, denial) in denials.iter().enumerate() {
        match denial {
            Denial::None => {}
            Denial::Soft => {
                soft += 1;
                first_soft.get_or_insert(at);
            }
            Denial::Hard if idiom(at) || asks(at) || compares => {
                soft += 1;
                idiomatic = true;
            }
            Denial::Hard => {
                hard += 1;
                last_hard = Some(at);
            }
        }
    }
    // "Not uncommon" and "cannot … without" are double negations.
    let twice = lexicon.code != "fr" && lexicon.code != "es";
    let undone = denials.iter().enumerate().any(|(at, denial)| {
        *denial == Denial::Hard
            && (1..=2).any(|step| {
                denials.get(at + step) == Some(&Denial::Soft) && !lexicon.soft.contains(&words[at + step].as_str())
            })
    }) || (twice && hard >= 2 && words.iter().any(|word| matches!(word.as_str(), "without" | "ohne")));
    let (least, most) = match (hard, soft) {
        (0, 0) => (0, 0),
        (0, _) => (0, 1),
        (_, _) if undone => (0, 1),
        _ => (1, hard + usize::from(soft > 0)),
    };
    let focus = last_hard
        .or(first_soft)
        .and_then(|at| focus(words, at, &denials, lexicon));
    Clause {
        content: words
            .iter()
            .zip(&denials)
            .filter(|(word, denial)| **denial != Denial::Hard && !lexicon.empty.contains(&word.as_str()))
            .map(|(word, _)| word.clone())
            .collect(),
        least,
        most,
        focus: focus.filter(|_| !undone && !idiomatic),
    }
}

/// The target of a denying word: the next content word, or the stem of a word with a denying
/// prefix.
fn focus(words: &[String], at: usize, denials: &[Denial], lexicon: &Lexicon) -> Option<String> {
    words
        .iter()
        .enumerate()
        .skip(at + 1)
        .take(REACH)
        .find(|(place, word)| denials.get(*place) == Some(&Denial::None) && !lexicon.empty.contains(&word.as_str()))
        .map(|(_, word)| word.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Policy = Policy {
        lost: true,
        added: true,
    };

    fn english(original: &str, rewrite: &str) -> Finding {
        look(original, rewrite, Some("en"), BOTH)
    }

    #[test]
    fn a_denial_in_other_words_is_kept() {
        for (original, rewrite) in [
            ("He hasn't paid.", "He has not paid."),
            ("It's not impossible.", "It's possible."),
            ("They did not succeed.", "They failed."),
            ("Not only Tom but also Ann came.", "Tom came, and Ann did too."),
            ("He never drinks and never smokes.", "He neither drinks nor smokes."),
        ] {
            assert_eq!(english(original, rewrite), Finding::Kept, "{original} / {rewrite}");
        }
    }

    #[test]
    fn a_denial_lost_or_added_is_found() {
        for (original, rewrite) in [
            ("He hasn't paid.", "He has paid."),
            ("The bridge is open.", "The bridge isn't open."),
            (
                "The engine would not start, but the radio worked.",
                "The engine started and the radio worked.",
            ),
        ] {
            assert_eq!(english(original, rewrite), Finding::Broken, "{original} / {rewrite}");
        }
    }

    #[test]
    fn a_summary_may_leave_a_denial_out_but_not_turn_it_round() {
        let policy = Policy {
            lost: false,
            added: true,
        };
        let summary = |rewrite| {
            look(
                "The bank, which had no comment, will not close branches.",
                rewrite,
                Some("en"),
                policy,
            )
        };
        assert_eq!(summary("The bank will not close branches."), Finding::Kept);
        assert_eq!(summary("The bank will close branches."), Finding::Broken);
    }

    #[test]
    fn a_language_without_rules_is_untold() {
        assert_eq!(look("Hapana.", "Ndiyo.", Some("sw"), BOTH), Finding::Unknown);
        assert_eq!(look("No.", "Yes.", None, BOTH), Finding::Unknown);
    }
}
