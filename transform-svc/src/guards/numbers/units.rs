//! Units of measurement, by word and sign, in English, German, French and Spanish.

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

use Dimension::{
    Area, Celsius, Data, Dollar, Euro, Fahrenheit, Length, Mass, Pound, Power, Ratio, Rupee, Speed, Time, Volume, Yen,
};

/// A unit: its dimension and its size in base units.
pub(super) type Unit = (Dimension, f64);

const DAY: f64 = 86_400.0;
const YEAR: f64 = 365.25 * DAY;

/// Words that are units after any number.
const WORDS: &[(&[&str], &[Unit])] = &[
    (&["percent", "prozent", "pct"], &[(Ratio, 0.01)]),
    (
        &[
            "second", "seconds", "sekunde", "sekunden", "seconde", "secondes", "segundo", "segundos",
        ],
        &[(Time, 1.0)],
    ),
    (
        &["minute", "minutes", "minuten", "minuto", "minutos", "min", "mins"],
        &[(Time, 60.0)],
    ),
    (
        &[
            "hour", "hours", "hr", "hrs", "stunde", "stunden", "heure", "heures", "hora", "horas",
        ],
        &[(Time, 3600.0)],
    ),
    (
        &["day", "days", "tag", "tage", "tagen", "jour", "jours", "día", "días"],
        &[(Time, DAY)],
    ),
    (
        &[
            "week", "weeks", "woche", "wochen", "semaine", "semaines", "semana", "semanas",
        ],
        &[(Time, 7.0 * DAY)],
    ),
    (&["fortnight", "fortnights"], &[(Time, 14.0 * DAY)]),
    (
        &["month", "months", "monat", "monate", "monaten", "mois", "mes", "meses"],
        &[(Time, YEAR / 12.0)],
    ),
    (
        &[
            "year", "years", "jahr", "jahre", "jahren", "an", "ans", "année", "années", "año", "años",
        ],
        &[(Time, YEAR)],
    ),
    (
        &[
            "decade",
            "decades",
            "jahrzehnt",
            "jahrzehnte",
            "décennie",
            "décennies",
            "década",
            "décadas",
        ],
        &[(Time, 10.0 * YEAR)],
    ),
    (
        &[
            "century",
            "centuries",
            "jahrhundert",
            "jahrhunderte",
            "siècle",
            "siècles",
            "siglo",
            "siglos",
        ],
        &[(Time, 100.0 * YEAR)],
    ),
    (
        &["millimetre", "millimetres", "millimeter", "millimeters", "mm"],
        &[(Length, 0.001)],
    ),
    (
        &[
            "centimetre",
            "centimetres",
            "centimeter",
            "centimeters",
            "zentimeter",
            "centimètre",
            "centimètres",
            "centímetros",
            "cm",
        ],
        &[(Length, 0.01)],
    ),
    (
        &[
            "metre", "metres", "meter", "meters", "metern", "mètre", "mètres", "metro", "metros",
        ],
        &[(Length, 1.0)],
    ),
    (
        &[
            "kilometre",
            "kilometres",
            "kilometer",
            "kilometers",
            "kilometern",
            "kilomètre",
            "kilomètres",
            "kilómetro",
            "kilómetros",
            "km",
            "kms",
        ],
        &[(Length, 1000.0)],
    ),
    (
        &["mile", "miles", "mi", "meile", "meilen", "milla", "millas"],
        &[(Length, 1609.344)],
    ),
    (&["inch", "inches", "zoll", "pouces", "pulgadas"], &[(Length, 0.0254)]),
    (&["foot", "feet", "ft", "pieds", "pies"], &[(Length, 0.3048)]),
    (&["yard", "yards", "yd", "yds"], &[(Length, 0.9144)]),
    (
        &[
            "milligram",
            "milligrams",
            "milligramme",
            "milligrammes",
            "milligramm",
            "miligramos",
            "mg",
        ],
        &[(Mass, 0.001)],
    ),
    (
        &["gram", "grams", "gramme", "grammes", "gramm", "gramo", "gramos"],
        &[(Mass, 1.0)],
    ),
    (
        &[
            "kilogram",
            "kilograms",
            "kilogramm",
            "kilogramme",
            "kilogrammes",
            "kilogramos",
            "kilo",
            "kilos",
            "kg",
        ],
        &[(Mass, 1000.0)],
    ),
    (
        &["tonne", "tonnes", "tonnen", "ton", "tons", "toneladas"],
        &[(Mass, 1e6)],
    ),
    (&["ounce", "ounces", "oz"], &[(Mass, 28.35)]),
    (&["lb", "lbs"], &[(Mass, 453.6)]),
    (
        &["pound", "pounds", "pfund", "libra", "libras"],
        &[(Pound, 1.0), (Mass, 453.6)],
    ),
    (
        &[
            "millilitre",
            "millilitres",
            "milliliter",
            "milliliters",
            "mililitros",
            "ml",
        ],
        &[(Volume, 0.001)],
    ),
    (
        &["litre", "litres", "liter", "liters", "litern", "litro", "litros"],
        &[(Volume, 1.0)],
    ),
    (&["gallon", "gallons"], &[(Volume, 3.785)]),
    (&["mph"], &[(Speed, 1.609_344)]),
    (&["kmh", "kph"], &[(Speed, 1.0)]),
    (&["acre", "acres"], &[(Area, 0.4047)]),
    (
        &["hectare", "hectares", "hektar", "hectárea", "hectáreas"],
        &[(Area, 1.0)],
    ),
    (
        &["degree", "degrees", "grad", "degré", "degrés", "grado", "grados"],
        &[(Celsius, 1.0), (Fahrenheit, 1.0)],
    ),
    (&["celsius"], &[(Celsius, 1.0)]),
    (&["fahrenheit"], &[(Fahrenheit, 1.0)]),
    (&["kilobyte", "kilobytes", "kb"], &[(Data, 1e3)]),
    (&["megabyte", "megabytes", "mb"], &[(Data, 1e6)]),
    (&["gigabyte", "gigabytes", "gb"], &[(Data, 1e9)]),
    (&["terabyte", "terabytes", "tb"], &[(Data, 1e12)]),
    (&["watt", "watts"], &[(Power, 1.0)]),
    (&["kilowatt", "kilowatts", "kw"], &[(Power, 1e3)]),
    (&["megawatt", "megawatts", "mw"], &[(Power, 1e6)]),
    (
        &["dollar", "dollars", "buck", "bucks", "usd", "dólar", "dólares"],
        &[(Dollar, 1.0)],
    ),
    (&["euro", "euros", "eur"], &[(Euro, 1.0)]),
    (&["quid", "gbp"], &[(Pound, 1.0)]),
    (&["yen", "jpy"], &[(Yen, 1.0)]),
    (&["rupee", "rupees", "inr"], &[(Rupee, 1.0)]),
    (&["cent", "cents", "céntimos"], &[(Dollar, 0.01), (Euro, 0.01)]),
];

/// Abbreviations that are units only after digits.
const ABBREVIATIONS: &[(&str, Unit)] = &[
    ("s", (Time, 1.0)),
    ("sec", (Time, 1.0)),
    ("secs", (Time, 1.0)),
    ("h", (Time, 3600.0)),
    ("m", (Length, 1.0)),
    ("g", (Mass, 1.0)),
    ("t", (Mass, 1e6)),
    ("l", (Volume, 1.0)),
    ("w", (Power, 1.0)),
];

/// The unit of a lower-case word that follows a number, written in digits or in words.
pub(super) fn of_word(word: &str, after_digits: bool) -> Option<Vec<Unit>> {
    let long = WORDS
        .iter()
        .find(|(words, _)| words.contains(&word))
        .map(|(_, units)| units.to_vec());
    long.or_else(|| {
        let short = ABBREVIATIONS.iter().find(|(known, _)| *known == word)?;
        after_digits.then(|| vec![short.1])
    })
}

/// The currency of a sign.
pub(super) fn of_sign(sign: char) -> Option<Unit> {
    Some(match sign {
        '$' => (Dollar, 1.0),
        '€' => (Euro, 1.0),
        '£' => (Pound, 1.0),
        '¥' => (Yen, 1.0),
        '₹' => (Rupee, 1.0),
        '%' | '٪' | '％' => (Ratio, 0.01),
        _ => return None,
    })
}
