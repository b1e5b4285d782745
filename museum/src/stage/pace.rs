//! Senders on the stage: each trial is a process of its own in the surroundings that the
//! laboratory makes, and a line of the raw file.

use super::Stage;
use crate::exhibit::Fault;
use lab::pace::{Around, Reading, Trial, Work};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of a packet's head.
const HEAD: u32 = 12;

/// A sender's use of the kernel for each packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Census {
    /// System calls by name.
    pub calls: BTreeMap<String, f64>,
    /// Bytes that calls copied between program and kernel, for each byte of a packet.
    pub copies: f64,
}

impl Census {
    /// All calls of a packet.
    pub fn all(&self) -> f64 {
        self.calls.values().sum()
    }
}

/// System calls of a run, by name, and the bytes that they copied.
type Counted = (BTreeMap<String, f64>, f64);

impl Stage<'_> {
    /// The senders that work here; why the others do not becomes a doubt.
    pub fn senders(&mut self) -> Vec<String> {
        let mut command = Command::new(&self.settings.exe);
        let ran = command.args(["senders", "--json"]).stdin(Stdio::null()).output();
        let text = ran.map(|it| it.stdout).unwrap_or_default();
        let table: Value = serde_json::from_slice(&text).unwrap_or_default();
        let rows = table["senders"].as_array().cloned().unwrap_or_default();
        if rows.is_empty() {
            self.doubt("The senders could not be listed, so the rooms about them are empty.");
        }
        let mut names = Vec::new();
        for row in rows {
            let name = row["name"].as_str().unwrap_or_default().to_string();
            match row["missing"].as_str() {
                Some(why) => self.doubt(format!("`{name}` does not work here: {why}.")),
                None => names.push(name),
            }
        }
        names
    }

    /// The sender's core and the receiver's.
    pub fn cores(&self) -> Option<(usize, usize)> {
        self.placement.map(|it| it.cores(false))
    }

    /// Runs `sender`; `None` if it failed, which becomes a doubt, or was stopped.
    ///
    /// # Errors
    /// If the raw file cannot be written.
    pub fn cast(
        &mut self,
        sender: &str,
        work: Work,
        around: Around,
    ) -> Result<Option<Reading>, Fault> {
        if self.stopped() {
            return Ok(None);
        }
        let exe = self.settings.exe.clone();
        let found = Trial { exe: &exe, sender, peer: None, work, around }.run(&self.stop_flag());
        self.record(&json!({
            "row": "cast", "sender": sender, "work": work, "rank": around.rank.words(),
            "company": around.company.words(), "reading": found.as_ref().ok(),
            "missing": found.as_ref().err(),
        }))?;
        match found {
            Ok(reading) => Ok(Some(reading)),
            Err(_) if self.stopped() => Ok(None),
            Err(why) => {
                self.doubt(format!("`{sender}` was left out of a row: {why}."));
                Ok(None)
            }
        }
    }

    /// The system calls of `sender` for each packet of `work`: those of all packets minus those of
    /// a tenth of them, so that start and end do not count. `None` without a counter (strace).
    ///
    /// # Errors
    /// If the raw file cannot be written.
    pub fn census(&mut self, sender: &str, work: Work) -> Result<Option<Census>, Fault> {
        let short = Work { packets: (work.packets / 10).max(1), ..work };
        let file = self.room.join("calls");
        let [few, many] = [short, work].map(|work| self.counted(sender, work, &file));
        let (Some(few), Some(many)) = (few, many) else { return Ok(None) };
        let packets = f64::from((work.packets - short.packets) * work.streams);
        let each = many.0.into_iter().filter_map(|(name, calls)| {
            let more = calls - few.0.get(&name).copied().unwrap_or(0.0);
            (more >= packets / 1000.0).then(|| (name, more / packets))
        });
        let bytes = packets * f64::from(work.payload + HEAD);
        let found = Census { calls: each.collect(), copies: (many.1 - few.1) / bytes };
        self.record(&json!({"row": "calls", "sender": sender, "work": work, "each": found}))?;
        Ok(Some(found))
    }

    /// All calls of a run, to the discard port.
    fn counted(&self, sender: &str, work: Work, file: &Path) -> Option<Counted> {
        if self.stopped() {
            return None;
        }
        let mut command = Command::new("strace");
        // Whole arrays, no contents, no signals.
        command.args(["-f", "-qq", "-v", "-s", "0", "-e", "signal=none", "-o"]).arg(file);
        command.arg(&self.settings.exe).args(["senders", "rate", "to=127.0.0.1:9"]);
        command.arg(format!("sender={sender}")).args(work.arguments()).stdin(Stdio::null());
        let ran = command.output().ok()?;
        ran.status.success().then(|| counted(&std::fs::read_to_string(file).unwrap_or_default()))
    }
}

/// Counts the calls in strace(1)'s output: `PID NAME(ARGUMENTS) = RESULT`, in two parts where
/// threads interleave.
fn counted(text: &str) -> Counted {
    let (mut calls, mut copied) = (BTreeMap::new(), 0.0);
    for line in text.lines() {
        let said = line.trim_start_matches(|it: char| it.is_ascii_digit()).trim_start();
        let is_begun = said.ends_with("<unfinished ...>");
        let name = match said.strip_prefix("<... ") {
            Some(rest) => rest.split(' ').next().unwrap_or_default(),
            None => said.split('(').next().unwrap_or_default(),
        };
        let is_call = |name: &str| !name.is_empty() && name.bytes().all(|it| it != b' ');
        if !is_call(name) || said.starts_with("+++") || said.starts_with("---") {
            continue;
        }
        if !said.starts_with("<... ") {
            *calls.entry(name.to_string()).or_insert(0.0) += 1.0;
        }
        if !is_begun {
            copied += copied_by(name, said);
        }
    }
    (calls, copied)
}

/// Bytes that a call has copied between the program and the kernel. Calls that pass pages copy
/// none (sendfile, splice, MSG_ZEROCOPY).
fn copied_by(name: &str, said: &str) -> f64 {
    let result = || said.rsplit_once(" = ")?.1.split(' ').next()?.parse::<f64>().ok();
    let is_paged = said.contains("MSG_ZEROCOPY");
    match name {
        "read" | "pread64" | "preadv" | "preadv2" | "write" | "writev" => result(),
        "sendto" | "sendmsg" if !is_paged => result(),
        "sendmmsg" if !is_paged && result().is_some_and(|it| it > 0.0) => {
            let lengths = said.split("msg_len=").skip(1);
            let length =
                |it: &str| it.split(|it: char| !it.is_ascii_digit()).next()?.parse::<f64>().ok();
            Some(lengths.filter_map(length).sum())
        }
        _ => None,
    }
    .map_or(0.0, |it| it.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_copied_bytes_are_counted_also_where_threads_meet() {
        let text = "12 pread64(3, \"\"..., 32, 0) = 32\n\
                    13 sendto(5, \"\"..., 44, 0 <unfinished ...>\n\
                    12 sendmmsg(6, [{msg_hdr={a=1}, msg_len=44}, {b, msg_len=40}], 2, 0) = 2\n\
                    13 <... sendto resumed>) = 44\n\
                    12 sendmsg(6, {x}, MSG_NOSIGNAL|MSG_ZEROCOPY) = 44\n\
                    12 sendfile(5, 3, [0] => [32], 32) = 32\n\
                    12 read(12, 0x7fdf, 8) = -1 EAGAIN (Resource temporarily unavailable)\n\
                    12 +++ exited with 0 +++\n";
        let (calls, copied) = counted(text);
        assert_eq!(copied, 32.0 + 44.0 + 84.0);
        assert_eq!(calls.len(), 6, "{calls:?}");
        assert_eq!((calls["sendto"], calls["sendmmsg"], calls["read"]), (1.0, 1.0, 1.0));
        assert_eq!(Census { calls, copies: 0.0 }.all(), 6.0);
    }
}
