//! Several sites of one web server, by name and with separate certificates, behind a proxy.

use std::process::Command;

use crate::arms::Arm;
use crate::harness::{Folder, PATIENCE, Plan, eventually};
use sys::signal::Signal;

/// Sites of a file of options with separate certificates, behind a proxy that names the client:
/// curl trusts each site's certificate alone, also after a reload.
pub fn sites_by_name(arm: &Arm) {
    let folder = Folder::new();
    let text = |name: &str, text: &str| {
        folder.file(name, text).to_str().expect("a temporary path is text").to_owned()
    };
    let log = text("log", "");
    let mut options = format!("access-log = {log:?}\nlog-format = 'json'\n");
    for site in ["a.org", "b.org"] {
        std::fs::create_dir_all(folder.path().join(site)).expect("a temporary directory");
        text(&format!("{site}/f"), site);
        let ([cert, key], dir) = (folder.certify(site), folder.path().display());
        options += &format!(
            "[[site]]\nnames = ['{site}', '*.{site}']\nroot = '{dir}/{site}'\ncert = '{cert}'\n\
             key = '{key}'\nheader = ['X-Site: {site}']\n"
        );
    }
    let config = text("sites.toml", &options);
    let more = ["--config", &config, "--proxy-protocol", "127.0.0.0/8"];
    let server = Plan::new(arm, "http").with(&more).start();
    let get = |host: &str, trusted: &str, protocol: &str| {
        let mut command = Command::new("curl");
        command.args(["-sSi", "--http1.1", "--max-time", "20", protocol, "--cacert"]);
        command.arg(folder.path().join(trusted));
        command.args(["--connect-to", &format!("::{}", server.address)]);
        let output = command.arg(format!("https://{host}/f")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let proxied = "--haproxy-protocol";
    if get("a.org", "a.org.pem", proxied).is_none() && !testkit::has("curl") {
        return;
    }
    for round in 0..2 {
        for (host, site) in [("a.org", "a.org"), ("b.org", "b.org"), ("x.b.org", "b.org")] {
            let heard = get(host, &format!("{site}.pem"), proxied);
            let heard = heard.unwrap_or_else(|| panic!("{host}, round {round}"));
            assert!(heard.ends_with(&format!("\r\n\r\n{site}")), "{host}: {heard}");
            assert!(heard.contains(&format!("\r\nX-Site: {site}\r\n")), "{host}: {heard}");
        }
        assert!(get("b.org", "a.org.pem", proxied).is_none(), "another certificate");
        if round == 0 {
            folder.certify("b.org");
            server.signal(Signal::HUP);
            server.says("the certificates were reloaded");
            eventually("the new one is shown", PATIENCE, || {
                get("b.org", "b.org.pem", proxied).is_some()
            });
        }
    }
    assert!(get("a.org", "a.org.pem", "-4").is_none(), "a header is owed");
    let mut client = server.client();
    client.send("PROXY TCP4 192.0.2.7 1.2.3.4 5 443\r\nGET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.rest().first(), Some(&21), "an alert of TLS");
    drop(client);
    server.stop();
    let log = std::fs::read_to_string(log).expect("the log");
    for site in ["a.org", "b.org"] {
        let of = |line: &&str| line.contains(&format!("\"site\":\"{site}\""));
        assert!(log.lines().filter(of).count() >= 2, "{site}: {log}");
    }
}
