//! Numbers in readable form. The minus is a minus sign, not a hyphen.

use crate::evidence::interval::DeltaInterval;

/// Points with one decimal, for example `84.3`.
pub(super) fn points(value: f64) -> String {
    if value.is_finite() {
        minus(format!("{:.1}", tidy(value, 1)))
    } else {
        "–".to_owned()
    }
}

/// Points with two decimals.
pub(super) fn fine(value: f64) -> String {
    if value.is_finite() {
        minus(format!("{:.2}", tidy(value, 2)))
    } else {
        "–".to_owned()
    }
}

/// A difference in points with its sign, for example `−2.4`, `+0.3`, `0.0`.
pub(super) fn signed(value: f64) -> String {
    let text = points(value);
    if value.is_finite() && tidy(value, 1) > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

/// A difference with two decimals and its sign.
pub(super) fn signed_fine(value: f64) -> String {
    let text = fine(value);
    if value.is_finite() && tidy(value, 2) > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

pub use isomer_transformations::percent;

/// Three decimals, for correlations of rankings.
pub(super) fn fine3(value: f64) -> String {
    if value.is_finite() {
        minus(format!("{:.3}", tidy(value, 3)))
    } else {
        "–".to_owned()
    }
}

/// A count with a comma between thousands.
pub(super) fn count(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, e.g. `1 item`, `1,018 items`.
pub(super) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A rank; it ends in a half if two encoders share it.
pub(super) fn place(rank: f64) -> String {
    if rank.fract() == 0.0 {
        format!("{rank:.0}")
    } else {
        format!("{rank:.1}")
    }
}

/// A share in percent with one decimal.
pub(super) fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A value beside its limit: with `least` decimals, and with more where the two would read the
/// same.
pub(super) fn beside(value: f64, limit: f64, least: usize) -> String {
    let text = |value: f64, decimals: usize| minus(format!("{:.decimals$}", tidy(value, decimals as i32)));
    let decimals = (least..=6).find(|decimals| text(value, *decimals) != text(limit, *decimals));
    match decimals {
        Some(decimals) => text(value, decimals),
        None => text(value, least),
    }
}

/// A share in whole percent beside its limit, as [`beside`].
pub(super) fn percent_beside(share: f64, limit: f64) -> String {
    if percent(share) == percent(limit) {
        format!("{} %", beside(share * 100.0, limit * 100.0, 0))
    } else {
        percent(share)
    }
}

/// A p-value as PTEB prints it: two decimals, or its power of ten below 0.01.
pub(super) fn p_exact(p: f64) -> String {
    if p < 0.01 {
        format!("{p:.2e}").replace('-', "−")
    } else {
        format!("{p:.2}")
    }
}

pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// Seconds as text, for example `4 min 12 s`.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) if seconds < 9.95 => format!("{seconds:.1} s"),
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Rounds a value to the displayed precision, so that `−0.0` never appears.
fn tidy(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    let rounded = (value * scale).round() / scale;
    if rounded == 0.0 { 0.0 } else { rounded }
}

fn minus(text: String) -> String {
    text.replacen('-', "−", 1)
}

/// The ends of a score's interval, for example `[84.1, 88.0]`.
pub(super) fn score_ends(interval: &DeltaInterval) -> String {
    format!("[{}, {}]", points(interval.low), points(interval.high))
}

/// The ends of a difference's interval, for example `[−3.9, −0.7]`.
pub(super) fn ends(interval: &DeltaInterval) -> String {
    format!("[{}, {}]", signed(interval.low), signed(interval.high))
}

/// The ends of a difference's interval in words, for example `−3.94 to −0.71`.
pub(super) fn ends_fine(interval: &DeltaInterval) -> String {
    format!("{} to {}", signed_fine(interval.low), signed_fine(interval.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_carry_their_sign_and_nothing_is_minus_zero() {
        assert_eq!(signed(-2.44), "−2.4");
        assert_eq!(signed(0.31), "+0.3");
        assert_eq!(signed(-0.04), "0.0");
        assert_eq!(signed_fine(0.04), "+0.04");
        assert_eq!(points(f64::NAN), "–");
    }

    #[test]
    fn a_value_differs_from_its_limit_on_paper() {
        assert_eq!(beside(16.366, 5.0, 1), "16.4");
        assert_eq!(beside(5.04, 5.0, 1), "5.04");
        assert_eq!(beside(-5.0, -5.0, 1), "−5.0");
        assert_eq!(percent_beside(0.849, 0.7), "85 %");
        assert_eq!(percent_beside(0.696, 0.7), "69.6 %");
    }

    #[test]
    fn durations_and_shares_read_as_words() {
        assert_eq!(duration(3.21), "3.2 s");
        assert_eq!(duration(252.0), "4 min 12 s");
        assert_eq!(duration(7_260.0), "2 h 1 min");
        assert_eq!(percent(0.004), "< 1 %");
        assert_eq!(percent(0.234), "23 %");
        assert_eq!(p_value(0.00002), "< 0.001");
        assert_eq!(p_exact(6.5e-10), "6.50e−10");
        assert_eq!(p_exact(0.0195), "0.02");
        assert_eq!(fine3(-0.3734), "−0.373");
        assert_eq!(share(0.0075), "0.8 %");
        assert_eq!([7, 300, 1379, 1_000_000].map(count), ["7", "300", "1,379", "1,000,000"]);
    }
}
