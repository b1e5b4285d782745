//! redis-server, incrementing one counter: the market's `buy` in another server.

use super::{merged, words};
use anyhow::Result;
use lab::plan::Arm;

const DEFAULTS: &str = include_str!("redis.conf");

pub(super) fn arm(directives: &toml::Table) -> Result<Arm> {
    let mut command =
        words(&["redis-server", "--bind", "{host}", "--port", "{port}", "--dir", "{dir}"]);
    for (name, value) in merged(DEFAULTS, directives)? {
        command.push(format!("--{name}"));
        // redis takes each word of a value as a separate argument, and an empty value as one empty
        // argument.
        match value.is_empty() {
            true => command.push(String::new()),
            false => command.extend(value.split(' ').map(String::from)),
        }
    }
    Ok(Arm {
        command,
        target: "line://{address}".to_string(),
        load: words(&[
            "--request",
            "INCR stock\\r\\n",
            "--terminator",
            "\\r\\n",
            "--expect-prefix",
            ":",
        ]),
        note: "redis increments one counter and writes nothing to disk".to_string(),
        ..Arm::default()
    })
}
