//! Digest authentication (RFC 2617) without stored nonces: a nonce holds the time at which it was
//! made and a proof that this server made it.

use seam::Instant;
use wire::rtsp::{Authorization, Challenge, Request};

use super::options::Credentials;
use super::secret::Secret;

/// The lifetime of a nonce, in seconds.
const NONCE_S: u64 = 300;
/// The realm.
const REALM: &str = "roundhouse";

/// Checks the credentials of a request. If they do not suffice, returns the value of
/// `WWW-Authenticate`.
pub fn check(
    credentials: &Credentials,
    secret: &Secret,
    now: Instant,
    request: &Request<'_>,
) -> Result<(), String> {
    let second = now.ns() / 1_000_000_000;
    let fresh = nonce(secret, second);
    let challenge = |stale| Challenge { realm: REALM, nonce: &fresh, stale }.value();
    let answer = request.field("Authorization").and_then(Authorization::read);
    let Some(answer) = answer else { return Err(challenge(false)) };
    let made = answer.nonce.split('-').next().and_then(|second| second.parse().ok()).unwrap_or(0);
    let is_right = answer.nonce == nonce(secret, made)
        && answer.realm == REALM
        && answer.user == credentials.user
        && is_asked(&answer.uri, request.target)
        && answer.proves(&credentials.password, request.method);
    match is_right {
        false => Err(challenge(false)),
        true if made > second || second - made > NONCE_S => Err(challenge(true)),
        true => Ok(()),
    }
}

fn nonce(secret: &Secret, second: u64) -> String {
    format!("{second}-{}", secret.word(&format!("nonce {second}")))
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
