//! The web server beside nginx, Apache and a bare loop: a fixed answer, and files of three sizes.
//!
//! Foreign servers read a configuration that names their port, so a small script writes it and then
//! becomes the server.

use super::arm::Arm;
use super::at_least;
use super::duet::{Duet, Load};
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// Debian's paths.
pub const NGINX: &str = "/usr/sbin/nginx";
/// The same of Apache.
pub const APACHE: &str = "/usr/sbin/apache2";

/// The note for the reader.
pub const NOTE: &str = "Keep-alive HTTP/1.1 without an access log; 64 connections, but 16 for \
    64 KiB and 4 for 10 MiB. nginx has one worker, `sendfile on`, and answers `/plaintext` by \
    `return 200`; Apache answers it from a file, because it has nothing cheaper, with a worker for \
    each connection. `bare-web` is an epoll loop that sends the bytes of our answer for each empty \
    line. `/work?ms=20` computes for 20 ms of CPU, 4 clients at a time; Apache does so by mod_lua, \
    as many rounds of our loop as are calibrated to take so long before the first of these rows, \
    which is exact to a percent or two. `p99` is that of the closed loop, left over right. Files \
    are opened anew for each request by all. A ratio above 1 says that the left needs more.";

/// nginx, for `PORT DIR`; `{site}` is filled in.
const NGINX_SCRIPT: &str = r#"cat >"$2/nginx.conf" <<END
daemon off;
worker_processes 1;
pid $2/nginx.pid;
error_log stderr error;
events { worker_connections 10000; }
http {
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    default_type text/plain;
    client_body_temp_path $2/a; proxy_temp_path $2/b; fastcgi_temp_path $2/c;
    uwsgi_temp_path $2/d; scgi_temp_path $2/e;
    server {
        listen 127.0.0.1:$1 backlog=4096;
        root {site};
        location = /plaintext { return 200 "Hello, World!"; }
    }
}
END
exec /usr/sbin/nginx -p "$2" -e stderr -c "$2/nginx.conf"
"#;

/// Apache, for `PORT DIR MODULE`. It starts as many workers as there are connections, so that none
/// starts within a window. In a hybrid each process has that many; otherwise `event` would end idle
/// connections if all of them reached one process.
const APACHE_SCRIPT: &str = r#"modules=/usr/lib/apache2/modules
cat >"$2/httpd.conf" <<END
ServerRoot $2
DefaultRuntimeDir $2
PidFile $2/httpd.pid
ServerName localhost
ErrorLog /dev/stderr
LogLevel error
LoadModule mpm_$3_module $modules/mod_mpm_$3.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule lua_module $modules/mod_lua.so
LuaScope thread
LuaMapHandler ^/work$ {site}/../work.lua
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
EnableSendfile On
ListenBacklog 4096
Listen 127.0.0.1:$1
DocumentRoot {site}
<Directory {site}>
    Require all granted
    AllowOverride None
</Directory>
<IfModule mpm_prefork_module>
    ServerLimit 100
    StartServers 80
    MinSpareServers 1
    MaxSpareServers 100
    MaxRequestWorkers 100
</IfModule>
<IfModule !mpm_prefork_module>
    ServerLimit 2
    StartServers 2
    ThreadLimit 64
    ThreadsPerChild 64
    MinSpareThreads 1
    MaxSpareThreads 128
    MaxRequestWorkers 128
</IfModule>
END
exec /usr/sbin/apache2 -d "$2" -f "$2/httpd.conf" -D FOREGROUND
"#;

/// Apache's `/work?rounds=N`: the loop that our `/work` repeats until its time is up (Knuth's
/// multiplicative congruential generator).
const WORK_SCRIPT: &str = "\
function handle(r)
  local rounds = tonumber((r.args or ''):match('rounds=(%d+)')) or 0
  local state = 1
  for _ = 1, rounds do state = state * 6364136223846793005 + 1 end
  r.content_type = 'text/plain'
  r:puts(string.format('%x\\n', state))
  return apache2.OK
end
";

/// Files of the site and their sizes.
const FILES: [(&str, usize); 3] = [("1k", 1 << 10), ("64k", 64 << 10), ("10m", 10 << 20)];

/// Writes the site and the scripts into `room`.
///
/// # Errors
/// If a file cannot be written.
pub fn furnish(room: &Path) -> anyhow::Result<()> {
    let site = site(room);
    fs::create_dir_all(&site).with_context(|| format!("create {}", site.display()))?;
    let write = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
    };
    write(&site.join("plaintext"), b"Hello, World!")?;
    for (name, len) in FILES {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        write(&site.join(name), &bytes)?;
    }
    write(&room.join("work.lua"), WORK_SCRIPT.as_bytes())?;
    for (name, text) in [("nginx", NGINX_SCRIPT), ("apache", APACHE_SCRIPT)] {
        let text = text.replace("{site}", &site.display().to_string());
        write(&script(room, name), text.as_bytes())?;
    }
    Ok(())
}

/// The document root.
pub fn site(room: &Path) -> PathBuf {
    room.join("site")
}

/// The script that starts a foreign server.
pub fn script(room: &Path, name: &str) -> PathBuf {
    room.join(name).with_extension("sh")
}

/// Computing: few clients, because each waits for all of them on one core, and windows that hold
/// some dozens of replies.
const WORK: Load = Load {
    connections: 4,
    depth: 1,
    per_connection: None,
    idle: 0,
    path: Some("/work?ms=20"),
    window_ms: 400,
    windows_max: Some(10),
};
/// Two loops of 20 ms are equal if they differ by less than the error of the calibration.
const ALIKE: f64 = 0.97;

/// Every comparison.
pub fn duets() -> Vec<Duet> {
    let mut duets = Vec::new();
    let mut add = |left, right, load, wanted| {
        duets.push(Duet { left, right, load, wanted, bytes: None, p99: None });
    };
    let plain = |depth| Load { depth, path: Some("/plaintext"), ..Load::default() };
    for engine in ["epoll", "uring"] {
        let right = Arm::Web(engine, "");
        for (depth, nginx, bare) in [(1, 1.2, 0.90), (16, 6.0, 0.70)] {
            add(Arm::Nginx, right, plain(depth), at_least(nginx));
            add(Arm::BareWeb, right, plain(depth), at_least(bare));
        }
    }
    let files = [("/1k", 64, 40), ("/64k", 16, 100), ("/10m", 4, 400)];
    for engine in ["epoll", "uring"] {
        for (path, connections, window_ms) in files {
            // A window that is ten times as long is measured half as often.
            let windows_max = (window_ms > 200).then_some(10);
            let load =
                Load { path: Some(path), connections, window_ms, windows_max, ..Load::default() };
            add(Arm::Nginx, Arm::Web(engine, ""), load, at_least(1.0));
        }
    }
    let hybrid = "--policy static --workers 128 --threads 64";
    for (module, flags) in [("prefork", ""), ("worker", hybrid), ("event", hybrid)] {
        let (left, right) = (Arm::Apache(module), Arm::Web(module, flags));
        let bytes = None;
        let kept = Load { path: Some("/1k"), ..Load::default() };
        for (load, least) in [(plain(1), 1.0), (kept, 1.0), (WORK, ALIKE)] {
            let wanted = at_least(least);
            duets.push(Duet { left, right, load, wanted, bytes, p99: Some(wanted) });
        }
    }
    duets
}
