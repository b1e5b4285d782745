//! HTTP dates (RFC 9110 section 5.6.7), to and from seconds since 1970, by `httpdate`.
//!
//! All three forms are read, as every recipient must; one is written. The obsolete RFC 850 form has
//! two digits for the year: 70 to 99 mean 1970 to 1999.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::{HttpDate, parse_http_date};

/// The length of a formatted date.
pub const DATE_LEN: usize = 29;

/// 31 December 9999, 23:59:59: the last second whose year has four digits.
const SECONDS_MAX: u64 = 253_402_300_799;

/// `Sun, 06 Nov 1994 08:49:37 GMT`; later seconds than the year 9999 has count as its last.
pub fn format(seconds: u64) -> [u8; DATE_LEN] {
    let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds.min(SECONDS_MAX)));
    let mut text = [b' '; DATE_LEN];
    write!(&mut text[..], "{date}").expect("an HTTP date is 29 bytes long");
    text
}

/// Seconds since 1970 of a date in any of the three forms; `None` for anything else and for dates
/// before 1970.
pub fn parse(text: &[u8]) -> Option<u64> {
    let moment = parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    moment.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read() {
        fn check(seconds: u64, text: &str) {
            assert_eq!(std::str::from_utf8(&format(seconds)), Ok(text));
            assert_eq!(parse(text.as_bytes()), Some(seconds), "{text}");
        }
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(SECONDS_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(format(u64::MAX), format(SECONDS_MAX));
    }

    #[test]
    fn old_forms_are_read_and_nonsense_is_not() {
        let read = |text: &str| parse(text.as_bytes());
        assert_eq!(read("Sunday, 06-Nov-94 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(read("Sun Nov  6 08:49:37 1994"), Some(784_111_777));
        assert_eq!(read("Wednesday, 06-Nov-24 08:49:37 GMT"), Some(1_730_882_977));
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
}
