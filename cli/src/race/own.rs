//! A race of a user's service: the program on one engine after another.

use super::ab;
use anyhow::{Result, anyhow, bail};
use engines::PRESETS;
use lab::command::split;
use lab::file::ArmSpec;
use lab::plan::Arm;
use language::info;
use std::time::Duration;

/// The engines of a service for which none are named: one of each family.
const USUAL: [&str; 4] = ["epoll", "reactor", "prefork", "uring"];
/// The time that a service may take to start before it is asked for its protocol.
const BOOT: Duration = Duration::from_secs(5);

/// The service, its engines and its load.
#[derive(clap::Args)]
#[command(next_help_heading = "Your own service")]
pub struct Own {
    /// The command of a program made with the library `roundhouse`; each arm adds `--engine NAME
    /// --host ADDRESS --port 0`
    #[arg(long, value_name = "COMMAND")]
    #[arg(conflicts_with_all = ["what", "arms", "framing", "data", "mix"])]
    pub service: Option<String>,
    /// Engines to race, or `all` [default for --service: epoll,reactor,prefork,uring]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", conflicts_with = "arms")]
    pub engines: Vec<String>,
    /// Where and how the generator asks: line://{address}, http://{address}/PATH, echo://{address}
    /// [default: the protocol that the service is found to speak]
    #[arg(long, value_name = "URL", requires = "service")]
    target: Option<String>,
    /// The request for a target line://, with escapes \r \n \t \0 \xHH
    #[arg(long, value_name = "TEXT", requires = "service", hide_short_help = true)]
    request: Option<String>,
    /// Further flags of `roundhouse load`, such as '--terminators 2'
    #[arg(long, value_name = "FLAGS", requires = "service", allow_hyphen_values = true)]
    #[arg(hide_short_help = true)]
    load: Option<String>,
}

impl Own {
    /// The arms of the service, or of the engines on the service of the race; none if neither is
    /// named. A service has `boot` to start.
    pub fn arms(&self, boot: Option<Duration>) -> Result<Vec<ArmSpec>> {
        let all = self.engines == ["all"];
        let names: Vec<&str> = match (&self.service, &self.engines[..]) {
            (_, _) if all => PRESETS.iter().map(|preset| preset.name).collect(),
            (Some(_), []) => USUAL.to_vec(),
            (_, engines) => engines.iter().map(String::as_str).collect(),
        };
        names.iter().try_for_each(|name| super::plan::known(name))?;
        let Some(command) = &self.service else {
            return Ok(names.into_iter().map(peers::by_name).collect());
        };
        let command = |name: &str| format!("{command} --engine {name} --host {{host}} --port 0");
        let mut load =
            split(self.load.as_deref().unwrap_or_default()).map_err(anyhow::Error::msg)?;
        let target = match (&self.target, names.first()) {
            (None, Some(name)) => {
                let command = split(&command(name)).map_err(|why| anyhow!(why))?;
                let arm = Arm { name: "the service".to_owned(), command, ..Arm::default() };
                let found = ab::asked(&arm, &[], boot.unwrap_or(BOOT))?;
                info!("the service speaks {}", found.name);
                if found.is_bare {
                    bail!(
                        "the service has no page at `/` (404); name one, such as --target \
                         'http://{{address}}/PATH'"
                    );
                }
                if self.request.is_none() {
                    load.extend(found.load.iter().map(ToString::to_string));
                }
                Some(found.target.to_owned())
            }
            (target, _) => target.clone(),
        };
        load.extend(self.request.iter().flat_map(|text| ["--request".to_owned(), text.clone()]));
        let arm = |name: &str| ArmSpec {
            name: name.to_owned(),
            command: Some(command(name)),
            target: target.clone(),
            load: load.clone(),
            ..ArmSpec::default()
        };
        Ok(names.into_iter().map(arm).collect())
    }
}
