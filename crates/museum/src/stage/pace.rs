//! Senders on the stage: each trial is a process of its own in the surroundings that the
//! laboratory makes, and a line of the raw file.

use super::Stage;
use crate::exhibit::Fault;
use lab::pace::{Around, Reading, Trial, Work};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// System calls of one sender for each packet, by name.
pub type Calls = BTreeMap<String, f64>;

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

    /// Runs `sender`; `None` if it could not, which becomes a doubt, or was stopped.
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

    /// System calls of `sender` for each packet of `work`: those of all packets less those of a
    /// tenth of them, so that its beginning and its end do not count. `None` where nothing counts
    /// (strace).
    ///
    /// # Errors
    /// If the raw file cannot be written.
    pub fn census(&mut self, sender: &str, work: Work) -> Result<Option<Calls>, Fault> {
        let short = Work { packets: (work.packets / 10).max(1), ..work };
        let file = self.room.join("calls");
        let [few, many] = [short, work].map(|work| self.counted(sender, work, &file));
        let (Some(few), Some(many)) = (few, many) else { return Ok(None) };
        let packets = f64::from((work.packets - short.packets) * work.streams);
        let each = many.into_iter().filter_map(|(name, calls)| {
            let more = calls - few.get(&name).copied().unwrap_or(0.0);
            (more >= packets / 1000.0).then(|| (name, more / packets))
        });
        let calls: Calls = each.collect();
        self.record(&json!({"row": "calls", "sender": sender, "work": work, "each": calls}))?;
        Ok(Some(calls))
    }

    /// All system calls of a run, by name. Nobody listens: the port is discard's.
    fn counted(&self, sender: &str, work: Work, file: &Path) -> Option<Calls> {
        if self.stopped() {
            return None;
        }
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-o"]).arg(file).arg(&self.settings.exe);
        command.args(["senders", "rate", "to=127.0.0.1:9"]).arg(format!("sender={sender}"));
        command.args(work.arguments()).stdin(Stdio::null());
        let ran = command.output().ok()?;
        ran.status.success().then(|| table(&std::fs::read_to_string(file).unwrap_or_default()))
    }
}

/// The summary of strace(1): share, seconds, microseconds a call, calls, errors if any, name.
fn table(text: &str) -> Calls {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let calls: f64 = words.get(3)?.parse().ok()?;
        let name = words.last().filter(|name| **name != "total")?;
        words[0].parse::<f64>().ok().map(|_| (name.to_string(), calls))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read_with_errors_and_without() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    60.00    0.000120          12      1000           sendto\n \
                    40.00    0.000080           8        10         2 openat\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.000200           5      1010         2 total\n";
        let found = table(text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found["sendto"], found["openat"]), (1000.0, 10.0));
    }
}
