//! Who may: Digest authentication (RFC 2617) without a memory. A nonce is the time at which it was
//! made and a proof that we made it, so none has to be kept.

use seam::Instant;
use wire::rtsp::{Authorization, Challenge, Request};

use super::chance::Chance;
use super::options::Credentials;

/// How long a nonce is good, in seconds.
const NONCE_S: u64 = 300;
/// What the password opens.
const REALM: &str = "roundhouse";

/// Whether the request may pass; the value of `WWW-Authenticate` if it may not.
pub fn check(
    credentials: &Credentials,
    chance: &Chance,
    now: Instant,
    request: &Request<'_>,
) -> Result<(), String> {
    let second = now.ns() / 1_000_000_000;
    let fresh = nonce(chance, second);
    let challenge = |stale| Challenge { realm: REALM, nonce: &fresh, stale }.value();
    let answer = request.field("Authorization").and_then(Authorization::read);
    let Some(answer) = answer else { return Err(challenge(false)) };
    let made = answer.nonce.split('-').next().and_then(|second| second.parse().ok()).unwrap_or(0);
    let is_right = answer.nonce == nonce(chance, made)
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

fn nonce(chance: &Chance, second: u64) -> String {
    format!("{second}-{}", chance.word(&format!("nonce {second}")))
}

/// Players name the whole where they mean a track, or the other way round.
fn is_asked(uri: &str, target: &str) -> bool {
    let (uri, target) = (uri.trim_end_matches('/'), target.trim_end_matches('/'));
    let is_below = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_below(uri, target) || is_below(target, uri)
}
