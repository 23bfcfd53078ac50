//! Numbers in words, in English, German, French and Spanish.

/// A number in words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Numeral {
    pub(super) value: f64,
    pub(super) words: usize,
    /// An ordinal that can also be a fraction: third, fourth.
    pub(super) ordinal: bool,
    /// Whether the word also has another meaning, such as "one", "both" or "second". Its loss is
    /// not a fault.
    pub(super) weak: bool,
}

/// Languages whose number words are known.
pub(super) const LANGUAGES: [&str; 4] = ["en", "de", "fr", "es"];

const EN: &[(&str, f64)] = &[
    ("two", 2.0),
    ("three", 3.0),
    ("four", 4.0),
    ("five", 5.0),
    ("six", 6.0),
    ("seven", 7.0),
    ("eight", 8.0),
    ("nine", 9.0),
    ("ten", 10.0),
    ("eleven", 11.0),
    ("twelve", 12.0),
    ("thirteen", 13.0),
    ("fourteen", 14.0),
    ("fifteen", 15.0),
    ("sixteen", 16.0),
    ("seventeen", 17.0),
    ("eighteen", 18.0),
    ("nineteen", 19.0),
    ("twenty", 20.0),
    ("thirty", 30.0),
    ("forty", 40.0),
    ("fifty", 50.0),
    ("sixty", 60.0),
    ("seventy", 70.0),
    ("eighty", 80.0),
    ("ninety", 90.0),
];
const EN_ORDINALS: &[(&str, f64)] = &[
    ("third", 3.0),
    ("fourth", 4.0),
    ("fifth", 5.0),
    ("sixth", 6.0),
    ("seventh", 7.0),
    ("eighth", 8.0),
    ("ninth", 9.0),
    ("tenth", 10.0),
    ("eleventh", 11.0),
    ("twelfth", 12.0),
    ("thirteenth", 13.0),
    ("fourteenth", 14.0),
    ("fifteenth", 15.0),
    ("sixteenth", 16.0),
    ("seventeenth", 17.0),
    ("eighteenth", 18.0),
    ("nineteenth", 19.0),
    ("twentieth", 20.0),
    ("thirtieth", 30.0),
];
const EN_WEAK: &[(&str, f64)] = &[
    ("zero", 0.0),
    ("one", 1.0),
    ("once", 1.0),
    ("single", 1.0),
    ("first", 1.0),
    ("second", 2.0),
    ("both", 2.0),
    ("twice", 2.0),
    ("double", 2.0),
    ("doubled", 2.0),
    ("pair", 2.0),
    ("couple", 2.0),
    ("triple", 3.0),
    ("tripled", 3.0),
    ("thrice", 3.0),
    ("ii", 2.0),
    ("iii", 3.0),
    ("iv", 4.0),
    ("vi", 6.0),
    ("vii", 7.0),
    ("viii", 8.0),
    ("ix", 9.0),
    ("xi", 11.0),
    ("xii", 12.0),
    ("xiii", 13.0),
    ("xiv", 14.0),
    ("xv", 15.0),
    ("xvi", 16.0),
];
const DE: &[(&str, f64)] = &[
    ("zwei", 2.0),
    ("drei", 3.0),
    ("vier", 4.0),
    ("fünf", 5.0),
    ("sechs", 6.0),
    ("sieben", 7.0),
    ("acht", 8.0),
    ("neun", 9.0),
    ("zehn", 10.0),
    ("elf", 11.0),
    ("zwölf", 12.0),
    ("dreizehn", 13.0),
    ("vierzehn", 14.0),
    ("fünfzehn", 15.0),
    ("sechzehn", 16.0),
    ("siebzehn", 17.0),
    ("achtzehn", 18.0),
    ("neunzehn", 19.0),
    ("zwanzig", 20.0),
    ("dreißig", 30.0),
    ("dreissig", 30.0),
    ("vierzig", 40.0),
    ("fünfzig", 50.0),
    ("sechzig", 60.0),
    ("siebzig", 70.0),
    ("achtzig", 80.0),
    ("neunzig", 90.0),
    ("dutzend", 12.0),
];
const DE_ORDINALS: &[(&str, f64)] = &[
    ("dritt", 3.0),
    ("viert", 4.0),
    ("fünft", 5.0),
    ("sechst", 6.0),
    ("siebt", 7.0),
    ("siebent", 7.0),
    ("acht", 8.0),
    ("neunt", 9.0),
    ("zehnt", 10.0),
    ("elft", 11.0),
    ("zwölft", 12.0),
    ("zwanzigst", 20.0),
    ("dreißigst", 30.0),
];
const DE_WEAK: &[(&str, f64)] = &[
    ("null", 0.0),
    ("ein", 1.0),
    ("eine", 1.0),
    ("einen", 1.0),
    ("einem", 1.0),
    ("einer", 1.0),
    ("eines", 1.0),
    ("eins", 1.0),
    ("einmal", 1.0),
    ("ersten", 1.0),
    ("erste", 1.0),
    ("zweiten", 2.0),
    ("zweite", 2.0),
    ("zweiter", 2.0),
    ("zweitem", 2.0),
    ("beide", 2.0),
    ("beiden", 2.0),
    ("paar", 2.0),
    ("zweimal", 2.0),
    ("doppelt", 2.0),
    ("doppelte", 2.0),
    ("dreimal", 3.0),
];
const FR: &[(&str, f64)] = &[
    ("deux", 2.0),
    ("trois", 3.0),
    ("quatre", 4.0),
    ("cinq", 5.0),
    ("six", 6.0),
    ("sept", 7.0),
    ("huit", 8.0),
    ("neuf", 9.0),
    ("dix", 10.0),
    ("onze", 11.0),
    ("douze", 12.0),
    ("treize", 13.0),
    ("quatorze", 14.0),
    ("quinze", 15.0),
    ("seize", 16.0),
    ("vingt", 20.0),
    ("trente", 30.0),
    ("quarante", 40.0),
    ("cinquante", 50.0),
    ("soixante", 60.0),
    ("septante", 70.0),
    ("huitante", 80.0),
    ("nonante", 90.0),
    ("douzaine", 12.0),
    ("quinzaine", 15.0),
    ("vingtaine", 20.0),
];
const FR_ORDINALS: &[(&str, f64)] = &[
    ("troisième", 3.0),
    ("quatrième", 4.0),
    ("cinquième", 5.0),
    ("sixième", 6.0),
    ("septième", 7.0),
    ("huitième", 8.0),
    ("neuvième", 9.0),
    ("dixième", 10.0),
];
const FR_WEAK: &[(&str, f64)] = &[
    ("zéro", 0.0),
    ("un", 1.0),
    ("une", 1.0),
    ("premier", 1.0),
    ("première", 1.0),
    ("second", 2.0),
    ("seconde", 2.0),
    ("deuxième", 2.0),
    ("double", 2.0),
    ("paire", 2.0),
    ("triple", 3.0),
];
const ES: &[(&str, f64)] = &[
    ("dos", 2.0),
    ("tres", 3.0),
    ("cuatro", 4.0),
    ("cinco", 5.0),
    ("seis", 6.0),
    ("siete", 7.0),
    ("ocho", 8.0),
    ("nueve", 9.0),
    ("diez", 10.0),
    ("once", 11.0),
    ("doce", 12.0),
    ("trece", 13.0),
    ("catorce", 14.0),
    ("quince", 15.0),
    ("dieciséis", 16.0),
    ("diecisiete", 17.0),
    ("dieciocho", 18.0),
    ("diecinueve", 19.0),
    ("veinte", 20.0),
    ("veintiuno", 21.0),
    ("veintiún", 21.0),
    ("veintiuna", 21.0),
    ("veintidós", 22.0),
    ("veintitrés", 23.0),
    ("veinticuatro", 24.0),
    ("veinticinco", 25.0),
    ("veintiséis", 26.0),
    ("veintisiete", 27.0),
    ("veintiocho", 28.0),
    ("veintinueve", 29.0),
    ("treinta", 30.0),
    ("cuarenta", 40.0),
    ("cincuenta", 50.0),
    ("sesenta", 60.0),
    ("setenta", 70.0),
    ("ochenta", 80.0),
    ("noventa", 90.0),
    ("docena", 12.0),
    ("doscientos", 200.0),
    ("doscientas", 200.0),
    ("trescientos", 300.0),
    ("trescientas", 300.0),
    ("cuatrocientos", 400.0),
    ("cuatrocientas", 400.0),
    ("quinientos", 500.0),
    ("quinientas", 500.0),
    ("seiscientos", 600.0),
    ("setecientos", 700.0),
    ("ochocientos", 800.0),
    ("novecientos", 900.0),
    ("cien", 100.0),
    ("ciento", 100.0),
];
const ES_ORDINALS: &[(&str, f64)] = &[
    ("tercer", 3.0),
    ("tercero", 3.0),
    ("tercera", 3.0),
    ("cuarta", 4.0),
    ("quinto", 5.0),
    ("quinta", 5.0),
    ("sexto", 6.0),
    ("sexta", 6.0),
    ("séptimo", 7.0),
    ("octavo", 8.0),
    ("noveno", 9.0),
    ("décimo", 10.0),
];
const ES_WEAK: &[(&str, f64)] = &[
    ("cero", 0.0),
    ("un", 1.0),
    ("uno", 1.0),
    ("una", 1.0),
    ("primer", 1.0),
    ("primero", 1.0),
    ("primera", 1.0),
    ("segundo", 2.0),
    ("segunda", 2.0),
    ("ambos", 2.0),
    ("ambas", 2.0),
    ("doble", 2.0),
    ("par", 2.0),
    ("triple", 3.0),
];

/// The value of a word that multiplies the preceding number.
pub(super) fn scale(word: &str) -> Option<f64> {
    Some(match word {
        "hundred" | "cent" | "cents" => 100.0,
        "thousand" | "tausend" | "mille" | "mil" => 1e3,
        "million" | "millions" | "millionen" | "millón" | "millones" | "mn" => 1e6,
        "billion" | "billions" | "milliarde" | "milliarden" | "milliard" | "milliards" | "bn" => 1e9,
        "trillion" | "trillions" => 1e12,
        _ => return None,
    })
}

fn find(table: &[(&str, f64)], word: &str) -> Option<f64> {
    table.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

fn cardinal(language: &str, word: &str) -> Option<f64> {
    match language {
        "en" => find(EN, word),
        "de" => german(word),
        "fr" => find(
            FR,
            word.strip_suffix('s').filter(|stem| *stem == "vingt").unwrap_or(word),
        ),
        "es" => find(ES, word),
        _ => None,
    }
}

/// German writes numbers below a million as one word.
fn german(word: &str) -> Option<f64> {
    if let Some(value) = find(DE, word) {
        return Some(value);
    }
    for (mark, factor) in [("tausend", 1e3), ("hundert", 100.0)] {
        if let Some((left, right)) = word.split_once(mark) {
            let part = |text: &str, empty: f64| match text.strip_prefix("und").unwrap_or(text) {
                "" => Some(empty),
                "ein" | "eins" => Some(1.0),
                text => german(text),
            };
            return Some(part(left, 1.0)? * factor + part(right, 0.0)?);
        }
    }
    let (units, tens) = word.split_once("und")?;
    let units = if units == "ein" { 1.0 } else { find(DE, units)? };
    let tens = find(DE, tens)?;
    (units < 10.0 && tens >= 20.0).then_some(units + tens)
}

fn ordinal(language: &str, word: &str) -> Option<f64> {
    match language {
        "en" => find(EN_ORDINALS, word),
        "de" => ["e", "en", "er", "es", "em"]
            .iter()
            .find_map(|ending| find(DE_ORDINALS, word.strip_suffix(ending)?)),
        "fr" => find(FR_ORDINALS, word),
        "es" => find(ES_ORDINALS, word),
        _ => None,
    }
}

fn weak(language: &str, word: &str) -> Option<f64> {
    match language {
        "en" => find(EN_WEAK, word),
        "de" => find(DE_WEAK, word),
        "fr" => find(FR_WEAK, word),
        "es" => find(ES_WEAK, word),
        _ => None,
    }
}

/// Value of a fraction's name, singular or plural, for words that have no other meaning.
pub(super) fn fraction(language: &str, word: &str) -> Option<f64> {
    let third = 1.0 / 3.0;
    Some(match (language, word) {
        ("en", "half" | "halves") => 0.5,
        ("en", "thirds") => third,
        ("en", "quarters") => 0.25,
        ("en", "fifths") => 0.2,
        ("en", "tenths") => 0.1,
        ("de", "hälfte" | "halb" | "halbe" | "halben" | "halbes" | "halber") => 0.5,
        ("de", "drittel") => third,
        ("de", "viertel") => 0.25,
        ("de", "fünftel") => 0.2,
        ("fr", "moitié" | "demi" | "demie") => 0.5,
        ("fr", "tiers") => third,
        ("fr", "quart" | "quarts") => 0.25,
        ("es", "mitad") => 0.5,
        ("es", "tercio" | "tercios") => third,
        _ => return None,
    })
}

/// The number of a decade word, such as "nineties".
pub(super) fn decade(language: &str, word: &str) -> Option<f64> {
    let stem = match language {
        "en" => word.strip_suffix("ies").map(|stem| format!("{stem}y"))?,
        "de" => word.strip_suffix("er").or_else(|| word.strip_suffix("ern"))?.to_owned(),
        _ => return None,
    };
    cardinal(language, &stem).filter(|value| (20.0..100.0).contains(value))
}

/// Whether a number word may extend the preceding number.
fn joins(language: &str, so_far: f64, value: f64) -> Option<f64> {
    let below = so_far % 100.0;
    if so_far == 0.0 || (so_far >= 100.0 && below == 0.0 && value < 100.0) {
        return Some(so_far + value);
    }
    let tens = below >= 20.0 && below % 10.0 == 0.0;
    let french = language == "fr";
    if french && below == 4.0 && value == 20.0 {
        return Some(so_far + 76.0);
    }
    let room = if french && (below == 60.0 || below == 80.0) {
        20.0
    } else {
        10.0
    };
    (tens && value < room).then_some(so_far + value)
}

/// Reads the number at the start of lower-case words. Words joined by a hyphen are separate words;
/// `before` is the preceding word.
pub(super) fn read(language: &str, words: &[&str], before: Option<&str>) -> Option<Numeral> {
    let first = *words.first()?;
    let starts_with_article = matches!((language, first), ("en", "a"))
        && words
            .get(1)
            .is_some_and(|word| *word == "dozen" || scale(word).is_some_and(|scale| scale < 1e12));
    let (mut total, mut current, mut used, mut any) = (0.0, 0.0, 0, false);
    if starts_with_article {
        (current, used, any) = (1.0, 1, true);
    }
    let mut ordinal_end = false;
    while let Some(word) = words.get(used) {
        let linked = any
            && is_link(language, word)
            && words.get(used + 1).is_some_and(|next| {
                let value = cardinal(language, next)
                    .or_else(|| ordinal(language, next))
                    .or_else(|| one(language, next));
                let rounds = current % 100.0 == 0.0 || (language != "en" && current % 10.0 == 0.0 && current >= 20.0);
                value.is_some_and(|value| rounds && joins(language, current, value).is_some())
                    && (current > 0.0 || total > 0.0)
            });
        if linked {
            used += 1;
            continue;
        }
        let after_tens = any && current % 100.0 >= 20.0;
        let joined = |value: f64| {
            if any && current == 0.0 && total > 0.0 {
                Some(value)
            } else {
                joins(language, current, value)
            }
        };
        if language == "en" && *word == "dozen" && any {
            current = current.max(1.0) * 12.0;
        } else if let Some(factor) =
            scale(word).filter(|factor| any && !(language != "fr" && *word == "cents") && *factor > 0.0)
        {
            if factor == 100.0 {
                if current >= 100.0 || current == 0.0 {
                    break;
                }
                current *= 100.0;
            } else {
                total = if total > 0.0 && factor > 1e3 {
                    (total + current) * factor
                } else {
                    total + current.max(1.0) * factor
                };
                current = 0.0;
            }
        } else if let Some(next) = cardinal(language, word).and_then(joined) {
            current = next;
        } else if let Some(next) = one(language, word)
            .filter(|_| after_tens || (any && current >= 100.0))
            .and_then(joined)
        {
            current = next;
        } else if let Some(next) = ordinal(language, word)
            .or_else(|| {
                (language == "en")
                    .then(|| find(&[("first", 1.0), ("second", 2.0)], word).filter(|_| after_tens))
                    .flatten()
            })
            .and_then(joined)
        {
            current = next;
            ordinal_end = true;
            used += 1;
            any = true;
            break;
        } else if !any && matches!((language, *word), ("fr", "mille" | "cent") | ("es", "mil")) {
            if *word == "cent" { current = 100.0 } else { total = 1e3 }
        } else {
            break;
        }
        any = true;
        used += 1;
    }
    if any && !(starts_with_article && used == 1) {
        return Some(Numeral {
            value: total + current,
            words: used,
            ordinal: ordinal_end,
            weak: false,
        });
    }
    let value = weak(language, first)?;
    // "No one", "the one", "this one" are not numbers. Roman numerals follow a name, which is not
    // visible here.
    let pronoun = language == "en"
        && first == "one"
        && matches!(before, Some("no" | "the" | "this" | "that" | "which" | "any" | "every"));
    (!pronoun).then_some(Numeral {
        value,
        words: 1,
        ordinal: false,
        weak: true,
    })
}

fn one(language: &str, word: &str) -> Option<f64> {
    let is = match language {
        "en" => word == "one",
        "fr" => matches!(word, "un" | "une"),
        "es" => matches!(word, "un" | "uno" | "una"),
        _ => false,
    };
    is.then_some(1.0)
}

fn is_link(language: &str, word: &str) -> bool {
    matches!((language, word), ("en", "and") | ("fr", "et") | ("es", "y"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::float_cmp)]
    use super::*;

    fn value(language: &str, text: &str) -> f64 {
        let words: Vec<&str> = text.split([' ', '-']).collect();
        let numeral = read(language, &words, None).unwrap();
        assert_eq!(numeral.words, words.len(), "{text}");
        numeral.value
    }

    #[test]
    fn number_words_have_their_values() {
        for (text, expected) in [
            ("twenty-one", 21.0),
            ("two hundred and five", 205.0),
            ("a hundred", 100.0),
            ("a dozen", 12.0),
            ("three million two hundred thousand", 3_200_000.0),
            ("forty-second", 42.0),
            ("two dozen", 24.0),
        ] {
            assert_eq!(value("en", text), expected, "{text}");
        }
        for (text, expected) in [
            ("einundzwanzig", 21.0),
            ("zweihundertfünfzig", 250.0),
            ("dreitausend", 3000.0),
            ("dritten", 3.0),
        ] {
            assert_eq!(value("de", text), expected, "{text}");
        }
        for (text, expected) in [
            ("quatre-vingt-dix", 90.0),
            ("soixante et onze", 71.0),
            ("vingt et un", 21.0),
            ("quatre-vingts", 80.0),
            ("deux cents", 200.0),
            ("mille", 1000.0),
            ("quatre-vingt-dix-sept", 97.0),
        ] {
            assert_eq!(value("fr", text), expected, "{text}");
        }
        for (text, expected) in [
            ("treinta y cinco", 35.0),
            ("veintidós", 22.0),
            ("doscientos", 200.0),
            ("dos mil", 2000.0),
        ] {
            assert_eq!(value("es", text), expected, "{text}");
        }
    }

    #[test]
    fn neighbours_that_make_no_number_stay_apart() {
        assert_eq!(read("en", &["two", "and", "three"], None).unwrap().value, 2.0);
        assert!(read("en", &["one", "of", "them"], None).unwrap().weak);
        assert!(read("en", &["one", "likes"], Some("no")).is_none());
        assert!(read("en", &["hundreds"], None).is_none());
        assert!(read("ha", &["uku"], None).is_none());
    }
}
