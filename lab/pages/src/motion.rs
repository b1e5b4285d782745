//! The page that plays what a server did: clients, the kernel's queues, workers and their system
//! calls, slowed down.
//!
//! Times are microseconds from the first `connect` on. The page draws only what was recorded.

use crate::shell::{Charts, PageError, render};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;

/// One engine while it served the clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The engine, as `--engine` names it.
    pub engine: String,
    /// The architecture in a few words.
    pub about: String,
    /// The end of the recording.
    pub end: i64,
    /// Processes and threads in the order of their first call.
    pub tasks: Vec<Task>,
    /// System calls in the order of their beginnings.
    pub calls: Vec<SystemCall>,
    /// The clients in the order of their connections.
    pub clients: Vec<RecordedClient>,
    /// The most frequent calls and their numbers.
    pub counts: Vec<(String, usize)>,
    /// The queues inside the server, a line each, where its engine has any.
    #[serde(default)]
    pub queues: Vec<String>,
}

/// A process or a thread of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The kernel's number.
    pub id: u32,
    /// The name that it gave itself, or its kind.
    pub name: String,
}

/// One system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemCall {
    /// The position of its task in [`Recording::tasks`].
    pub task: usize,
    /// Its beginning.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// Its name.
    pub name: String,
    /// `wait`, `lock`, `accept`, `receive`, `send`, `make` or `other`.
    pub kind: Cow<'static, str>,
    /// Arguments and result, as strace(1) writes them, shortened.
    pub text: String,
    /// The position of the client in [`Recording::clients`] whose socket it names.
    pub client: Option<usize>,
}

/// A client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedClient {
    /// Its port, by which calls name it.
    pub port: u16,
    /// The beginning of its `connect`.
    pub connect: i64,
    /// The return of the `accept` that took it; none if no call did, as under a ring.
    pub accepted: Option<i64>,
    /// Its requests.
    pub requests: Vec<RecordedRequest>,
    /// The moment at which it closed.
    pub close: i64,
}

/// A request and its reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The line.
    pub text: String,
    /// The moment at which the client sent it.
    pub sent: i64,
    /// The return of the call that received it; none if no call did.
    pub taken: Option<i64>,
    /// The moment at which the client had the reply; none if none came.
    pub replied: Option<i64>,
    /// The first line of the reply.
    pub reply: String,
}

/// The page of one recording, or of two side by side.
///
/// # Errors
/// A template that does not fit, which is a mistake in this crate.
pub fn motion(recordings: &[Recording]) -> Result<String, PageError> {
    // The data stand in a script element, which `<` could end.
    let data = serde_json::to_string(recordings).unwrap_or_default().replace('<', "\\u003c");
    let engines: Vec<&str> = recordings.iter().map(|it| it.engine.as_str()).collect();
    let motion = include_str!("assets/motion.js");
    let view = json!({ "engines": engines, "data": data, "motion": motion });
    render("motion.html", Charts::None, &view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_cannot_leave_its_script() {
        let text = "</script><b>".to_owned();
        let call = SystemCall {
            name: "read".into(),
            kind: "receive".into(),
            text,
            ..SystemCall::default()
        };
        let recording =
            Recording { engine: "epoll".into(), calls: vec![call], ..Recording::default() };
        let page = motion(&[recording.clone(), recording]).expect("a page");
        assert!(!page.contains("</script><b>"), "it is escaped");
        assert!(page.contains("\\u003c/script>") && page.contains("epoll and epoll"));
    }
}
