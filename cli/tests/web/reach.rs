//! The load generator through a socket in the file system, at another address than the name says,
//! with a client's certificate and with a password: nginx decides whether they are right.

use std::process::Command;

use serde_json::Value;
use testkit::{PATIENCE, Process, eventually, free_port, has, run};

use crate::https::Site;

/// Loads a target and returns the counts by status, the exit code and all that was said.
fn load(target: &str, flags: &str) -> (Value, Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
    let ended = run(command.args(["load", target, "--json"]).args(flags.split_whitespace()));
    let report: Value = serde_json::from_str(&ended.out).unwrap_or(Value::Null);
    // A busy machine makes the times invalid (98), but not the replies.
    let code = if ended.code == Some(98) { Some(0) } else { ended.code };
    (report["statuses"].clone(), code, ended.out + &ended.err)
}

#[test]
fn nginx_is_reached_as_people_reach_it() {
    if !has("nginx") {
        return;
    }
    let (site, port) = (Site::new(), free_port());
    let (root, cert, key) = (site.path(""), &site.cert, &site.key);
    std::fs::write(site.path("users"), "tom:{PLAIN}secret").expect("a folder");
    let config = format!(
        "daemon off; master_process off; pid {root}/pid; error_log stderr; events {{}}\n\
         http {{ access_log off; client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;\n\
         fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;\n\
         root {root}/www;\n\
         server {{ listen unix:{root}/sock; server_name shop.example;\n\
         location /b {{ auth_basic x; auth_basic_user_file {root}/users; }} }}\n\
         server {{ listen unix:{root}/sock default_server; return 421; }}\n\
         server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {cert};\n\
         ssl_certificate_key {key}; ssl_client_certificate {cert}; ssl_verify_client on; }} }}"
    );
    std::fs::write(site.path("nginx.conf"), config).expect("a folder");
    let mut nginx = Command::new("nginx");
    let mut nginx = Process::start(nginx.args(["-e", "stderr", "-c", &site.path("nginx.conf")]));
    eventually("nginx listens", PATIENCE, || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let check = |target: &str, flags: &str, status: &str, code: i32| {
        let (found, exit, said) = load(target, &format!("{flags} -n 50 -c 2"));
        assert_eq!((&found[status], exit), (&50.into(), Some(code)), "{target} {flags}: {said}");
        assert!(!said.contains("cret"), "{said}");
    };
    let unix = format!("--unix {}", site.path("sock"));
    check("http://shop.example/a", &unix, "200", 0);
    check("http://else.example/a", &unix, "421", 1);
    check("http://shop.example/b", &format!("{unix} --user tom:secret"), "200", 0);
    check("http://shop.example/b", &format!("{unix} --user tom:decret"), "401", 1);
    let secure = format!("--connect-to 127.0.0.1:{port} --cacert {cert}");
    check("https://localhost:1/a", &format!("{secure} --cert {cert} --key {key}"), "200", 0);
    check("https://localhost:1/a", &secure, "400", 1);
    nginx.kill();
    let (_, code, said) = load("http://shop.example/", "--unix /no/such.sock -n 1");
    assert!(code == Some(1) && said.contains("/no/such.sock"), "{code:?} {said}");
    let (_, code, said) = load("https://localhost:1/", &format!("--cert {cert} --key {cert}"));
    assert!(code == Some(2) && said.contains("--key: expected"), "{code:?} {said}");
}
