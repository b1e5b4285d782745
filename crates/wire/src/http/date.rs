//! Dates as HTTP writes them (RFC 9110 section 5.6.7), from and to seconds since 1970.
//!
//! Three forms are read, as every recipient must; one is written. The calendar is Hinnant's
//! ("chrono-Compatible Low-Level Date Algorithms"): days are counted from 1 March, so that the day
//! that may be missing is the last of its year.

/// The length of a date as it is written.
pub const DATE_LEN: usize = 29;

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// 31 December 9999, 23:59:59: the last second that has four digits for its year.
const SECONDS_MAX: u64 = 253_402_300_799;

/// A second of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// The year, 1970 to 9999.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 for Sunday.
    pub weekday: u8,
}

impl Civil {
    /// The moment `seconds` after the beginning of 1970; the last of 9999 for all later ones.
    pub fn at(seconds: u64) -> Civil {
        let seconds = seconds.min(SECONDS_MAX);
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let of_era = shifted % 146_097;
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let march = (5 * of_year + 2) / 153;
        let month = if march < 10 { march + 3 } else { march - 9 };
        Civil {
            year: (year + era * 400 + u64::from(month <= 2)) as u16,
            month: month as u8,
            day: (of_year - (153 * march + 2) / 5 + 1) as u8,
            hour: (rest / 3600) as u8,
            minute: (rest / 60 % 60) as u8,
            second: (rest % 60) as u8,
            weekday: ((days + 4) % 7) as u8,
        }
    }

    /// The three letters of its month.
    pub fn month_name(&self) -> &'static str {
        MONTHS[usize::from(self.month - 1)]
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn written(seconds: u64) -> [u8; DATE_LEN] {
    let civil = Civil::at(seconds);
    let mut text = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    let mut two = |at: usize, number: u8| {
        text[at] = b'0' + number / 10;
        text[at + 1] = b'0' + number % 10;
    };
    two(5, civil.day);
    two(12, (civil.year / 100) as u8);
    two(14, (civil.year % 100) as u8);
    two(17, civil.hour);
    two(20, civil.minute);
    two(23, civil.second);
    text[..3].copy_from_slice(DAYS[usize::from(civil.weekday)].as_bytes());
    text[8..11].copy_from_slice(civil.month_name().as_bytes());
    text
}

/// Seconds since 1970 of a date in any of the three forms; `None` for anything else, and for what
/// lies before 1970. `now` places the two digits of a year in RFC 850's form: what would be more
/// than 50 years ahead is of the century before.
pub fn parse(text: &[u8], now: u64) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match words[..] {
        [_, day, month, year, time, "GMT"] => (day, month, year.parse().ok()?, time),
        [_, date, time, "GMT"] => {
            let mut parts = date.split('-');
            let (day, month, short) = (parts.next()?, parts.next()?, parts.next()?);
            let short: u64 = short.parse().ok().filter(|_| short.len() == 2)?;
            let today = u64::from(Civil::at(now).year);
            let near = today / 100 * 100 + short;
            (day, month, if near > today + 50 { near - 100 } else { near }, time)
        }
        [_, month, day, time, year] => (day, month, year.parse().ok()?, time),
        _ => return None,
    };
    let day: u64 = number(day, 1..=31)?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let mut clock = time.split(':');
    let hour = number(clock.next()?, 0..=23)?;
    let minute = number(clock.next()?, 0..=59)?;
    let second = number(clock.next()?, 0..=60)?;
    if clock.next().is_some() || !(1970..=9999).contains(&year) {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn number(text: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && range.contains(number))
}

/// Days since 1970 of a day of the calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * march + 2) / 5 + day - 1;
    let (era, of_era) = (year / 400, year % 400);
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read() {
        fn check(seconds: u64, text: &str) {
            assert_eq!(std::str::from_utf8(&written(seconds)), Ok(text));
            assert_eq!(parse(text.as_bytes(), seconds), Some(seconds), "{text}");
        }
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(SECONDS_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(written(u64::MAX), written(SECONDS_MAX));
    }

    #[test]
    fn old_forms_are_read_and_nonsense_is_not() {
        let now = 1_700_000_000;
        let read = |text: &str| parse(text.as_bytes(), now);
        assert_eq!(read("Sunday, 06-Nov-94 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(read("Sun Nov  6 08:49:37 1994"), Some(784_111_777));
        assert_eq!(read("Sunday, 06-Nov-24 08:49:37 GMT"), Some(1_730_882_977));
        for text in [
            "",
            "yesterday",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 8:49 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nop 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_comes_back() {
        for day in 0..146_097 {
            let seconds = day * 86_400 + day % 86_400;
            assert_eq!(parse(&written(seconds), 0), Some(seconds), "day {day}");
        }
    }
}
