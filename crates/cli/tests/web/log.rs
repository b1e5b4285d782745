//! The access log of every engine: clients that leave in mid-reply.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use testkit::{Folder, wait_for};

use crate::server::{connect, each, servers_with};
use crate::site::{GREAT, site};

/// The bytes of a reply that each client takes before it leaves.
const TAKEN: usize = 100_000;

#[test]
fn an_aborted_download_is_logged_with_the_bytes_that_were_sent() {
    let (site, room) = (site(), Folder::new());
    let log = |engine: &str| room.path().join(engine);
    let servers = servers_with(&site, |engine| {
        let path = log(engine).display().to_string();
        ["--access-log", &path, "--log-format", "combined"].map(str::to_owned).to_vec()
    });
    each(&servers, |server| {
        let mut client = connect(server.address).expect("a connection");
        let request = "GET /great HTTP/1.1\r\nHost: a\r\nReferer: http://b/\r\n\r\n";
        client.write_all(request.as_bytes()).expect("a request is sent");
        client.read_exact(&mut vec![0; TAKEN]).expect("a part of the reply");
        let _ = client.shutdown(Shutdown::Both);
        drop(client);
        let line = wait_for("a line of the log", Duration::from_secs(10), || {
            std::fs::read_to_string(log(&server.name)).ok().filter(|it| it.ends_with('\n'))
        });
        let rest = line.split_once("\"GET /great HTTP/1.1\" 200 ").map(|(_, rest)| rest);
        let bytes = rest.and_then(|it| it.strip_suffix(" \"http://b/\" \"-\"\n"));
        let bytes: usize = bytes.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        assert!((TAKEN - 1000..GREAT).contains(&bytes), "{bytes} of {GREAT}");
    });
    servers.into_iter().for_each(|server| drop(server.close()));
}
