//! etcd by the JSON gateway of its API v3, which every member serves next to gRPC. etcd writes a
//! change to the disks of most members before it answers.
//!
//! ```text
//!   NAME/head           the number of the last batch, in decimal: the fence
//!   NAME/batch/NUMBER   a batch, the number in 20 digits
//!   NAME/snaps          "NUMBER PARTS TAG" of each snapshot, the newest first, a line each
//!   NAME/snap/NUMBER/TAG/I  a part of one; the tag is its writer's
//!   NAME/node/ID        words of a node, gone with its lease
//! ```

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::{Agent, Body};

use crate::{
    Appended, BATCHES_READ, BatchStore, Batches, MemberState, StoreAccess, StoreAddress, StoreFault,
};

/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a watch is silent before it is asked for again.
const SILENCE: Duration = Duration::from_millis(500);
/// How long a member may take to tell its state.
const GLANCE: Duration = Duration::from_millis(300);
/// The life of a node's words, in seconds.
const LEASE: u64 = 5;
/// Bytes in one part of a snapshot; etcd takes 1.5 MiB in a request.
const PART: usize = 1 << 20;
const ANSWER_MAX: u64 = 256 << 20;

/// A market in etcd.
#[derive(Debug)]
pub struct Etcd {
    agent: Agent,
    address: StoreAddress,
    access: Arc<StoreAccess>,
    /// The token that the store gave in exchange for the password.
    token: Option<Token>,
    /// The member that is asked.
    at: usize,
    lease: Option<String>,
    /// Tells snapshots of this writer from those that others write at the same time.
    tag: u64,
}

/// A token of the store, which no message shows.
struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[derive(Clone, Copy)]
struct Snap {
    number: u64,
    parts: u64,
    tag: u64,
}

impl Snap {
    fn key(self, part: u64) -> String {
        format!("snap/{:020}/{:016x}/{part:04}", self.number, self.tag)
    }
}

impl Etcd {
    /// The market at `address`; nothing is asked yet.
    pub fn new(address: StoreAddress, access: Arc<StoreAccess>) -> Etcd {
        let tag = RandomState::new().build_hasher().finish();
        Etcd { agent: agent(None, &access), address, access, token: None, at: 0, lease: None, tag }
    }

    fn url(&self, at: usize, path: &str) -> String {
        let scheme = if self.address.is_tls { "https" } else { "http" };
        format!("{scheme}://{}/v3/{path}", self.host(at))
    }

    /// Exchanges the password for a token, if there is none.
    fn enter(&mut self) -> Result<(), String> {
        let Some((name, password)) = self.access.user.as_ref().filter(|_| self.token.is_none())
        else {
            return Ok(());
        };
        let body = json!({ "name": name, "password": password });
        let answer = self.ask_member(self.at, PATIENCE, "auth/authenticate", &body)?;
        self.token = answer["token"].as_str().map(|token| Token(token.to_owned()));
        Ok(())
    }

    fn key(&self, rest: &str) -> String {
        format!("{}/{rest}", self.address.name)
    }

    fn host(&self, at: usize) -> &str {
        &self.address.hosts[at % self.address.hosts.len()]
    }

    /// Asks the member in turn; one that fails is not asked again soon.
    fn ask(&mut self, path: &str, body: &Value) -> Result<Value, StoreFault> {
        let ask = |store: &mut Etcd| {
            store.enter()?;
            store.ask_member(store.at, PATIENCE, path, body)
        };
        let mut answer = ask(self);
        // A token lasts for some minutes, and ends with its member.
        if self.token.is_some() && answer.as_ref().is_err_and(|why| is_about_token(why)) {
            self.token = None;
            answer = ask(self);
        }
        answer.map_err(|why| {
            let address = self.host(self.at).to_owned();
            self.at = self.next();
            StoreFault::Silent { address, why }
        })
    }

    /// The next member that answers at once: each one that is cut off costs a whole wait.
    fn next(&self) -> usize {
        let mut others = self.at + 1..self.at + self.address.hosts.len();
        let answers =
            |at: &usize| self.ask_member(*at, GLANCE, "maintenance/status", &json!({})).is_ok();
        others.find(answers).unwrap_or(self.at + 1)
    }

    fn ask_member(
        &self,
        at: usize,
        patience: Duration,
        path: &str,
        body: &Value,
    ) -> Result<Value, String> {
        let post = self.agent.post(self.url(at, path)).content_type("application/json");
        let post = self.token.iter().fold(post, |it, token| it.header("Authorization", &token.0));
        let post = post.config();
        let post = post.timeout_connect(Some(patience)).timeout_recv_response(Some(patience));
        let sent = post.build().send(body.to_string());
        sent.map_err(|error| error.to_string()).and_then(|mut answer| {
            let is_good = answer.status().is_success();
            let text = text(answer.body_mut()).map_err(|error| error.to_string())?;
            let value: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
            match value["error"].as_str().or_else(|| value["message"].as_str()) {
                None if is_good => Ok(value),
                why => Err(why.unwrap_or("expected an answer of etcd, found another").to_owned()),
            }
        })
    }

    /// A transaction; whether the comparison held, and the answers to its operations.
    fn transact(
        &mut self,
        compare: Value,
        success: Value,
        failure: Value,
    ) -> Result<(bool, Value), StoreFault> {
        let body = json!({ "compare": compare, "success": success, "failure": failure });
        let mut answer = self.ask("kv/txn", &body)?;
        Ok((answer["succeeded"].as_bool().unwrap_or(false), answer["responses"].take()))
    }

    fn put(&self, key: &str, value: &[u8]) -> Value {
        json!({ "requestPut": { "key": base64(self.key(key).as_bytes()), "value": base64(value) } })
    }

    fn range(&self, from: &str, to: Option<&str>, limit: usize) -> Value {
        let key = base64(self.key(from).as_bytes());
        let end = to.map_or(String::new(), |to| base64(self.key(to).as_bytes()));
        json!({ "requestRange": { "key": key, "range_end": end, "limit": limit } })
    }

    fn equals(&self, key: &str, value: &[u8]) -> Value {
        let key = base64(self.key(key).as_bytes());
        json!({ "key": key, "target": "VALUE", "result": "EQUAL", "value": base64(value) })
    }

    fn is_absent(&self, key: &str) -> Value {
        let key = base64(self.key(key).as_bytes());
        json!({ "key": key, "target": "VERSION", "result": "EQUAL", "version": "0" })
    }

    fn delete(&mut self, from: &str, to: &str) -> Result<Value, StoreFault> {
        let (from, to) = (self.key(from), self.key(to));
        let body = json!({ "key": base64(from.as_bytes()), "range_end": base64(to.as_bytes()) });
        self.ask("kv/deleterange", &body)
    }

    /// The operations that read the head and the batches after number `after`.
    fn tail(&self, after: u64) -> Value {
        let batches = self.range(&batch_key(after + 1), Some("batch0"), BATCHES_READ);
        json!([self.range("head", None, 1), batches])
    }

    fn tail_of(&self, answers: &Value) -> Result<(u64, Batches), StoreFault> {
        let damaged = |found: &str| StoreFault::Damaged(format!("expected {found} in etcd"));
        let head = pairs(&answers[0]).next().and_then(|(_, value)| number(&value));
        let head = head.ok_or_else(|| damaged("the number of the last batch"))?;
        let batches = pairs(&answers[1]).map(|(key, batch)| {
            let number = key.rsplit(|byte| *byte == b'/').next().and_then(number);
            number.map(|number| (number, batch))
        });
        let batches: Option<Batches> = batches.collect();
        Ok((head, batches.ok_or_else(|| damaged("the number of a batch"))?))
    }

    /// The snapshots, newest first, and the text that lists them.
    fn snaps(&mut self) -> Result<(Vec<Snap>, Vec<u8>), StoreFault> {
        let list = json!([self.range("snaps", None, 1)]);
        let (_, answers) = self.transact(json!([]), list, json!([]))?;
        let text = pairs(&answers[0]).next().map(|(_, text)| text).unwrap_or_default();
        let row = |row: &str| {
            let numbers: Option<Vec<u64>> = row.split(' ').map(number).collect();
            let [number, parts, tag] = numbers?[..] else { return None };
            Some(Snap { number, parts, tag })
        };
        let rows: Option<Vec<_>> = String::from_utf8_lossy(&text).lines().map(row).collect();
        let damaged = || StoreFault::Damaged("expected the list of snapshots in etcd".into());
        Ok((rows.ok_or_else(damaged)?, text))
    }

    /// Drops what is older than the snapshot after batch `number`, and the history of all keys: the
    /// space is used again.
    fn drop_before(&mut self, number: u64) -> Result<(), StoreFault> {
        self.delete("batch/", &batch_key(number + 1))?;
        let answer = self.delete("snap/", &format!("snap/{number:020}/"))?;
        let revision = answer["header"]["revision"].as_str().unwrap_or("0").to_owned();
        match self.ask("kv/compaction", &json!({ "revision": revision })) {
            // Somebody else has compacted further.
            Err(StoreFault::Silent { why, .. }) if why.contains("has been compacted") => Ok(()),
            done => done.map(drop),
        }
    }

    fn lease(&mut self) -> Result<String, StoreFault> {
        if let Some(lease) = self.lease.clone() {
            let answer = self.ask("lease/keepalive", &json!({ "ID": lease }))?;
            if answer["result"]["TTL"].is_string() {
                return Ok(lease);
            }
        }
        let answer = self.ask("lease/grant", &json!({ "TTL": LEASE }))?;
        let lease = answer["ID"].as_str().unwrap_or_default().to_owned();
        self.lease = Some(lease.clone());
        Ok(lease)
    }
}

impl BatchStore for Etcd {
    fn append(&mut self, after: u64, batch: &[u8]) -> Result<Appended, StoreFault> {
        let number = after + 1;
        let fence = json!([self.equals("head", after.to_string().as_bytes())]);
        let head = self.put("head", number.to_string().as_bytes());
        let puts = json!([head, self.put(&batch_key(number), batch)]);
        let (is_done, answers) = self.transact(fence, puts, self.tail(after))?;
        if is_done {
            return Ok(Appended::Done);
        }
        let (head, batches) = self.tail_of(&answers)?;
        if head <= after {
            let found = format!("expected batch {after} in etcd, found {head} as the last one");
            return Err(StoreFault::Damaged(found));
        }
        Ok(Appended::Behind(batches))
    }

    fn read(&mut self, after: u64) -> Result<(u64, Batches), StoreFault> {
        let (_, answers) = self.transact(json!([]), self.tail(after), json!([]))?;
        self.tail_of(&answers)
    }

    fn snapshot(&mut self, newest: bool) -> Result<Option<(u64, Vec<u8>)>, StoreFault> {
        let (snaps, _) = self.snaps()?;
        let named = if newest { snaps.first() } else { snaps.last() };
        let Some(snap) = named.copied() else { return Ok(None) };
        let mut bytes = Vec::new();
        for part in 0..snap.parts {
            let key = self.range(&snap.key(part), None, 1);
            let (_, answers) = self.transact(json!([]), json!([key]), json!([]))?;
            let found = pairs(&answers[0]).next();
            // Another node may have replaced it meanwhile; its list is read again then.
            let gone = || StoreFault::Silent {
                address: self.address.to_string(),
                why: format!("snapshot {} has gone", snap.number),
            };
            bytes.extend(found.ok_or_else(gone)?.1);
        }
        Ok(Some((snap.number, bytes)))
    }

    fn save(&mut self, number: u64, snapshot: &[u8]) -> Result<(), StoreFault> {
        let (snaps, text) = self.snaps()?;
        if snaps.first().is_some_and(|newest| newest.number >= number) {
            return Ok(());
        }
        let snap = Snap { number, parts: snapshot.len().div_ceil(PART) as u64, tag: self.tag };
        for (part, bytes) in (0..).zip(snapshot.chunks(PART)) {
            let put = self.put(&snap.key(part), bytes);
            self.transact(json!([]), json!([put]), json!([]))?;
        }
        let before = snaps.first().copied();
        let row = |Snap { number, parts, tag }| format!("{number} {parts} {tag}\n");
        let rows: String = [snap].into_iter().chain(before).map(row).collect();
        let mut puts = vec![self.put("snaps", rows.as_bytes())];
        let fence = if snaps.is_empty() {
            puts.push(self.put("head", number.to_string().as_bytes()));
            json!([self.is_absent("head"), self.is_absent("snaps")])
        } else {
            json!([self.equals("snaps", &text)])
        };
        let (is_done, _) = self.transact(fence, json!(puts), json!([]))?;
        match before.filter(|_| is_done) {
            Some(before) => self.drop_before(before.number),
            None => Ok(()),
        }
    }

    fn beat(&mut self, id: u64, words: &str) -> Result<Vec<String>, StoreFault> {
        let lease = self.lease()?;
        let mut put = self.put(&format!("node/{id:016x}"), words.as_bytes());
        put["requestPut"]["lease"] = lease.into();
        let nodes = self.range("node/", Some("node0"), 0);
        let (_, answers) = self.transact(json!([]), json!([put, nodes]), json!([]))?;
        let words = |(_, words): (_, Vec<u8>)| String::from_utf8_lossy(&words).into_owned();
        Ok(pairs(&answers[1]).map(words).collect())
    }

    fn members(&mut self) -> Vec<(String, MemberState)> {
        let state = |at| match self.ask_member(at, GLANCE, "maintenance/status", &json!({})) {
            Err(_) => MemberState::Silent,
            Ok(status) => member_state(&status),
        };
        let hosts = self.address.hosts.iter().enumerate();
        hosts.map(|(at, host)| (host.clone(), state(at))).collect()
    }

    fn watch(&mut self, ends: &AtomicBool, news: &dyn Fn()) {
        let agent = agent(Some(SILENCE), &self.access);
        let mut at = self.at;
        while !ends.load(Ordering::Relaxed) {
            let key = base64(self.key("head").as_bytes());
            let body = json!({ "create_request": { "key": key } }).to_string();
            self.at = at;
            let _ = self.enter();
            let post = agent.post(self.url(at, "watch")).content_type("application/json");
            let token = self.token.iter();
            let post = token.fold(post, |it, token| it.header("Authorization", &token.0));
            let opened = post.send(body);
            let read = opened.map(|answer| {
                // Batches from before the watch began.
                news();
                let mut lines = BufReader::new(answer.into_body().into_reader());
                let mut line = Vec::new();
                while !ends.load(Ordering::Relaxed)
                    && matches!(lines.by_ref().take(1 << 20).read_until(b'\n', &mut line), Ok(1..))
                {
                    line.clear();
                    news();
                }
            });
            if read.is_err() {
                self.token = None;
                at += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// An agent whose every wait has an end. A name is resolved without one: ureq would start a thread
/// for it, and a server has no thread before its workers are forked.
fn agent(silence: Option<Duration>, access: &StoreAccess) -> Agent {
    let patience = Some(PATIENCE).filter(|_| silence.is_none());
    let config = Agent::config_builder().http_status_as_error(false).proxy(None);
    let config = access.tls.iter().fold(config, |it, tls| it.tls_config(tls.clone()));
    let config = config.timeout_connect(Some(PATIENCE)).timeout_send_request(patience);
    let config = config.timeout_send_body(patience).timeout_recv_response(patience);
    config.timeout_recv_body(patience).timeout_per_read(silence).build().new_agent()
}

/// Whether a member does not know our token any more.
fn is_about_token(why: &str) -> bool {
    why.contains("invalid auth token") || why.contains("user name is empty")
}

/// The state that a member tells of itself; the gateway leaves out a leader of 0.
fn member_state(status: &Value) -> MemberState {
    let (leader, me) = (&status["leader"], &status["header"]["member_id"]);
    match leader.as_str() {
        None | Some("0") => MemberState::Ailing,
        _ if status["errors"].as_array().is_some_and(|errors| !errors.is_empty()) => {
            MemberState::Ailing
        }
        _ if leader == me => MemberState::Leads,
        _ => MemberState::Follows,
    }
}

fn text(body: &mut Body) -> Result<Vec<u8>, ureq::Error> {
    body.with_config().limit(ANSWER_MAX).read_to_vec()
}

fn batch_key(number: u64) -> String {
    format!("batch/{number:020}")
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn number(text: impl AsRef<[u8]>) -> Option<u64> {
    std::str::from_utf8(text.as_ref()).ok()?.parse().ok()
}

/// Keys and values in the answer to a range.
fn pairs(answer: &Value) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let bytes = |text: &Value| STANDARD.decode(text.as_str().unwrap_or_default()).ok();
    let pairs = answer["response_range"]["kvs"].as_array().into_iter().flatten();
    pairs.filter_map(move |pair| Some((bytes(&pair["key"])?, bytes(&pair["value"])?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_tells_its_state() {
        let check = |status: Value, expected| assert_eq!(member_state(&status), expected);
        let header = json!({ "member_id": "7" });
        check(json!({ "header": header, "leader": "7" }), MemberState::Leads);
        check(json!({ "header": header, "leader": "8" }), MemberState::Follows);
        check(json!({ "header": header }), MemberState::Ailing);
        let errors = json!(["memberID:7 alarm:NOSPACE"]);
        check(json!({ "header": header, "leader": "7", "errors": errors }), MemberState::Ailing);
    }
}
