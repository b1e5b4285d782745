//! Parses URLs: the file, and which of its tracks.

use core::net::IpAddr;
use wire::http::Target;

/// A title below the root, and one of its tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackUrl {
    /// The file's path, relative to the root.
    pub path: String,
    pub track: Option<usize>,
    /// The URL without the track, as it was sent.
    pub url: String,
    /// The server's address, if the URL names one.
    pub host: Option<IpAddr>,
}

/// The prefix of a track's number.
const TRACK: &str = "trackID=";

/// Parses the target of a request; `None` if it names nothing below the root.
pub fn track_url(target: &str) -> Option<TrackUrl> {
    let scheme = target.get(..7)?;
    if !scheme.eq_ignore_ascii_case("rtsp://") {
        return None;
    }
    let rest = &target[7..];
    let slash = rest.find('/').unwrap_or(rest.len());
    let (authority, local) = rest.split_at(slash);
    let local = local.split('?').next().unwrap_or("");
    let mut local = local.trim_end_matches('/');
    let mut url = target.split('?').next().unwrap_or(target).trim_end_matches('/');
    let mut track = None;
    let last = local.rsplit('/').next().unwrap_or("");
    if let Some(number) = last.strip_prefix(TRACK) {
        let digits =
            (1..=3).contains(&number.len()) && number.bytes().all(|it| it.is_ascii_digit());
        track = Some(digits.then(|| number.parse().ok()).flatten()?);
        local = local[..local.len() - last.len()].trim_end_matches('/');
        url = url[..url.len() - last.len()].trim_end_matches('/');
    }
    let decoded = Target::read(if local.is_empty() { "/" } else { local }).ok()?;
    let path = std::str::from_utf8(&decoded.path).ok()?.trim_matches('/').to_owned();
    let is_hidden = path.split('/').any(|segment| segment.starts_with('.'));
    if is_hidden || url.bytes().any(|byte| byte <= b' ' || byte == b'"') {
        return None;
    }
    Some(TrackUrl { path, track, url: url.to_owned(), host: host(authority) })
}

/// The address in `user@host:port`, if the host is an address.
fn host(authority: &str) -> Option<IpAddr> {
    let host = authority.rsplit('@').next().unwrap_or("");
    match host.strip_prefix('[') {
        Some(six) => six.split(']').next()?.parse().ok(),
        None => host.split(':').next()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_players() {
        let check = |target: &str, path: &str, track, url: &str| {
            let place = track_url(target).expect(target);
            assert_eq!((place.path.as_str(), place.track), (path, track), "{target}");
            assert_eq!(place.url, url, "{target}");
        };
        check("rtsp://h/a.ts", "a.ts", None, "rtsp://h/a.ts");
        check("RTSP://h:554/d/a%20b.ts/", "d/a b.ts", None, "RTSP://h:554/d/a%20b.ts");
        check("rtsp://h/a.ts/trackID=0", "a.ts", Some(0), "rtsp://h/a.ts");
        check("rtsp://h/a.ts/trackID=12?x=y", "a.ts", Some(12), "rtsp://h/a.ts");
        check("rtsp://h", "", None, "rtsp://h");
        check("rtsp://h/trackID=1", "", Some(1), "rtsp://h");
        for none in "\
            *|a.ts|/a.ts|http://h/a.ts|rtsp://h/../a|rtsp://h/a/%2e%2e/%2e%2e/b|rtsp://h/a%2fb|\
            rtsp://h/.secret|rtsp://h/d/.git/config|rtsp://h/a/trackID=|rtsp://h/a/trackID=-1|\
            rtsp://h/a/trackID=9999|rtsp://h/%zz|rtsp://h/\"a"
            .split('|')
        {
            assert_eq!(track_url(none), None, "{none}");
        }
        assert_eq!(
            track_url("rtsp://127.0.0.1:8554/a").and_then(|it| it.host),
            "127.0.0.1".parse().ok()
        );
        assert_eq!(track_url("rtsp://u@[::1]:5/a").and_then(|it| it.host), "::1".parse().ok());
        assert_eq!(track_url("rtsp://name/a").and_then(|it| it.host), None);
    }
}
