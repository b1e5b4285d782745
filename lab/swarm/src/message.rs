//! The messages between master and worker, as bytes.
//!
//! A message is a MessagePack array of three: its kind, its data, the name of the worker
//! (`locust/rpc/protocol.py` of Locust 2.40 to 2.47). Nothing else is fixed: data may be nil, a
//! map, a string or a number, and a master's `spawn` carries every option of its command line.
//! Input is therefore read as a [`Value`], from which only the needed fields are taken. An unknown
//! kind is [`MasterMessage::Other`] and no error, because later masters have more kinds.

use rmpv::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The deepest nesting accepted from a master; Locust's messages have four levels.
const DEPTH_MAX: usize = 64;

/// The most users of one worker, all classes together. A generator has room for some ten thousand
/// connections; open users share a schedule and cost little.
pub const USERS_MAX: u64 = 1_000_000;
/// The longest time that users may take to finish: a day.
const STOP_TIMEOUT_S_MAX: f64 = 86_400.0;

/// Users of each class: the class's name in the master's locustfile, and the number.
pub type Users = BTreeMap<String, u64>;

/// A message of a master.
#[derive(Clone, Debug, PartialEq)]
pub enum MasterMessage {
    /// The master knows this worker. The index, from 0, is valid as long as the master lives.
    Ack {
        /// This worker's index; masters before 2.10 do not send it.
        index: Option<u64>,
    },
    /// The users that the worker should have.
    Spawn(Box<Spawn>),
    /// All workers have the users that they were told to have.
    SpawningComplete,
    /// Dismiss all users and be ready for another test.
    Stop,
    /// Send a last report and end.
    Quit,
    /// Reconnect, because the master could not decode a message.
    Reconnect,
    /// The answer to a heartbeat.
    Heartbeat,
    /// A kind that this worker does not need.
    Other(String),
}

/// The command that sets the users.
#[derive(Clone, Debug, PartialEq)]
pub struct Spawn {
    /// The time of the command (Unix seconds, the master's clock); older ones are void.
    pub timestamp: f64,
    /// The absolute number of users of each class.
    pub users: Users,
    /// The target, if one was given for all classes.
    pub host: Option<String>,
    /// The time that users may take to finish.
    pub stop_timeout: Duration,
    /// Every option of the master, by name.
    pub options: Options,
}

/// The options of a master: its own, and those added by its locustfile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(pub BTreeMap<String, Value>);

/// A message of a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerMessage {
    /// The worker is present, without users.
    ClientReady,
    /// The worker is alive.
    Heartbeat {
        /// `ready`, `spawning` or `running`.
        state: &'static str,
        /// CPU use of the busiest thread (% of one core).
        cpu: f64,
        /// Resident bytes.
        memory: u64,
    },
    /// The command that sets the users has arrived.
    Spawning,
    /// These users are present.
    SpawningComplete(Users),
    /// The statistics since the last report.
    Stats(Value),
    /// All users are gone. The master forgets the worker until the next
    /// [`WorkerMessage::ClientReady`].
    ClientStopped,
    /// The worker ends.
    Quit,
    /// A problem for the master's exception list.
    Exception {
        /// In one line.
        msg: String,
        /// The place; the master counts problems with the same place together.
        traceback: String,
    },
    /// The last lines of the log; they replace those sent before.
    Logs(Vec<String>),
}

/// Bytes that are no valid message of a master.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("expected a message of a Locust master, found {}", self.0)]
pub struct BadMessage(pub String);

impl std::error::Error for BadMessage {}

/// Decodes a message.
///
/// # Errors
/// It is no array of kind, data and name, or a `spawn` without its users.
pub fn decode(bytes: &[u8]) -> Result<MasterMessage, BadMessage> {
    let mut rest = bytes;
    let value = rmpv::decode::read_value_with_max_depth(&mut rest, DEPTH_MAX)
        .map_err(|e| BadMessage(format!("{} bytes that are not MessagePack: {e}", bytes.len())))?;
    if !rest.is_empty() {
        return Err(BadMessage(format!("{} bytes behind it", rest.len())));
    }
    let Value::Array(parts) = value else {
        return Err(BadMessage(format!("no array but {}", shown(&value))));
    };
    let [kind, data, _name] = parts.as_slice() else {
        return Err(BadMessage(format!("an array of {} instead of 3", parts.len())));
    };
    let kind = kind.as_str().ok_or_else(|| BadMessage(format!("{} as its kind", shown(kind))))?;
    Ok(match kind {
        "ack" => {
            let index = field(data, "index").and_then(Value::as_u64);
            // A swarm has no thousand million workers, and seeds are made from the index.
            MasterMessage::Ack { index: index.filter(|index| *index <= u32::MAX.into()) }
        }
        "spawn" => MasterMessage::Spawn(Box::new(spawn(data)?)),
        "spawning_complete" => MasterMessage::SpawningComplete,
        "stop" => MasterMessage::Stop,
        "quit" => MasterMessage::Quit,
        "reconnect" => MasterMessage::Reconnect,
        "heartbeat" => MasterMessage::Heartbeat,
        other => MasterMessage::Other(other.to_owned()),
    })
}

fn spawn(data: &Value) -> Result<Spawn, BadMessage> {
    let missing = |what: &str| BadMessage(format!("a spawn without {what}"));
    let timestamp = field(data, "timestamp").and_then(Value::as_f64);
    let counts = field(data, "user_classes_count").and_then(Value::as_map);
    let users = counts.ok_or_else(|| missing("user_classes_count"))?.iter().map(|(name, count)| {
        let pair = (name.as_str(), count.as_u64());
        let (Some(name), Some(count)) = pair else {
            return Err(BadMessage(format!("{} users of class {}", shown(count), shown(name))));
        };
        Ok((name.to_owned(), count))
    });
    let users = users.collect::<Result<Users, _>>()?;
    let sum = users.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    if sum > USERS_MAX {
        return Err(BadMessage(format!(
            "{sum} users for this worker, which has at most {USERS_MAX}; start more workers"
        )));
    }
    let seconds = field(data, "stop_timeout").and_then(Value::as_f64).unwrap_or(0.0);
    let seconds = seconds.min(STOP_TIMEOUT_S_MAX);
    let host = field(data, "host").and_then(Value::as_str).filter(|host| !host.is_empty());
    Ok(Spawn {
        timestamp: timestamp.filter(|t| t.is_finite()).ok_or_else(|| missing("timestamp"))?,
        users,
        host: host.map(str::to_owned),
        stop_timeout: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO),
        options: Options(options(field(data, "parsed_options"))),
    })
}

/// Options by name; keys that are no strings are ignored.
fn options(map: Option<&Value>) -> BTreeMap<String, Value> {
    let pairs = map.and_then(Value::as_map).map(Vec::as_slice).unwrap_or_default();
    let named = pairs.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
    named.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// A field of a map, if there is one.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

/// The beginning of a value, for messages.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text,
    }
}

/// Encodes a message of the worker `name`.
pub fn encode(name: &str, said: &WorkerMessage) -> Vec<u8> {
    let (kind, data) = match said {
        // Minus one skips the version check: this is no version of Locust.
        WorkerMessage::ClientReady => ("client_ready", Value::from(-1)),
        WorkerMessage::Heartbeat { state, cpu, memory } => (
            "heartbeat",
            map([
                ("state", Value::from(*state)),
                ("current_cpu_usage", Value::from(*cpu)),
                ("current_memory_usage", Value::from(*memory)),
            ]),
        ),
        WorkerMessage::Spawning => ("spawning", Value::Nil),
        WorkerMessage::SpawningComplete(users) => {
            ("spawning_complete", Value::Map(head_count(users).into()))
        }
        WorkerMessage::Stats(report) => ("stats", report.clone()),
        WorkerMessage::ClientStopped => ("client_stopped", Value::Nil),
        WorkerMessage::Quit => ("quit", Value::Nil),
        WorkerMessage::Exception { msg, traceback } => (
            "exception",
            map([
                ("msg", Value::from(msg.as_str())),
                ("traceback", Value::from(traceback.as_str())),
            ]),
        ),
        WorkerMessage::Logs(lines) => (
            "logs",
            map([
                ("worker_id", Value::from(name)),
                ("logs", lines.iter().map(|line| Value::from(line.as_str())).collect()),
            ]),
        ),
    };
    let message = Value::Array(vec![Value::from(kind), data, Value::from(name)]);
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &message).expect("a vector takes every write");
    bytes
}

/// The two fields with the number of users.
pub fn head_count(users: &Users) -> [(Value, Value); 2] {
    let classes = users.iter().map(|(name, &count)| (Value::from(name.as_str()), count.into()));
    [
        (Value::from("user_classes_count"), Value::Map(classes.collect())),
        (Value::from("user_count"), Value::from(users.values().sum::<u64>())),
    ]
}

/// A map with string keys.
pub fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
    }

    /// Locust 2.47 with msgpack 1.1 encodes the same message to these bytes.
    fn check_said(said: &WorkerMessage, hex: &str) {
        assert_eq!(encode("w", said), bytes(hex), "{said:?}");
    }

    fn check_heard(hex: &str, expected: MasterMessage) {
        assert_eq!(decode(&bytes(hex)), Ok(expected));
    }

    #[test]
    fn numbers_of_a_master_have_bounds() {
        let spawn = |users: u64, stop_timeout: f64| {
            let data = map([
                ("timestamp", Value::from(1.0)),
                ("user_classes_count", map([("A", users.into()), ("B", 1.into())])),
                ("stop_timeout", stop_timeout.into()),
            ]);
            let message = Value::Array(vec!["spawn".into(), data, "w".into()]);
            let mut bytes = Vec::new();
            rmpv::encode::write_value(&mut bytes, &message).expect("a vector takes every write");
            decode(&bytes)
        };
        for users in [USERS_MAX, 1_000_000_000, u64::MAX] {
            let why = spawn(users, 0.0).expect_err("too many").to_string();
            assert!(why.contains("at most 1000000"), "{why}");
        }
        for (given, want_s) in [(1.8e19, 86_400), (f64::INFINITY, 86_400), (-1.0, 0), (2.0, 2)] {
            let Ok(MasterMessage::Spawn(spawn)) = spawn(USERS_MAX - 1, given) else {
                panic!("a spawn with {given} s")
            };
            assert_eq!(spawn.stop_timeout, Duration::from_secs(want_s));
        }
    }

    #[test]
    fn what_we_say_is_what_locust_would() {
        let users = Users::from([("EchoUser".to_owned(), 0), ("StockUser".to_owned(), 300)]);
        let exception =
            WorkerMessage::Exception { msg: "bad".to_owned(), traceback: "at\n".to_owned() };
        check_said(&WorkerMessage::ClientReady, "93ac636c69656e745f7265616479ffa177");
        check_said(
            &WorkerMessage::Heartbeat { state: "running", cpu: 12.5, memory: 123_456_789 },
            "93a968656172746265617483a57374617465a772756e6e696e67b163757272656e745f63\
             70755f7573616765cb4029000000000000b463757272656e745f6d656d6f72795f757361\
             6765ce075bcd15a177",
        );
        check_said(&WorkerMessage::Spawning, "93a8737061776e696e67c0a177");
        check_said(
            &WorkerMessage::SpawningComplete(users),
            "93b1737061776e696e675f636f6d706c65746582b2757365725f636c61737365735f636f\
             756e7482a84563686f5573657200a953746f636b55736572cd012caa757365725f636f75\
             6e74cd012ca177",
        );
        check_said(&WorkerMessage::ClientStopped, "93ae636c69656e745f73746f70706564c0a177");
        check_said(&WorkerMessage::Quit, "93a471756974c0a177");
        check_said(
            &exception,
            "93a9657863657074696f6e82a36d7367a3626164a974726163656261636ba361740aa177",
        );
        check_said(
            &WorkerMessage::Logs(vec!["a".to_owned(), "é".to_owned()]),
            "93a46c6f677382a9776f726b65725f6964a177a46c6f677392a161a2c3a9a177",
        );
    }

    #[test]
    fn what_locust_says_is_read() {
        check_heard("93a361636b81a5696e64657801a177", MasterMessage::Ack { index: Some(1) });
        check_heard("93a473746f70c0a177", MasterMessage::Stop);
        check_heard("93a97265636f6e6e656374c0a177", MasterMessage::Reconnect);
        check_heard("93a9686561727462656174c0a177", MasterMessage::Heartbeat);
        check_heard(
            "93b1737061776e696e675f636f6d706c65746581aa757365725f636f756e7414a177",
            MasterMessage::SpawningComplete,
        );
        let hex = "93a5737061776e85a974696d657374616d70cb41d954fc40100000b2757365725f636c61\
             737365735f636f756e7482a953746f636b5573657203a75765625573657200a4686f7374\
             c0ac73746f705f74696d656f7574cb0000000000000000ae7061727365645f6f7074696f\
             6e7388a5646570746804a56d6f64656ca46f70656ead726174655f7065725f75736572cb\
             4004000000000000a36d6978a673686f773d31a474616773c0a178920102a872756e5f74\
             696d65c0a47768656e82ac5f5f6461746574696d655f5fc3a661735f737472b832303236\
             303130325430333a30343a30352e303030303030a177";
        let Ok(MasterMessage::Spawn(spawn)) = decode(&bytes(hex)) else { panic!("a spawn is one") };
        assert_eq!(spawn.timestamp, 1_700_000_000.25);
        assert_eq!(
            spawn.users,
            Users::from([("StockUser".to_owned(), 3), ("WebUser".to_owned(), 0)])
        );
        assert_eq!((spawn.host, spawn.stop_timeout), (None, Duration::ZERO));
        let option = |name: &str| spawn.options.0[name].to_string();
        assert_eq!([option("depth"), option("rate_per_user"), option("tags")], ["4", "2.5", "nil"]);
        assert_eq!(spawn.options.0.len(), 8);
    }

    #[test]
    fn what_is_no_message_is_refused_with_a_reason() {
        let message = |kind: Value, data: Value| {
            let mut bytes = Vec::new();
            let parts = Value::Array(vec![kind, data, "w".into()]);
            rmpv::encode::write_value(&mut bytes, &parts).expect("a vector takes every write");
            bytes
        };
        let check = |bytes: &[u8], part: &str| {
            let Err(why) = decode(bytes) else { panic!("{bytes:?} was taken") };
            assert!(why.to_string().contains(part), "expected {part:?} in {why}");
        };
        check(b"", "not MessagePack");
        check(&[0x91; 1000], "not MessagePack");
        check(&[0x01], "no array");
        check(&[0x91, 0xc0], "an array of 1");
        check(&[&bytes("93a473746f70c0a177")[..], &[0][..]].concat(), "1 bytes behind it");
        check(&message(1.into(), Value::Nil), "1 as its kind");
        check(&message("spawn".into(), Value::Nil), "without user_classes_count");
        let negative = map([("A", Value::from(-1))]);
        let negative = map([("timestamp", 1.0.into()), ("user_classes_count", negative)]);
        check(&message("spawn".into(), negative), "-1 users of class");
        let timeless = map([("user_classes_count", map([]))]);
        check(&message("spawn".into(), timeless), "without timestamp");
        let later = message("a later kind".into(), Value::Nil);
        assert_eq!(decode(&later), Ok(MasterMessage::Other("a later kind".to_owned())));
    }
}
