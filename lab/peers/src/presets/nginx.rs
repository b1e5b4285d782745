//! nginx serving the trial's `www` folder.
//!
//! Directives of the main, events and http blocks are distinguished by name, because a plan writes
//! them in one flat list. QUIT lets it finish its requests.

use super::{file, merged, words};
use anyhow::Result;
use lab::plan::{Arm, Stop};

/// Directives of the main block.
const MAIN: &str = "worker_processes worker_cpu_affinity worker_rlimit_nofile worker_priority \
    timer_resolution thread_pool";
/// Directives of the events block.
const EVENTS: &str = "worker_connections use multi_accept accept_mutex accept_mutex_delay";
const DEFAULTS: &str = include_str!("nginx.conf");

pub(super) fn arm(directives: &toml::Table) -> Result<Arm> {
    let all = merged(DEFAULTS, directives)?;
    let block = |keep: &dyn Fn(&str) -> bool, indent: &str| -> String {
        all.iter()
            .filter(|(name, _)| keep(name))
            .map(|(name, value)| format!("{indent}{name} {value};\n"))
            .collect()
    };
    let main = |name: &str| MAIN.split(' ').any(|known| known == name);
    let events = |name: &str| EVENTS.split(' ').any(|known| known == name);
    let listen = "        listen {host}:{port} backlog=4096;\n        root {dir}/www;\n";
    let text = format!(
        "daemon off;\nmaster_process on;\npid {{dir}}/nginx.pid;\nerror_log stderr error;\n{}\
         events {{\n{}}}\nhttp {{\n    types {{ text/html html; }}\n{}\
         \x20   client_body_temp_path {{dir}}/tmp;\n    proxy_temp_path {{dir}}/tmp;\n\
         \x20   fastcgi_temp_path {{dir}}/tmp;\n    uwsgi_temp_path {{dir}}/tmp;\n\
         \x20   scgi_temp_path {{dir}}/tmp;\n    server {{\n{listen}    }}\n}}\n",
        block(&main, ""),
        block(&events, "    "),
        block(&|name| !main(name) && !events(name), "    "),
    );
    Ok(Arm {
        command: words(&["nginx", "-p", "{dir}", "-e", "stderr", "-c", "{dir}/nginx.conf"]),
        target: "http://{address}/".to_string(),
        note: "nginx, no access log, connections are never closed by count".to_string(),
        files: vec![file("nginx.conf", text)],
        stop: Stop::Quit,
        ..Arm::default()
    })
}
