//! Days and months in UTC, the periods of budgets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use isomer_proto::gateway::v1::BudgetPeriod;
use isomer_service_kit::Fault;
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};

/// A day in UTC, counted from 1970-01-01.
pub(crate) type Day = i64;

/// Microseconds since 1970, the format of times in the database.
pub fn micros_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn day_of(micros: i64) -> Day {
    micros.div_euclid(86_400_000_000)
}

/// The first day of the month of `day`.
pub(crate) fn month_begin(day: Day) -> Day {
    date(day).map_or(day, |date| day - i64::from(date.day()) + 1)
}

/// The time from `now` until the end of the current period; `None` for [`BudgetPeriod::Total`].
pub(crate) fn until_end(period: BudgetPeriod, now: i64) -> Option<Duration> {
    let today = day_of(now);
    let next = match period {
        BudgetPeriod::Day => today + 1,
        BudgetPeriod::Month => month_begin(month_begin(today) + 31),
        BudgetPeriod::Total | BudgetPeriod::Unspecified => return None,
    };
    u64::try_from(next * 86_400_000_000 - now)
        .ok()
        .map(Duration::from_micros)
}

fn date(day: Day) -> Option<Date> {
    Date::constant(1970, 1, 1).checked_add(day.days()).ok()
}

/// A time of the database in RFC 3339, to the second.
pub fn rfc3339(micros: i64) -> String {
    match Timestamp::from_microsecond(micros) {
        Ok(time) => time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => micros.to_string(),
    }
}

/// Reads an expiry: a date (`2027-01-31`, its beginning in UTC), a time in RFC 3339, or a duration
/// from `now` (`90d`, `12h`, `30m`, `45s`).
///
/// # Errors
/// `INVALID_ARGUMENT` on `expires` for anything else.
pub fn read_expiry(text: &str, now: i64) -> Result<i64, Fault> {
    let refuse = || {
        Fault::invalid("expires", format!("`{text}` is not a time"))
            .hint("give a duration (90d, 12h), a date (2027-01-31) or a time (2027-01-31T12:00:00Z)")
    };
    let micros = |seconds: i64| seconds.checked_mul(1_000_000);
    if let Some(span) = read_span(text) {
        let span = i64::try_from(span.as_secs()).ok().and_then(micros);
        return span.and_then(|span| now.checked_add(span)).ok_or_else(refuse);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_microsecond());
    }
    let date: Date = text.parse().map_err(|_| refuse())?;
    let begin = date.to_zoned(TimeZone::UTC).map_err(|_| refuse())?;
    Ok(begin.timestamp().as_microsecond())
}

/// Parses a duration: a number with its unit, `90d`, `12h`, `30m` or `45s`.
pub fn read_span(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u32 = number.parse().ok()?;
    let seconds = match unit {
        "d" => 86_400,
        "h" => 3_600,
        "m" => 60,
        "s" => 1,
        _ => return None,
    };
    Some(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_microsecond()
    }

    #[test]
    fn months_begin_on_the_first_and_periods_end_at_midnight() {
        let now = at("2028-02-29T23:59:30Z");
        assert_eq!(month_begin(day_of(now)), day_of(at("2028-02-01T00:00:00Z")));
        assert_eq!(until_end(BudgetPeriod::Day, now), Some(Duration::from_secs(30)));
        assert_eq!(until_end(BudgetPeriod::Month, now), Some(Duration::from_secs(30)));
        assert_eq!(until_end(BudgetPeriod::Total, now), None);
        let first = at("2026-12-01T00:00:00Z");
        assert_eq!(
            until_end(BudgetPeriod::Month, first),
            Some(Duration::from_secs(31 * 86_400))
        );
    }

    #[test]
    fn expiries_are_read_in_every_form() {
        let now = at("2026-11-21T12:00:00Z");
        assert_eq!(read_expiry("90d", now).unwrap(), now + 90 * 86_400_000_000);
        assert_eq!(read_expiry("30m", now).unwrap(), now + 1_800_000_000);
        assert_eq!(read_expiry("2027-01-31", now).unwrap(), at("2027-01-31T00:00:00Z"));
        assert_eq!(
            read_expiry("2027-01-31T12:00:00+02:00", now).unwrap(),
            at("2027-01-31T10:00:00Z")
        );
        for text in ["", "soon", "90", "9x", "-3d", "2027-13-01"] {
            assert_eq!(
                read_expiry(text, now).unwrap_err().field.as_deref(),
                Some("expires"),
                "{text}"
            );
        }
    }
}
