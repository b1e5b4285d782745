//! The header field `Range` in normal play time (RFC 2326 sections 3.6 and 12.29), in nanoseconds.

const SECOND: u64 = 1_000_000_000;

/// A part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Start; `None` is `now`: the current position of a recording, or the live edge.
    pub from_ns: Option<u64>,
    /// End; `None` is the end of the recording.
    pub to_ns: Option<u64>,
}

/// Reads `npt=FROM-TO`; `None` if it is malformed or in another unit.
pub fn parse_range(value: &str) -> Option<Range> {
    // `;time=` requests a later start; the server starts at once.
    let value = value.split(';').next().unwrap_or("").trim();
    let (unit, range) = value.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("npt") {
        return None;
    }
    let (from, to) = range.trim().split_once('-')?;
    let (from, to) = (from.trim(), to.trim());
    let from_ns = match from {
        "now" => None,
        // The last TO seconds; no player uses this form.
        "" => return None,
        from => Some(time(from)?),
    };
    let to_ns = if to.is_empty() { None } else { Some(time(to)?) };
    if let (Some(from), Some(to)) = (from_ns, to_ns)
        && to < from
    {
        return None;
    }
    Some(Range { from_ns, to_ns })
}

/// `SECONDS.FRACTION` or `HOURS:MINUTES:SECONDS.FRACTION`.
fn time(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut units = whole.split(':');
    let number = |digits: &str| -> Option<u64> {
        let is_number = (1..=9).contains(&digits.len());
        let digits = digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)?;
        is_number.then(|| digits.parse().ok()).flatten()
    };
    let seconds = match (units.next(), units.next(), units.next(), units.next()) {
        (Some(seconds), None, ..) => number(seconds)?,
        (Some(hours), Some(minutes), Some(seconds), None) => {
            let (minutes, seconds) = (number(minutes)?, number(seconds)?);
            if minutes > 59 || seconds > 59 {
                return None;
            }
            number(hours)?.checked_mul(3600)? + minutes * 60 + seconds
        }
        _ => return None,
    };
    let mut ns = 0;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    for digit in fraction.bytes().chain(std::iter::repeat(b'0')).take(9) {
        ns = ns * 10 + u64::from(digit - b'0');
    }
    // Nine digits of hours overflow a clock of nanoseconds.
    seconds.checked_mul(SECOND)?.checked_add(ns)
}

/// Nanoseconds as seconds with six decimals, the finest that players keep.
pub fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / SECOND, ns % SECOND / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_play_time() {
        let check = |text, from_ns, to_ns| {
            assert_eq!(parse_range(text), Some(Range { from_ns, to_ns }), "{text}");
        };
        check("npt=0-", Some(0), None);
        check("npt=0.000-", Some(0), None);
        check(" npt = 10.5 - 20 ;time=19970123T143720Z", Some(10_500_000_000), Some(20 * SECOND));
        check("npt=now-", None, None);
        check("npt=1:02:03.25-", Some(3_723_250_000_000), None);
        check("npt=5-5", Some(5 * SECOND), Some(5 * SECOND));
        check("npt=0.1234567891-", Some(123_456_789), None);
        for bad in "\
            |npt|npt=|npt=5|npt=-5|npt=x-|npt=7-3|npt=1:99:00-|npt=1:2-|clock=19961108T142300Z-|\
            smpte=0:10:20-|npt=1.x-|npt=9999999999999999999-|npt=+1-|npt=999999999:00:00-|\
            npt=0-999999999:59:59.999999999"
            .split('|')
        {
            assert_eq!(parse_range(bad), None, "{bad}");
        }
        assert_eq!(seconds(1_234_567_891), "1.234567");
    }
}
