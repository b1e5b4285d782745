//! The lines of `strace -f -ttt -T -yy -o FILE`: `PID SECONDS NAME(ARGUMENTS) = RESULT <SECONDS>`.
//! A call during which another task ran stands in two lines: `... <unfinished ...>`, then
//! `<... NAME resumed> ...`.

use std::collections::HashMap;

use pages::motion::{SystemCall, Task};

/// The longest text of a call that the page shows.
const TEXT_MAX: usize = 160;
/// A `read` or `futex` that takes longer has waited, microseconds.
const WAITED: i64 = 1000;

/// A process or thread, and its calls.
pub struct Tracing {
    pub task: Task,
    pub calls: Vec<TracedCall>,
}

/// A call; its task and client are not known yet.
pub struct TracedCall {
    pub call: SystemCall,
    /// Its result; -1 for an error or none.
    pub result: i64,
    /// It can accept a connection.
    pub accepts: bool,
}

/// The calls by task, each in order; moments are microseconds of the clock. Lines of signals and
/// exits, and a line that was cut off, are left out.
pub fn parse(text: &str) -> Vec<Tracing> {
    let mut found: Vec<Tracing> = Vec::new();
    let mut open: HashMap<u32, (i64, String)> = HashMap::new();
    for line in text.lines() {
        let Some((id, at, rest)) = head(line) else { continue };
        let (from, whole) = if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            open.insert(id, (at, begun.to_owned()));
            continue;
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((from, begun)) = open.remove(&id) else { continue };
            let Some((_, rest)) = resumed.split_once("resumed>") else { continue };
            (from, begun + rest)
        } else {
            (at, rest.to_owned())
        };
        let Some(line) = call(from, at, &whole) else { continue };
        let place = found.iter().position(|it| it.task.id == id).unwrap_or_else(|| {
            let child = || format!("child {id}");
            let name = if found.is_empty() { "main".to_owned() } else { child() };
            let task = Task { id, name };
            found.push(Tracing { task, calls: Vec::new() });
            found.len() - 1
        });
        if let Some(name) = whole.strip_prefix("prctl(PR_SET_NAME, \"") {
            found[place].task.name = name.split('"').next().unwrap_or_default().to_owned();
        }
        found[place].calls.push(line);
    }
    found
}

/// `PID SECONDS.MICROSECONDS REST`.
fn head(line: &str) -> Option<(u32, i64, &str)> {
    let (id, rest) = line.split_once(' ')?;
    let (at, rest) = rest.trim_start().split_once(' ')?;
    let (seconds, micros) = at.split_once('.')?;
    let at = seconds.parse::<i64>().ok()?.checked_mul(1_000_000)? + micros.parse::<i64>().ok()?;
    Some((id.parse().ok()?, at, rest.trim_start()))
}

/// A whole call that began at `from`; `seen` is the moment of its last line.
fn call(from: i64, seen: i64, text: &str) -> Option<TracedCall> {
    let (name, rest) = text.split_once('(')?;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let took = rest.rsplit_once('<').and_then(|(_, took)| took.strip_suffix('>')?.parse().ok());
    let took = took.map(|seconds: f64| (seconds * 1e6) as i64);
    let to = took.map_or(seen, |took| from.saturating_add(took)).max(from);
    let shown = rest.rsplit_once(" <").map_or(rest, |(shown, _)| shown);
    let result = shown.rsplit_once(" = ").map_or("", |(_, result)| result);
    let digits = result.split(|c: char| c != '-' && !c.is_ascii_digit()).next().unwrap_or_default();
    let mut cut: String = shown.chars().take(TEXT_MAX).collect();
    if cut.len() < shown.len() {
        cut.push('…');
    }
    let kind = kind(name, shown, to - from).into();
    let text = format!("({cut}");
    let call = SystemCall { from, to, name: name.into(), kind, text, ..SystemCall::default() };
    Some(TracedCall {
        call,
        result: digits.parse().unwrap_or(-1),
        accepts: name.starts_with("accept"),
    })
}

fn kind(name: &str, text: &str, took: i64) -> &'static str {
    let is_socket = text.split(',').next().is_some_and(|first| first.contains("TCP"));
    match name {
        "futex" | "wait4" | "waitid" if took > WAITED => "wait",
        "futex" | "flock" => "lock",
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select"
        | "pselect6" | "io_uring_enter" | "nanosleep" | "clock_nanosleep" => "wait",
        "accept" | "accept4" => "accept",
        "read" | "recvfrom" | "recvmsg" | "readv" if is_socket => "receive",
        "write" | "sendto" | "sendmsg" | "writev" | "sendfile" | "splice" if is_socket => "send",
        "clone" | "clone3" | "fork" | "vfork" | "exit" | "exit_group" | "wait4" | "waitid" => {
            "make"
        }
        _ => "other",
    }
}

/// The ports of peers in a text with sockets such as `TCP:[127.0.0.1:6000->127.0.0.1:40]`.
pub fn ports(text: &str) -> impl Iterator<Item = u16> {
    text.split("->").skip(1).filter_map(|rest| {
        let (address, _) = rest.split_once(']')?;
        address.rsplit_once(':')?.1.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_calls_and_halves_one_call() {
        let text = "5 1.000001 prctl(PR_SET_NAME, \"worker 0\") = 0 <0.000002>\n\
            6 2.000000 futex(0x7f, FUTEX_WAIT, 1, NULL <unfinished ...>\n\
            5 2.000010 sendto(9<TCP:[[::1]:1->[::1]:40]>, \"a = b <1>\", 9, 0) = 9 <0.000030>\n\
            6 2.100000 <... futex resumed>) = 0 <0.100010>\n\
            6 2.200000 read(9<TCP:[127.0.0.1:1->127.0.0.1:41]>, 0x1, 9) = -1 EAGAIN <0.000001>\n\
            6 2.300000 --- SIGTERM {si_signo=SIGTERM} ---\n\
            6 2.300000 +++ exited with 0 +++\n\
            6 2.4";
        let found = parse(text);
        assert_eq!(found[0].task, Task { id: 5, name: "worker 0".into() });
        assert_eq!(found[1].task, Task { id: 6, name: "child 6".into() });
        let seen = |at: usize| {
            let calls = found[at].calls.iter();
            let all = calls.map(|it| (&*it.call.kind, it.call.from, it.call.to, it.result));
            all.collect::<Vec<_>>()
        };
        assert_eq!(
            seen(0),
            [("other", 1_000_001, 1_000_003, 0), ("send", 2_000_010, 2_000_040, 9)]
        );
        assert_eq!(
            seen(1),
            [("wait", 2_000_000, 2_100_010, 0), ("receive", 2_200_000, 2_200_001, -1)]
        );
        assert_eq!(ports(&found[1].calls[1].call.text).collect::<Vec<_>>(), [41]);
    }
}
