//! Apache HTTP Server serving the trial's `www` folder, with one of its processing modules.
//!
//! Where the modules lie differs between distributions; the folder is looked for. Debian's build
//! has the processing modules as shared objects, others have one built in: then `LoadModule` fails
//! and the arm says so.

use super::{file, merged, words};
use anyhow::Result;
use lab::plan::Arm;
use std::fmt::Write;
use std::path::Path;

/// Where distributions put the modules.
const FOLDERS: [&str; 4] = [
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/etc/httpd/modules",
    "/usr/libexec/apache2",
];
/// What the program is called.
const PROGRAMS: [&str; 2] = ["apache2", "httpd"];
/// What differs from Apache's defaults, but for the module's own.
const DEFAULTS: [(&str, &str); 8] = [
    ("ServerName", "localhost"),
    ("ListenBacklog", "4096"),
    ("KeepAlive", "On"),
    ("MaxKeepAliveRequests", "0"),
    ("KeepAliveTimeout", "15"),
    ("EnableSendfile", "On"),
    ("HostnameLookups", "Off"),
    ("GracefulShutdownTimeout", "3"),
];

/// Spare processes or threads, so that a plan that changes one of them changes a known number.
/// They are the defaults of Apache 2.4 written out.
fn spare(module: &str) -> &'static [(&'static str, &'static str)] {
    match module {
        "prefork" => &[
            ("StartServers", "5"),
            ("MinSpareServers", "5"),
            ("MaxSpareServers", "10"),
            ("ServerLimit", "256"),
            ("MaxRequestWorkers", "256"),
            ("MaxConnectionsPerChild", "0"),
        ],
        _ => &[
            ("ServerLimit", "16"),
            ("StartServers", "3"),
            ("ThreadLimit", "64"),
            ("ThreadsPerChild", "25"),
            ("MinSpareThreads", "75"),
            ("MaxSpareThreads", "250"),
            ("MaxRequestWorkers", "400"),
            ("MaxConnectionsPerChild", "0"),
        ],
    }
}

pub(super) fn arm(module: &str, directives: &toml::Table) -> Result<Arm> {
    let folder = FOLDERS.iter().find(|folder| Path::new(folder).is_dir()).unwrap_or(&FOLDERS[0]);
    let defaults: Vec<(&str, &str)> = DEFAULTS.iter().chain(spare(module)).copied().collect();
    let mut text = String::from(
        "ServerRoot {dir}\nDefaultRuntimeDir {dir}\nPidFile {dir}/httpd.pid\n\
         ErrorLog /dev/stderr\nLogLevel error\n",
    );
    for name in [&format!("mpm_{module}"), "authz_core", "dir", "mime"] {
        let _ = writeln!(text, "LoadModule {name}_module {folder}/mod_{name}.so");
    }
    text.push_str("TypesConfig /dev/null\nAddType text/html .html\nDirectoryIndex index.html\n");
    // A limit has to be known before what it limits.
    for (name, value) in merged(&defaults, directives)? {
        let _ = writeln!(text, "{name} {value}");
    }
    text.push_str(
        "Listen 127.0.0.1:{port}\nDocumentRoot {dir}/www\n\
         <Directory {dir}/www>\n    Require all granted\n    AllowOverride None\n</Directory>\n",
    );
    let exists = |name: &&&str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
    };
    let program = PROGRAMS.iter().find(exists).unwrap_or(&PROGRAMS[0]);
    Ok(Arm {
        command: words(&[program, "-d", "{dir}", "-f", "{dir}/httpd.conf", "-D", "FOREGROUND"]),
        target: "http://{address}/".to_string(),
        note: format!("Apache's {module} module, connections are never closed by count"),
        files: vec![file("httpd.conf", text)],
        ..Arm::default()
    })
}
