//! The texts that a probe encodes. They never change, because fingerprints are compared over years.

/// Texts of different meaning, length and script.
pub(super) const SAMPLES: &[&str] = &[
    "The harbour was quiet before sunrise.",
    "How do I reset the password of my account?",
    "Interest rates were left unchanged by the central bank on Thursday, which surprised few analysts.",
    "Das Gewitter zog am Abend über die Berge ab.",
    "水は百度で沸騰する。",
];

/// More texts, for a batch.
pub(super) fn many(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{} ({number})", SAMPLES[number % SAMPLES.len()]))
        .collect()
}

/// Texts that break careless code, with their descriptions.
pub(super) const UNICODE: &[(&str, &str)] = &[
    ("NFC", "caf\u{e9} cr\u{e8}me br\u{fb}l\u{e9}e"),
    ("NFD", "cafe\u{301} cre\u{300}me bru\u{302}le\u{301}e"),
    (
        "emoji",
        "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467} went to the \u{1f3d6}\u{fe0f} today",
    ),
    ("right to left", "\u{202b}מזג האוויר היה נעים\u{202c} وكان البحر هادئا"),
    ("line breaks", "first line\r\nsecond line\n\n\tthird"),
];

/// A text with the character that terminates strings in C.
pub(super) const NUL: &str = "before\0after";

/// A text of `words` words.
pub(super) fn long(words: usize) -> String {
    SAMPLES[2].split(' ').cycle().take(words).collect::<Vec<_>>().join(" ")
}
