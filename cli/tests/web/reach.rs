//! The load generator through a socket in the file system, at another address than the name says,
//! with a client's certificate and with a password: nginx decides whether they are right.

use testkit::{free_port, has};

use crate::https::{Site, load};

#[test]
fn nginx_is_reached_as_people_reach_it() {
    if !has("nginx") {
        return;
    }
    let (site, port) = (Site::new(), free_port());
    let (root, cert, key) = (site.path(""), &site.cert, &site.key);
    std::fs::write(site.path("users"), "tom:{PLAIN}secret").expect("a folder");
    let servers = format!(
        "server {{ listen unix:{root}/sock; server_name shop.example;\n\
         location /b {{ auth_basic x; auth_basic_user_file {root}/users; }} }}\n\
         server {{ listen unix:{root}/sock default_server; return 421; }}\n\
         server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {cert};\n\
         ssl_certificate_key {key}; ssl_client_certificate {cert}; ssl_verify_client on; }}"
    );
    let mut nginx = site.nginx(port, &servers);
    let check = |target: &str, flags: &str, status: &str, code: i32| {
        let (report, exit, said) = load(target, &format!("{flags} -n 50 -c 2"));
        let found = &report["statuses"][status];
        assert_eq!((found, exit), (&50.into(), Some(code)), "{target} {flags}: {said}");
        assert!(!said.contains("cret") && !report.to_string().contains("cret"), "{said}");
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
