//! Months and days of the week, in English, German, French and Spanish.

const MONTHS: [&[&str]; 12] = [
    &["january", "jan", "januar", "janvier", "enero"],
    &["february", "feb", "februar", "février", "febrero"],
    &["march", "mar", "märz", "mars", "marzo"],
    &["april", "apr", "avril", "abril"],
    &["may", "mai", "mayo"],
    &["june", "jun", "juni", "juin", "junio"],
    &["july", "jul", "juli", "juillet", "julio"],
    &["august", "aug", "août", "agosto"],
    &["september", "sept", "sep", "septembre", "septiembre"],
    &["october", "oct", "oktober", "okt", "octobre", "octubre"],
    &["november", "nov", "novembre", "noviembre"],
    &["december", "dec", "dezember", "dez", "décembre", "diciembre"],
];
const WEEKDAYS: [&[&str]; 7] = [
    &["monday", "mon", "montag", "lundi", "lunes"],
    &["tuesday", "tue", "tues", "dienstag", "mardi", "martes"],
    &["wednesday", "wed", "mittwoch", "mercredi", "miércoles"],
    &["thursday", "thu", "thur", "thurs", "donnerstag", "jeudi", "jueves"],
    &["friday", "fri", "freitag", "vendredi", "viernes"],
    &["saturday", "samstag", "sonnabend", "samedi", "sábado"],
    &["sunday", "sonntag", "dimanche", "domingo"],
];

fn position(table: &[&[&str]], word: &str) -> Option<usize> {
    table.iter().position(|names| names.contains(&word))
}

/// The month that a lower-case word names, from 1, and whether the word also has other meanings
/// ("may", "mar").
pub(super) fn month(word: &str) -> Option<(u32, bool)> {
    let month = position(&MONTHS, word)?;
    let doubtful = word.chars().count() <= 4
        && !matches!(word, "june" | "july" | "juin" | "juni" | "juli" | "août" | "märz")
        || matches!(word, "march");
    Some((month as u32 + 1, doubtful))
}

/// The day of the week, from 0, and whether the word is an abbreviation.
pub(super) fn weekday(word: &str) -> Option<(u32, bool)> {
    let day = position(
        &WEEKDAYS,
        word.strip_suffix('s').filter(|_| word.len() > 6).unwrap_or(word),
    )
    .or_else(|| position(&WEEKDAYS, word))?;
    Some((
        day as u32,
        word.chars().count() <= 5 && !matches!(word, "lundi" | "mardi" | "jeudi" | "lunes"),
    ))
}
