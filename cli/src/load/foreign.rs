//! Flags that belong to another protocol than the target's.

use ::load::{Target, Usage};
use clap::Args as _;
use clap::parser::ValueSource;

use super::Args;

/// Refuses flags that only targets of another protocol than that of `target` take: they would
/// change nothing.
pub fn check_flags(target: &Target) -> Result<(), Usage> {
    let own = format!("{}://", target.scheme.name());
    let odd = given(|flag| {
        let scheme = flag.get_help_heading().and_then(|it| it.strip_prefix("Targets "));
        scheme.is_some_and(|scheme| scheme != own)
    });
    if odd.is_empty() {
        return Ok(());
    }
    Err(Usage(format!(
        "expected flags that {target} takes, found {}: another protocol's, see --help",
        odd.join(", ")
    )))
}

/// The flags on the command line that are odd.
fn given(is_odd: impl Fn(&clap::Arg) -> bool) -> Vec<String> {
    let command = Args::augment_args(clap::Command::new("load"));
    let flags = command.clone();
    let Ok(found) = command.try_get_matches_from(std::env::args_os().skip(1)) else {
        return Vec::new();
    };
    let is_given = |flag: &clap::Arg| {
        found.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let odd = flags.get_arguments().filter(|flag| is_odd(flag) && is_given(flag));
    odd.map(|flag| format!("--{}", flag.get_long().unwrap_or(flag.get_id().as_str()))).collect()
}
