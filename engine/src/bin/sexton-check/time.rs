//! A moment as people and as programs write it.

const DAY_S: u64 = 24 * 60 * 60;

/// Seconds since 1970, from `YYYY-MM-DDTHH:MM:SSZ` (a space may stand for the T), or from the number itself.
pub(crate) fn parse_time(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    parse_utc(text).ok_or_else(|| {
        format!(
            "{text}: neither seconds since 1970 nor a time of the form YYYY-MM-DDTHH:MM:SSZ (UTC)"
        )
    })
}

fn parse_utc(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once(['T', ' '])?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let days: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum::<u64>()
        + (1..month.min(12)).map(|month| days_of(year, month)).sum::<u64>();
    in_range.then(|| (days + day - 1) * DAY_S + hour * 3600 + minute * 60 + second)
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let mut parts = text.split(between).map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_forms() {
        assert_eq!(parse_time("1700000000"), Ok(1_700_000_000));
        assert_eq!(parse_time("2023-11-14T22:13:20Z"), Ok(1_700_000_000));
        assert_eq!(parse_time("1970-01-01 00:00:00Z"), Ok(0));
        assert_eq!(parse_time("2024-02-29T12:00:00Z"), Ok(1_709_208_000));
        for wrong in [
            "",
            "yesterday",
            "2023-11-14T22:13:20",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:13Z",
            "-5",
        ] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
