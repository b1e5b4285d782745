//! Digest authentication (RFC 2617) without stored nonces: a nonce holds the time at which it was
//! made and a proof that this server made it for a client of this address. So another host cannot
//! use an answer that it has seen.

use seam::{Instant, Peer};
use wire::rtsp::{Authorization, Challenge, Request};

use super::options::Credentials;
use super::secret::Secret;

/// The lifetime of a nonce, in seconds.
const NONCE_S: u64 = 300;
const REALM: &str = "roundhouse";

/// The refusal of a request.
pub struct Unproven {
    /// The value of `WWW-Authenticate`.
    pub challenge: String,
    /// Whether the client answered a challenge of ours with a wrong name or password.
    pub is_wrong: bool,
}

/// Checks the credentials of a request from `peer`.
pub fn check(
    credentials: &Credentials,
    secret: &Secret,
    (now, peer): (Instant, Peer),
    request: &Request<'_>,
) -> Result<(), Unproven> {
    let second = now.ns() / 1_000_000_000;
    let fresh = nonce(secret, second, peer);
    let refuse = |stale, is_wrong| {
        let challenge = Challenge { realm: REALM, nonce: &fresh, stale }.value();
        Err(Unproven { challenge, is_wrong })
    };
    let answer = request.field("Authorization").and_then(Authorization::read);
    let Some(answer) = answer else { return refuse(false, false) };
    let made = answer.nonce.split('-').next().and_then(|second| second.parse().ok()).unwrap_or(0);
    if answer.nonce != nonce(secret, made, peer) {
        return refuse(false, false);
    }
    let is_right = answer.realm == REALM
        && answer.user == credentials.user
        && is_asked(&answer.uri, request.target)
        && answer.proves(&credentials.password, request.method);
    match is_right {
        false => refuse(false, true),
        true if made > second || second - made > NONCE_S => refuse(true, false),
        true => Ok(()),
    }
}

fn nonce(secret: &Secret, second: u64, peer: Peer) -> String {
    let address = match peer {
        Peer::Net(address) => address.ip().to_string(),
        Peer::Local => String::new(),
    };
    format!("{second}-{}", secret.word(&format!("nonce {second} {address}")))
}

/// Whether `uri` names the target. Players send the presentation's URL for a track, and the
/// reverse.
fn is_asked(uri: &str, target: &str) -> bool {
    let (uri, target) = (uri.trim_end_matches('/'), target.trim_end_matches('/'));
    let is_below = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_below(uri, target) || is_below(target, uri)
}
