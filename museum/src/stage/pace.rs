//! Senders on the stage: each trial is a separate process in the surroundings that the
//! laboratory makes, and a line of the raw file.

use super::Stage;
use crate::exhibit::Fault;
use lab::pace::{Around, Reading, Trial, Work};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

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

    /// Runs `sender`; `None` if it failed, which becomes a doubt.
    ///
    /// # Errors
    /// If the raw file cannot be written, or the visitor stopped the run.
    pub fn cast(
        &mut self,
        sender: &str,
        work: Work,
        around: Around,
    ) -> Result<Option<Reading>, Fault> {
        self.goes_on()?;
        let exe = self.settings.exe.clone();
        let found = Trial { exe: &exe, sender, work, around }.run(&self.stop_flag());
        self.record(&json!({
            "row": "cast", "sender": sender, "work": work, "rank": around.rank.words(),
            "company": around.company.words(), "reading": found.as_ref().ok(),
            "missing": found.as_ref().err(),
        }))?;
        match found {
            Ok(reading) => Ok(Some(reading)),
            Err(why) => {
                self.goes_on()?;
                self.doubt(format!("`{sender}` was left out of a row: {why}."));
                Ok(None)
            }
        }
    }
}
