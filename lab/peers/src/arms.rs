//! From the words of a plan or a command line to arms: an engine of ours, a server known by name,
//! or any command.

use crate::presets::{NAMES, Site, preset};
use anyhow::{Result, anyhow, bail};
use lab::command::{Named, split};
use lab::file::ArmSpec;
use lab::plan::Arm;
use lab::service::Service;
use std::path::{Path, PathBuf};

/// The arm that a specification names.
///
/// # Errors
/// A preset that is unknown, cannot be built or does not offer the service; a command that
/// cannot be taken apart.
pub fn resolve(service: Service, exe: &Path, spec: &ArmSpec) -> Result<Arm> {
    if let Some(name) = &spec.engine {
        return Ok(service.engine(exe, name));
    }
    if let Some(name) = &spec.preset {
        let cache = cache();
        return preset(name, &spec.directives, &Site { exe, service, cache: &cache });
    }
    let exe = exe.display().to_string();
    let words = split(spec.command.as_deref().unwrap_or_default()).map_err(|why| anyhow!(why))?;
    let command: Vec<String> =
        words.into_iter().map(|word| word.replace("{roundhouse}", &exe)).collect();
    if command.is_empty() {
        bail!("expected a command, found nothing");
    }
    let note = command.join(" ");
    Ok(Arm { command, target: service.target().to_string(), note, ..Arm::default() })
}

/// The arm of a name in `--arms`: a foreign server if the name is one, else one of our engines.
pub fn by_name(name: &str) -> ArmSpec {
    let named = Some(name.to_string());
    match NAMES.contains(&name) {
        true => ArmSpec { preset: named, ..ArmSpec::default() },
        false => ArmSpec { engine: named, ..ArmSpec::default() },
    }
}

/// The arm of `--arm NAME=COMMAND`. A command that begins with `@` names an engine with flags, or a
/// foreign server with directives: `@epoll --edge`, `@nginx worker_processes=4`.
///
/// # Errors
/// If a directive is not `KEY=VALUE`.
pub fn by_flag(named: &Named) -> Result<ArmSpec> {
    let name = named.name.clone();
    let (first, rest) = named.command.split_first().ok_or_else(|| anyhow!("an empty command"))?;
    let Some(known) = first.strip_prefix('@') else {
        return Ok(ArmSpec { name, command: Some(named.text.clone()), ..ArmSpec::default() });
    };
    let mut spec = ArmSpec { name, ..by_name(known) };
    if spec.engine.is_some() {
        spec.args = rest.to_vec();
        return Ok(spec);
    }
    for directive in rest {
        let Some((key, value)) = directive.split_once('=') else {
            bail!("expected directives as KEY=VALUE after @{known}, found `{directive}`");
        };
        spec.directives.insert(key.to_string(), toml::Value::String(value.to_string()));
    }
    Ok(spec)
}

/// Where built examples are kept.
fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    base.or_else(home).unwrap_or_else(std::env::temp_dir).join("roundhouse/peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_of_the_command_line() {
        let spec = |text: &str| by_flag(&text.parse().expect("named"));
        let edge = spec("edge=@epoll --edge").expect("an engine");
        assert_eq!((edge.engine.as_deref(), edge.args.len()), (Some("epoll"), 1));
        let four = spec("four=@nginx worker_processes=4").expect("a preset");
        assert_eq!(four.preset.as_deref(), Some("nginx"));
        assert_eq!(four.directives["worker_processes"].as_str(), Some("4"));
        let mine = spec("mine=./server -p {port}").expect("a command");
        assert_eq!(mine.command.as_deref(), Some("./server -p {port}"));
        assert!(spec("x=@nginx fast").is_err());
    }

    #[test]
    fn a_command_can_name_this_program_and_the_echo_has_a_peer() {
        let exe = Path::new("/bin/r");
        let command = Some("{roundhouse} peer echo --port {port} --host {host}".to_string());
        let spec = ArmSpec { command, ..ArmSpec::default() };
        let arm = resolve(Service::Echo, exe, &spec).expect("a command");
        let words = ["/bin/r", "peer", "echo", "--port", "{port}", "--host", "{host}"];
        assert_eq!(arm.command, words);
        let tokio = resolve(Service::Echo, exe, &by_name("tokio")).expect("a preset");
        assert_eq!((tokio.command, tokio.target), (arm.command, "echo://{address}".to_string()));
        assert!(resolve(Service::Echo, exe, &by_name("nginx")).is_err());
    }
}
