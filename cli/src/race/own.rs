//! A race of a user's service: the program on one engine after another.

use anyhow::Result;
use engines::PRESETS;
use lab::command::split;
use lab::file::ArmSpec;

/// The service, its engines and its load.
#[derive(clap::Args)]
#[command(next_help_heading = "Your own service")]
pub struct Own {
    /// The command of a program made with the library `roundhouse`; each arm adds `--engine NAME
    /// --host ADDRESS --port 0`
    #[arg(long, value_name = "COMMAND", requires = "target")]
    #[arg(conflicts_with_all = ["what", "arms", "framing", "data", "mix"])]
    pub service: Option<String>,
    /// Engines for --service, or `all`
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", requires = "service")]
    #[arg(default_value = "epoll,reactor,prefork,uring")]
    engines: Vec<String>,
    /// Where and how the generator asks: line://{address}, http://{address}/PATH, echo://{address}
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
    /// The arms of the service; none without one.
    ///
    /// # Errors
    /// An engine that does not exist, or flags with an open quote.
    pub fn arms(&self) -> Result<Vec<ArmSpec>> {
        let Some(command) = &self.service else { return Ok(Vec::new()) };
        let all = self.engines == ["all"];
        let names = PRESETS.iter().map(|preset| preset.name.to_owned());
        let names = if all { names.collect() } else { self.engines.clone() };
        let mut load =
            split(self.load.as_deref().unwrap_or_default()).map_err(anyhow::Error::msg)?;
        load.extend(self.request.iter().flat_map(|text| ["--request".to_owned(), text.clone()]));
        let arm = |name: String| {
            super::plan::known(&name)?;
            let command = Some(format!("{command} --engine {name} --host {{host}} --port 0"));
            let (target, load) = (self.target.clone(), load.clone());
            Ok(ArmSpec { name, command, target, load, ..ArmSpec::default() })
        };
        names.into_iter().map(arm).collect()
    }
}
