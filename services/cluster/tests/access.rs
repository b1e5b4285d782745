//! A member of etcd that demands TLS, a certificate of the client and a password lets a node in
//! that has them, and no other.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cluster::{BatchStore, Etcd, StoreAccess, StoreAddress};
use testkit::{Folder, PATIENCE, Process, eventually, free_port, has};

/// An authority, and certificates of a member and of a client, by `openssl`.
fn certificates(folder: &Path) {
    let openssl = |words: &str| {
        let mut command = Command::new("openssl");
        testkit::run(command.current_dir(folder).args(words.split(' '))).success();
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=ca"));
    std::fs::write(folder.join("san"), "subjectAltName=IP:127.0.0.1\n").expect("a folder");
    for name in ["member", "client"] {
        openssl(&format!("req {key} -keyout {name}.key -out {name}.csr -subj /O=roundhouse"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
             -extfile san -out {name}.pem"
        ));
    }
}

#[test]
fn a_store_with_tls_and_a_password_is_entered() {
    if ["etcd", "openssl", "curl"].iter().any(|program| !has(program)) {
        return;
    }
    let folder = Folder::new();
    certificates(folder.path());
    let [client, peer] = [(); 2].map(|()| free_port());
    let url = format!("https://127.0.0.1:{client}");
    let words = format!(
        "--log-level error --data-dir data --listen-client-urls {url} \
         --advertise-client-urls {url} --listen-peer-urls http://127.0.0.1:{peer} \
         --cert-file member.pem --key-file member.key --client-cert-auth --trusted-ca-file ca.pem"
    );
    let mut etcd = Command::new("etcd");
    let _etcd = Process::start(etcd.current_dir(folder.path()).args(words.split_whitespace()));
    let ask = |path: &str, body: &str| {
        let mut curl = Command::new("curl");
        let front = ["-sf", "--cacert", "ca.pem", "--cert", "client.pem", "--key", "client.key"];
        curl.current_dir(folder.path()).args(front).args(["-d", body, &format!("{url}/v3/{path}")]);
        testkit::run(&mut curl).code == Some(0)
    };
    eventually("etcd answers", PATIENCE, || ask("maintenance/status", "{}"));
    assert!(ask("auth/user/add", r#"{"name":"root","password":"secret"}"#));
    assert!(ask("auth/user/grant", r#"{"user":"root","role":"root"}"#));
    assert!(ask("auth/enable", "{}"));
    let address: StoreAddress =
        format!("etcds://127.0.0.1:{client}/m").parse().expect("an address");
    let enter = |user: &str, certificate: &str| {
        let at = |name: String| folder.path().join(name).display().to_string();
        let access = StoreAccess::read(&address, |name| match name {
            "ETCDCTL_CACERT" => Some(at("ca.pem".to_owned())),
            "ETCDCTL_CERT" if !certificate.is_empty() => Some(at(format!("{certificate}.pem"))),
            "ETCDCTL_KEY" if !certificate.is_empty() => Some(at(format!("{certificate}.key"))),
            "ETCDCTL_USER" if !user.is_empty() => Some(user.to_owned()),
            _ => None,
        });
        let mut store = Etcd::new(address.clone(), access.expect("files that can be read").into());
        let founded = store.save(0, b"book");
        founded.and_then(|()| store.snapshot(true)).map_err(|fault| fault.to_string())
    };
    let mut found = enter("root:secret", "client");
    eventually("auth is on", PATIENCE, || {
        found = enter("root:secret", "client");
        std::thread::sleep(Duration::from_millis(20));
        found.is_ok()
    });
    assert_eq!(found, Ok(Some((0, b"book".to_vec()))));
    let bad = |user: &str, certificate: &str, word: &str| {
        let why = enter(user, certificate).expect_err("no entrance");
        assert!(why.contains(word) && !why.contains("wrong"), "{why}");
    };
    bad("root:wrong", "client", "authentication failed");
    bad("", "client", "user name is empty");
    // The member closes at once; whether its alert arrives before that is a matter of chance.
    bad("root:secret", "", "");
}
