//! The processor time of the guards and the checks on texts of growing size.

use isomer_transform::{checks, guards, language::Language};
use isomer_transformations::declaration;

/// Two texts that together make a guard or a check work hard.
struct Pair {
    name: String,
    language: &'static str,
    original: String,
    rewrite: String,
}

/// A word that is unique to its number, with a capital first letter.
fn word(prefix: &str, number: usize) -> String {
    let mut word = prefix.to_owned();
    let mut rest = number;
    for _ in 0..4 {
        word.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
    word
}

fn words(prefix: &str, count: usize, between: &str) -> String {
    let all: Vec<String> = (0..count).map(|number| word(prefix, number)).collect();
    all.join(between)
}

/// The same words with other endings, in reverse order.
fn reversed(prefix: &str, count: usize, ending: &str) -> String {
    let all: Vec<String> = (0..count).rev().map(|number| word(prefix, number) + ending).collect();
    all.join("")
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    let all: Vec<String> = (0..count).map(line).collect();
    all.join("\n")
}

/// Pairs of about `n` words.
fn pairs(n: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut add = |name: &str, language, original: String, rewrite: String| {
        pairs.push(Pair {
            name: format!("{name} ({language})"),
            language,
            original,
            rewrite,
        });
    };
    for language in ["en", "fr", "pl", "de"] {
        let (one, other) = (words("Ka", n, " "), words("Zo", n, " "));
        add(
            "a run of names",
            language,
            format!("we saw {one}"),
            format!("we saw {other}"),
        );
        let (one, other) = (words("Ka", n, ". "), words("Zo", n, ". "));
        add("a name a sentence", language, one, other);
        let (one, other) = (words("we saw Ka", n, ", "), words("we saw Kab", n, ", "));
        add("names of one beginning", language, one, other);
        // Each name is found, the first one last.
        add(
            "plurals",
            language,
            words("we saw Ka", n, ", "),
            reversed("we saw Ka", n, "s, "),
        );
        let met = (words("Ka", n, " met him here. "), reversed("Ka", n, "s met him here. "));
        add("plurals that open sentences", language, met.0, met.1);
        add(
            "titled plurals",
            language,
            words("mit Herr Ka", n, ", "),
            reversed("mit Herr Ka", n, "s, "),
        );
        let refused = (
            words("she is unable to ka", n, ", "),
            reversed("she is unable to ka", n, "ing, "),
        );
        add("denials in another order", language, refused.0, refused.1);
        let short = |first: char| lines(n, |at| format!("we saw {first}b{}", word("", at).to_uppercase()));
        add("acronyms", language, short('K'), short('Z'));
        let titled = |prefix: &str| words(&format!("mit Herr {prefix}"), n, " ");
        add("titles", language, titled("Ka"), titled("Zo"));
        let denied = |prefix: &str| words(&format!("not nicht no ne pas {prefix}"), n, ", ");
        add("denials", language, denied("ka"), denied("zo"));
        add(
            "one clause of denials",
            language,
            "not no ".repeat(n),
            "never none ".repeat(n),
        );
    }
    let numbers = |from: usize| lines(n, |at| (from + at * 7).to_string());
    add("numbers", "en", numbers(1_000_000), numbers(9_000_003));
    let measured = |from: usize| lines(n, |at| format!("{} km or {} miles", from + at * 7, from + at * 11));
    let again: Vec<String> = numbers(1_000_000).lines().rev().map(str::to_owned).collect();
    add("numbers in another order", "en", numbers(1_000_000), again.join("\n"));
    add("measures", "en", measured(1_000_000), measured(9_000_003));
    let codes = |first: char| lines(n, |at| format!("{first}{at}"));
    add("codes", "en", codes('A'), codes('B'));
    let dates = |year: usize| {
        lines(n, |at| {
            format!("{:04}-{:02}-{:02}", year + at % 5000, at % 12 + 1, at % 28 + 1)
        })
    };
    let again: Vec<String> = codes('A').lines().rev().map(|code| format!("the {code}")).collect();
    add("codes in another order", "en", codes('A'), again.join("\n"));
    add("dates", "en", dates(1000), dates(1001));
    let plain = words("ka", n, " ");
    add("colons", "en", plain.clone(), words("ka", n, ": "));
    add("colons without spaces", "en", plain.clone(), "a:".repeat(2 * n));
    add(
        "colons after marks",
        "en",
        plain.clone(),
        format!("a{}", ".:".repeat(2 * n)),
    );
    add(
        "items",
        "en",
        plain.clone(),
        lines(n, |at| format!("{}. {}", at % 999, word("ka", at))),
    );
    add(
        "items, short original",
        "en",
        "One.".to_owned(),
        lines(n, |at| format!("- {} so", word("ka", at))),
    );
    let part = |at: usize| {
        format!(
            "{} {} {}\n",
            word("ka", 3 * at),
            word("ke", 3 * at + 1),
            word("ki", 3 * at + 2)
        )
    };
    add("paragraphs", "en", "One small text.".to_owned(), lines(n / 2, part));
    let again = |at: usize| format!("Or {} {} {}.", word("ka", at), word("ke", at), word("ki", at));
    add("sentences with or", "en", plain.clone(), lines(n / 2, again));
    let quotes = |prefix: &str| lines(n, |at| format!("“{}”", word(prefix, at))).replace('\n', " ");
    add(
        "quotes",
        "en",
        plain.clone(),
        format!("{plain}\n\nI used {}.", quotes("zo")),
    );
    add("brackets", "en", plain.clone(), words("[ka", n, "] "));
    add("bullets", "en", plain.clone(), "- ".repeat(2 * n));
    add("stars", "en", plain.clone(), "* ".repeat(2 * n));
    for piece in [
        "=", ".", " ", "'’", "-", "x.,", "🇦", "a\u{300}", ".)", "a'", "\"", "X", "1,", "3/4 ", "ก", "字", "( ", "a-",
        "\n\n", "a\n", "% ", "&c;", "A. ", "1:", "No. ", ". 1", "#", "[...]", "a@b.",
    ] {
        add(
            &format!("{piece:?} repeated"),
            "en",
            piece.repeat(4 * n),
            piece.repeat(4 * n + 1),
        );
        add(
            &format!("{piece:?} at the end"),
            "en",
            plain.clone(),
            format!("{plain}\n\n{}", piece.repeat(4 * n)),
        );
    }
    pairs
}

/// Processor time of this thread, in nanoseconds.
fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library writes the struct that it is given, which lives on this stack.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "this system has no clock for threads");
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
}

fn time(work: impl Fn()) -> u64 {
    let before = processor_time();
    work();
    processor_time() - before
}

/// With four times the words, linear growth takes four times as long and quadratic growth sixteen
/// times.
#[test]
fn guards_and_checks_take_time_in_proportion_to_the_text() {
    const SLACK: u64 = 5_000_000;
    type Look<'a> = (&'a str, &'a dyn Fn(&Pair));
    let language = |pair: &Pair| Language::parse(pair.language);
    let guards: Look<'_> = ("guards", &|pair| {
        guards::run(
            declaration("paraphrase").unwrap(),
            &pair.original,
            &pair.rewrite,
            language(pair),
            language(pair),
        );
    });
    let checks: Look<'_> = ("checks", &|pair| {
        checks::run(
            declaration("paraphrase").unwrap(),
            &pair.original,
            &pair.rewrite,
            language(pair),
        );
    });
    let (few, many) = (pairs(1_000), pairs(4_000));
    let mut slow = Vec::new();
    for (few, many) in few.iter().zip(&many) {
        // The checks do not depend on the language.
        let looks = [Some(guards), Some(checks).filter(|_| few.language == "en")];
        for (what, look) in looks.into_iter().flatten() {
            let (mut short, mut long) = (time(|| look(few)), time(|| look(many)));
            let too_long = |short: u64, long: u64| long > 9 * short + SLACK;
            // Other work on this machine costs time too, so the minimum of several attempts counts.
            for _ in 0..4 {
                if too_long(short, long) {
                    (short, long) = (short.min(time(|| look(few))), long.min(time(|| look(many))));
                }
            }
            if too_long(short, long) {
                slow.push(format!("{what}, {}: {short} ns, {long} ns", few.name));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
