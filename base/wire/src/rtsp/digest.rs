//! Digest authentication (RFC 2617) as every RTSP player implements it: MD5, with `qop=auth` if the
//! client wants it. It keeps the password off the wire; it does not protect the stream.

use md5::{Digest, Md5};

/// The challenge of the server: compute `digest_response` from the password and this nonce.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// The name of the protected area.
    pub realm: &'a str,
    /// A value that expires.
    pub nonce: &'a str,
    /// The last response was right but its nonce had expired: the client need not prompt the user.
    pub stale: bool,
}

impl Challenge<'_> {
    /// The value of `WWW-Authenticate`.
    pub fn value(&self) -> String {
        let stale = if self.stale { ", stale=\"true\"" } else { "" };
        format!("Digest realm=\"{}\", nonce=\"{}\"{stale}", self.realm, self.nonce)
    }
}

/// The `Authorization` field of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorization {
    /// The user name.
    pub user: String,
    /// The name of the protected area.
    pub realm: String,
    /// The nonce of the challenge.
    pub nonce: String,
    /// The URI of the request.
    pub uri: String,
    /// The digest.
    pub response: String,
    qop: String,
    cnonce: String,
    count: String,
}

impl Authorization {
    /// Reads the value of `Authorization`; `None` if it is not Digest.
    pub fn read(value: &str) -> Option<Authorization> {
        let (scheme, mut rest) = value.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let mut answer = Authorization::default();
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                return Some(answer);
            }
            let (name, behind) = rest.split_once('=')?;
            let value;
            (value, rest) = match behind.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => behind.split_at(behind.find(',').unwrap_or(behind.len())),
            };
            let slot = match name.trim().to_ascii_lowercase().as_str() {
                "username" => &mut answer.user,
                "realm" => &mut answer.realm,
                "nonce" => &mut answer.nonce,
                "uri" => &mut answer.uri,
                "response" => &mut answer.response,
                "qop" => &mut answer.qop,
                "cnonce" => &mut answer.cnonce,
                "nc" => &mut answer.count,
                _ => continue,
            };
            value.trim().clone_into(slot);
        }
    }

    /// Whether the digest proves knowledge of `password` for a request with `method`.
    pub fn proves(&self, password: &str, method: &str) -> bool {
        let qop = (self.qop == "auth").then_some((self.count.as_str(), self.cnonce.as_str()));
        let want = digest_response(
            (&self.user, &self.realm, password),
            &self.nonce,
            (method, &self.uri),
            qop,
        );
        // Every byte is compared, so timing reveals nothing.
        let differ = |(ours, theirs): (u8, u8)| ours ^ theirs.to_ascii_lowercase();
        let apart =
            want.bytes().zip(self.response.bytes()).map(differ).fold(0, |all, one| all | one);
        want.len() == self.response.len() && apart == 0
    }
}

/// The digest of user, realm and password for a nonce, a method and a URI; `qop` is the request
/// count and the client's nonce, if it uses them.
pub fn digest_response(
    (user, realm, password): (&str, &str, &str),
    nonce: &str,
    (method, uri): (&str, &str),
    qop: Option<(&str, &str)>,
) -> String {
    let who = md5_hex(&[user, ":", realm, ":", password]);
    let what = md5_hex(&[method, ":", uri]);
    match qop {
        None => md5_hex(&[&who, ":", nonce, ":", &what]),
        Some((count, cnonce)) => {
            md5_hex(&[&who, ":", nonce, ":", count, ":", cnonce, ":auth:", &what])
        }
    }
}

/// The MD5 of the concatenated pieces in hexadecimal.
pub fn md5_hex(pieces: &[&str]) -> String {
    let mut digest = Md5::new();
    pieces.iter().for_each(|piece| digest.update(piece));
    format!("{:x}", digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        let value = "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
            nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", qop=auth, \
            nc=00000001, cnonce=\"0a4f113b\", response=\"6629fae49393a05397450978507c4ef1\", \
            opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
        let answer = Authorization::read(value).expect("a digest");
        assert!(answer.proves("Circle Of Life", "GET"));
        assert!(!answer.proves("circle of life", "GET"));
        assert!(!answer.proves("Circle Of Life", "POST"));
    }

    #[test]
    fn without_qop_and_what_is_none() {
        let proof = digest_response(("u", "r", "p"), "n", ("PLAY", "rtsp://h/a"), None);
        let value = format!(
            "digest username=\"u\",realm=\"r\",nonce=\"n\",uri=\"rtsp://h/a\",response=\"{proof}\""
        );
        assert!(Authorization::read(&value).expect("a digest").proves("p", "PLAY"));
        assert_eq!(Authorization::read("Basic dTpw"), None);
        assert_eq!(Authorization::read("Digest username=\"u"), None);
        assert_eq!(Authorization::read("Digest username"), None);
        assert!(!Authorization::read("Digest response=").expect("empty").proves("p", "PLAY"));
        let challenge = Challenge { realm: "r", nonce: "n", stale: true };
        assert_eq!(challenge.value(), "Digest realm=\"r\", nonce=\"n\", stale=\"true\"");
    }
}
