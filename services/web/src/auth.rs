//! Basic authentication (RFC 7617): paths that need a name and a password of a file of
//! htpasswd(1).
//!
//! bcrypt is slow by intent, some 50 ms for a check, so each check is a job. A digest of the last
//! right password of each user is remembered, and later requests cost some hundred nanoseconds.
//! Unknown names are checked against the hash of another user, so that their answer takes as long.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use seam::Out;
use sha2::{Digest, Sha256};
use wire::http::{Head, Status};

use super::dispatch::{Action, Dispatch, ReplyContext};
use super::platform::Platform;
use super::respond::{Responder, Summary};
use super::service::{At, Job, Next, Session, Web, away};

/// A prefix of paths and its users, who can be replaced.
#[derive(Clone, Debug)]
pub struct Guard {
    prefix: String,
    users: Arc<RwLock<Users>>,
}

/// Users by name: each with the hash of the file.
type Hashes = HashMap<String, String>;

#[derive(Debug, Default)]
struct Users {
    hashes: Hashes,
    /// Digests of names, hashes and passwords that belong together; at most one a user.
    known: HashMap<String, [u8; 32]>,
}

/// Why a file of users cannot be used.
#[derive(Debug, PartialEq, Eq, derive_more::Display)]
#[display("line {_0}: expected NAME:HASH with a hash of bcrypt, as `htpasswd -B` writes it")]
pub struct BadUsers(usize);

impl std::error::Error for BadUsers {}

/// A name and a password that a client has sent, and the action that they are for.
#[derive(Debug)]
pub struct Attempt {
    pub guard: usize,
    user: String,
    password: String,
    /// The action for the right password.
    pub act: Action,
    pub body: Vec<u8>,
}

impl Guard {
    /// The guard of the paths that begin with `prefix`, without users.
    ///
    /// # Errors
    /// It is no path.
    pub fn new(prefix: &str) -> Result<Guard, String> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
        if !prefix.starts_with('/') || !prefix.bytes().all(is_plain) {
            return Err(format!("expected a path such as /private, found `{prefix}`"));
        }
        let prefix = prefix.trim_end_matches('/').to_owned();
        Ok(Guard { prefix, users: Arc::default() })
    }

    /// The beginning of its paths, without a slash at its end.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Asks for a name and a password; the realm is the path.
    pub(super) fn refuse(&self, responder: &mut Responder<'_>, out: &mut Out) -> Summary {
        let realm = if self.prefix.is_empty() { "/" } else { &self.prefix };
        let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
        let fields = [("WWW-Authenticate", challenge.as_str())];
        responder.refuse(Status::UNAUTHORIZED, &fields, "expected a name and a password", out)
    }

    /// Replaces the users by those of a file's text. Passwords that were right are forgotten.
    ///
    /// # Errors
    /// The first line that is none; then the users stay.
    pub fn set_users(&self, text: &str) -> Result<(), BadUsers> {
        let lines = text.lines().enumerate().filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        let hashes = lines.map(|(at, line)| {
            let bad = BadUsers(at + 1);
            let (name, hash) = line.trim().split_once(':').ok_or(BadUsers(at + 1))?;
            bcrypt::HashParts::from_str(hash).map_err(|_| bad)?;
            Ok((name.to_owned(), hash.to_owned()))
        });
        let hashes = hashes.collect::<Result<Hashes, BadUsers>>()?;
        *self.users.write().unwrap_or_else(PoisonError::into_inner) =
            Users { hashes, known: HashMap::new() };
        Ok(())
    }

    /// Whether the attempt is known to be right.
    pub(super) fn knows(&self, attempt: &Attempt) -> bool {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        let Some((known, hash)) =
            users.known.get(&attempt.user).zip(users.hashes.get(&attempt.user))
        else {
            return false;
        };
        let found = attempt.digest(hash);
        // In constant time: the loop has no early end.
        known.iter().zip(found).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    /// Checks the attempt, which takes long, and remembers a right one.
    pub(super) fn check(&self, attempt: &Attempt) -> bool {
        let (hash, is_user) = {
            let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
            let own = users.hashes.get(&attempt.user);
            let Some(hash) = own.or_else(|| users.hashes.values().next()) else { return false };
            (hash.clone(), own.is_some())
        };
        let is_right = bcrypt::verify(&attempt.password, &hash).unwrap_or(false) && is_user;
        if is_right {
            let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
            users.known.insert(attempt.user.clone(), attempt.digest(&hash));
        }
        is_right
    }
}

impl Attempt {
    /// The attempt of a request, if it has one, to get `act`; otherwise the action comes back.
    pub(super) fn read(guard: usize, head: &Head<'_>, act: Action) -> Result<Attempt, Action> {
        match credentials(head) {
            Some((user, password)) => Ok(Attempt { guard, user, password, act, body: Vec::new() }),
            None => Err(act),
        }
    }

    /// The action for a right or a wrong password, and the body of the request.
    pub(super) fn answer(self, is_right: bool) -> (Action, Vec<u8>) {
        let act = if is_right { self.act } else { Action::Unauthorized(self.guard) };
        (act, self.body)
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// The hash has a salt, so equal passwords of two users differ.
    fn digest(&self, hash: &str) -> [u8; 32] {
        Sha256::digest([hash, "\n", &self.user, "\n", &self.password].concat()).into()
    }
}

impl<B: Platform> Web<B> {
    /// Carries out the action of a password that is known, or starts its check.
    pub(super) fn guard(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        mut attempt: Box<Attempt>,
        context: ReplyContext,
        body: &[u8],
        out: &mut Out,
    ) -> Next<B::File> {
        if self.options.guards[attempt.guard].knows(&attempt) {
            return self.act(cx, session, Dispatch { act: attempt.act, context }, body, out);
        }
        attempt.body = body.to_vec();
        away(session, Job::Check(attempt), context)
    }
}

fn credentials(head: &Head<'_>) -> Option<(String, String)> {
    let value = head.field("authorization")?.trim_ascii();
    let (scheme, coded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(coded.trim_ascii()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}
