//! haproxy in front of one of our engines: the cost of a proxy.
//!
//! A shell of the arm starts the server behind the proxy and then becomes haproxy. The lab sees one
//! process tree, so its cost is that of both. `back` names the engine of that server.

use super::{Site, file, merged, words};
use anyhow::{Result, bail};
use lab::plan::Arm;
use std::fmt::Write;

const DEFAULTS: &str = include_str!("haproxy.conf");

/// Starts the engine, waits for its first line, which names its port, and starts haproxy with it.
/// Children are listed one by one, because `jobs` in a command substitution is empty in some
/// shells.
const SCRIPT: &str = r#"'EXE' SERVE >{dir}/back.out &
BEHIND=$!
while ! grep -q listening {dir}/back.out; do kill -0 $BEHIND || exit 1; sleep 0.01; done
BACK=$(sed -n 's/.*"listening":"[^"]*:\([0-9]*\)".*/\1/p' {dir}/back.out)
export BACK
haproxy -db -f {dir}/haproxy.cfg &
FRONT=$!
trap 'kill $FRONT $BEHIND; wait $FRONT $BEHIND; exit 0' TERM
wait $FRONT
kill $BEHIND
exit 1
"#;

pub(super) fn arm(site: &Site<'_>, directives: &toml::Table) -> Result<Arm> {
    let all = merged(DEFAULTS, directives)?;
    let Some((_, back)) = all.iter().find(|(name, _)| name == "back") else {
        bail!("expected `back`, the engine behind the proxy");
    };
    if !back.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        bail!("expected the name of an engine as `back`, found `{back}`");
    }
    let mut text = String::from("global\n");
    for (name, value) in all.iter().filter(|(name, _)| name == "nbthread" || name == "maxconn") {
        let _ = writeln!(text, "    {name} {value}");
    }
    text.push_str("    hard-stop-after 3s\ndefaults\n");
    let rest = |name: &str| !["nbthread", "maxconn", "back"].contains(&name);
    for (name, value) in all.iter().filter(|(name, _)| rest(name)) {
        let _ = writeln!(text, "    {} {value}", name.replace("timeout-", "timeout "));
    }
    text.push_str("listen front\n    bind {host}:{port} backlog 4096\n");
    text.push_str("    server back \"127.0.0.1:${BACK}\"\n");
    let script = SCRIPT.replace("EXE", &site.exe.display().to_string());
    let serve = site.service.words().replace("{host}", "127.0.0.1");
    let script = script.replace("SERVE", &format!("{serve} --engine {back}"));
    Ok(Arm {
        command: words(&["sh", "{dir}/front.sh"]),
        target: site.service.target().to_string(),
        note: format!("haproxy in front of our {back} engine; the cost is that of both"),
        files: vec![file("haproxy.cfg", text), file("front.sh", script)],
        ..Arm::default()
    })
}
