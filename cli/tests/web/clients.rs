//! h11, a foreign client whose parser is strict, in one small conversation with every engine.

use std::path::Path;
use std::process::Command;

use crate::server::servers;
use crate::site::site;
use testkit::{run, skip};

#[test]
fn h11_with_every_engine() {
    // The first Python on the path may be a private one without the packages of the system.
    let can = |python: &&str| {
        let output = Command::new(*python).args(["-c", "import h11"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(can) else {
        return skip("h11");
    };
    let site = site();
    let servers = servers(&site);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web/h11_client.py");
    let mut command = Command::new(python);
    // Python would write its bytecode cache into the source tree.
    command.arg("-B").arg(path).arg(site.path().join("great"));
    command.args(servers.iter().map(|server| format!("{}={}", server.name, server.address)));
    let said = run(&mut command).success().out;
    for server in servers {
        assert!(said.contains(&format!("{}: good\n", server.name)), "{}: {said}", server.name);
        server.close();
    }
}
