//! Apache HTTP Server serving the trial's `www` folder, with one of its processing modules.
//!
//! The module folder differs between distributions and is searched for. Debian builds the
//! processing modules as shared objects; elsewhere one is built in, so that `LoadModule` fails and
//! the arm reports it.

use super::{file, merged, words};
use anyhow::{Result, bail};
use lab::plan::Arm;
use std::fmt::Write;
use std::path::Path;

/// Module folders of the distributions.
const FOLDERS: [&str; 4] = [
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/etc/httpd/modules",
    "/usr/libexec/apache2",
];
const PROGRAMS: [&str; 2] = ["apache2", "httpd"];
/// Deviations from Apache's defaults, and its spare processes or threads.
const DEFAULTS: &str = include_str!("apache.conf");
const PREFORK: &str = include_str!("apache-prefork.conf");
const THREADS: &str = include_str!("apache-threads.conf");

/// The program that `/cgi/page` runs, relative to `{dir}`; the caller that starts the arm makes it
/// executable.
pub const PROGRAM: &str = "www/cgi/page";
/// The file in which the computing arm logs the microseconds of each request inside the server, one
/// per line.
pub const TOOK: &str = "took.log";

/// The routes of a computing arm besides files. `/work?rounds=N` runs N rounds of the loop that our
/// `/work` repeats until its time is up (Knuth's multiplicative congruential generator), so that
/// the two can be calibrated against each other; `/dynamic` builds the page of our `/dynamic`.
const WORK: &str = include_str!("work.lua");
const DYNAMIC: &str = include_str!("dynamic.lua");
/// The page of `/dynamic`, by a program started for each request (RFC 3875), as was once usual.
const CGI: &str = include_str!("page.sh");

/// Apache that computes (mod_lua), builds pages in the process and by a program for each request
/// (mod_cgi, mod_cgid with threads), and logs how long each request took inside the server, for
/// experiments that are not about files. Connections end with their reply.
///
/// # Errors
/// An invalid directive.
pub fn computing(module: &str, directives: &toml::Table) -> Result<Arm> {
    let mut arm = arm(module, directives)?;
    let folder = FOLDERS.iter().find(|folder| Path::new(folder).is_dir()).unwrap_or(&FOLDERS[0]);
    let cgi = if module == "prefork" { "cgi" } else { "cgid" };
    let mut text = String::new();
    for name in ["lua", cgi] {
        let _ = writeln!(text, "LoadModule {name}_module {folder}/mod_{name}.so");
    }
    if cgi == "cgid" {
        text.push_str("ScriptSock {dir}/cgi.sock\n");
    }
    let _ = write!(
        text,
        "LuaScope thread\nLuaMapHandler ^/work$ {{dir}}/work.lua\n\
         LuaMapHandler ^/dynamic$ {{dir}}/dynamic.lua\n\
         <Directory {{dir}}/www/cgi>\n    Options +ExecCGI\n    SetHandler cgi-script\n\
         </Directory>\nLogFormat %D took\nCustomLog {{dir}}/{TOOK} took\nKeepAlive Off\n"
    );
    if let Some(conf) = arm.files.iter_mut().find(|file| file.name == "httpd.conf") {
        conf.text.push_str(&text);
    }
    let index = "<!doctype html>\n<title>Hello</title>\n<p>Hello, World!\n".to_string();
    arm.files.extend([
        file("work.lua", WORK.to_string()),
        file("dynamic.lua", DYNAMIC.to_string()),
        file(PROGRAM, CGI.to_string()),
        file("www/index.html", index),
    ]);
    arm.note = format!("Apache's {module} module; computing by mod_lua, a connection a request");
    Ok(arm)
}

/// Checks that Apache and the modules of [`computing`] are installed.
///
/// # Errors
/// The missing program or module, with the places that were searched.
pub fn is_here() -> Result<()> {
    if !PROGRAMS.iter().any(|name| which::which(name).is_ok()) {
        bail!("expected a program out of {} on the path, found none", PROGRAMS.join(", "));
    }
    for name in ["lua", "cgi", "cgid", "mpm_worker"] {
        let module = format!("mod_{name}.so");
        if !FOLDERS.iter().any(|folder| Path::new(folder).join(&module).is_file()) {
            bail!("expected Apache's {module} in one of {}, found none", FOLDERS.join(", "));
        }
    }
    Ok(())
}

pub(super) fn arm(module: &str, directives: &toml::Table) -> Result<Arm> {
    let folder = FOLDERS.iter().find(|folder| Path::new(folder).is_dir()).unwrap_or(&FOLDERS[0]);
    let spare = if module == "prefork" { PREFORK } else { THREADS };
    let mut text = String::from(
        "ServerRoot {dir}\nDefaultRuntimeDir {dir}\nPidFile {dir}/httpd.pid\n\
         ErrorLog /dev/stderr\nLogLevel error\n",
    );
    for name in [&format!("mpm_{module}"), "authz_core", "dir", "mime"] {
        let _ = writeln!(text, "LoadModule {name}_module {folder}/mod_{name}.so");
    }
    text.push_str("TypesConfig /dev/null\nAddType text/html .html\nDirectoryIndex index.html\n");
    // A limit must precede the directive that it limits.
    for (name, value) in merged(&[DEFAULTS, spare].concat(), directives)? {
        let _ = writeln!(text, "{name} {value}");
    }
    text.push_str(
        "Listen {host}:{port}\nDocumentRoot {dir}/www\n\
         <Directory {dir}/www>\n    Require all granted\n    AllowOverride None\n</Directory>\n",
    );
    let program = PROGRAMS.iter().find(|name| which::which(name).is_ok()).unwrap_or(&PROGRAMS[0]);
    Ok(Arm {
        command: words(&[program, "-d", "{dir}", "-f", "{dir}/httpd.conf", "-D", "FOREGROUND"]),
        target: "http://{address}/".to_string(),
        note: format!("Apache's {module} module, connections are never closed by count"),
        files: vec![file("httpd.conf", text)],
        ..Arm::default()
    })
}
