//! Command lines and the resulting plans.
//!
//! A test is a command line with the plan, or the part of the message, that it must give. Short
//! flags and long ones must lead to the same plan. A refusal is recognised by a part of its
//! message.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Whole {
    #[command(flatten)]
    args: Args,
}

fn args(line: &str) -> Args {
    let words = std::iter::once("load").chain(line.split(' '));
    Whole::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}")).args
}

fn plan(line: &str) -> Plan {
    args(line).plan().unwrap_or_else(|e| panic!("{line}: {e}"))
}

fn http(line: &str) -> HttpOptions {
    let Workload::Http(http) = plan(line).workload else { panic!("{line}: HTTP is spoken") };
    http
}

fn lines(line: &str) -> LineOptions {
    let Workload::Line(lines) = plan(line).workload else { panic!("{line}: a line is spoken") };
    lines
}

fn check_refused(line: &str, part: &str) {
    let words = std::iter::once("load").chain(line.split(' '));
    let why = match Whole::try_parse_from(words) {
        Err(error) => error.to_string(),
        Ok(whole) => match whole.args.plan() {
            Err(usage) => usage.to_string(),
            Ok(plan) => panic!("{line}: taken as {plan:?}"),
        },
    };
    assert!(why.contains(part), "{line}: expected {part:?} in {why:?}");
}

#[test]
fn short_flags_are_those_of_other_generators() {
    let short = plan("stock://127.0.0.1:1 -c8 -d250ms -t1");
    let long = plan("stock://127.0.0.1:1 --closed 8 --for 250ms");
    assert_eq!(short, long);
    assert_eq!(short, plan("-z 250ms --connections 8 stock://127.0.0.1:1"));
    assert_eq!(short.settings.connections, 8);
    assert_eq!(short.window, Window::For(Duration::from_millis(250)));
    let counted = plan("stock://127.0.0.1:1 -n 77");
    assert_eq!((counted.window, counted.warmup), (Window::Count(77), Duration::ZERO));
    let wrk = plan("-t2 -c100 -d30s http://127.0.0.1:8080/index.html");
    assert_eq!((wrk.threads, wrk.settings.connections), (2, 100));
    assert_eq!(wrk.window, Window::For(Duration::from_secs(30)));
    let oha = plan("-n 200 -c 50 -q 1000 -m HEAD -H Accept:text/html http://127.0.0.1:1");
    let (rate, arrivals, depth) = (1000.0, Arrivals::Poisson, 1);
    assert_eq!(oha.model, Model::Open { rate, arrivals, depth });
    let Workload::Http(http) = oha.workload else { panic!("HTTP is spoken") };
    assert_eq!((http.method.as_str(), http.headers.len()), ("HEAD", 1));
}

#[test]
fn models() {
    let model = |line: &str| plan(&format!("echo://127.0.0.1:1 {line}")).model;
    let (depth, think) = (2, Think::Fixed(Duration::from_millis(5)));
    let closed = model("--closed 5 --depth 2 --think 5ms --ramp 100/s");
    assert_eq!(closed, Model::Closed { depth, think, ramp: Some(100.0) });
    // A ramp is over before the measurement.
    let ramp = plan("echo://127.0.0.1:1 -c 50 --ramp 100/s");
    assert_eq!(ramp.warmup, Duration::from_millis(800));
    let arrivals = Arrivals::Constant;
    let open = model("--open 5k --arrivals constant --depth 2");
    assert_eq!(open, Model::Open { rate: 5000.0, arrivals, depth });
    let sessions =
        model("--sessions 7 --session-requests 3 --depth 2 --think 5ms --arrivals constant");
    assert_eq!(sessions, Model::Sessions { rate: 7.0, arrivals, rounds: 3, depth, think });
}

#[test]
fn connections() {
    let plan = plan(
        "echo://127.0.0.1:1 --idle 9 --source 127.0.0.2,127.0.0.3 --max-outstanding 7 \
         --requests-per-connection 4 --spin 0s",
    );
    assert_eq!(plan.sources.len(), 2);
    let Settings { idle, outstanding_max, requests_per_connection, spin, .. } = plan.settings;
    let found = (idle, outstanding_max, requests_per_connection, spin);
    assert_eq!(found, (9, 7, Some(4), Duration::ZERO));
    assert_eq!(self::plan("echo://127.0.0.1:1 --sessions 5").settings.connections, 1000);
}

#[test]
fn lines_are_said_with_their_escapes() {
    let line = lines(r"line://127.0.0.1:1 --request INCR\x20x\r\n --terminator \r\n");
    assert_eq!(line.requests, [b"INCR x\r\n"]);
    assert_eq!((line.terminator.as_slice(), line.prefix.as_slice()), (&b"\r\n"[..], &b""[..]));
}

#[test]
fn requests_of_a_file() {
    let (_folder, file) = testkit::Folder::with("requests", "SET a 1\\r\\n\nGET a\n");
    let line = format!("line://127.0.0.1:1 --terminators 2 --request-file {}", file.display());
    let said = lines(&line);
    assert_eq!(said.requests, [&b"SET a 1\r\n"[..], b"GET a\n"]);
    assert_eq!(said.terminators, 2);
    std::fs::write(&file, "").expect("a temporary file");
    check_refused(&line, "with a line or more");
    std::fs::remove_file(&file).expect("it is there");
    check_refused(&line, "cannot read");
}

#[test]
fn paths_have_weights() {
    let asked = |http: &HttpOptions| {
        let each = http.requests.iter().map(|it| (it.path.clone(), it.weight));
        each.collect::<Vec<_>>()
    };
    let mixed = http("http://127.0.0.1:1/x --mix /=90,/big=10");
    assert_eq!(asked(&mixed), [("/".to_owned(), 90), ("/big".to_owned(), 10)]);
    let http = http("http://127.0.0.1:1/x?y --expect-status 201");
    assert_eq!(asked(&http), [("/x?y".to_owned(), 1)]);
    assert_eq!(http.wanted, Expectation { status: Some(201), length: None });
}

#[test]
fn a_name_and_a_password_are_a_field() {
    let (_folder, file) = testkit::Folder::with("user", "Aladdin:open sesame\n");
    // The example of RFC 7617, section 2.
    let http = http(&format!("http://127.0.0.1:1 --user @{}", file.display()));
    let field = ("Authorization".to_owned(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned());
    assert_eq!(http.headers, [field]);
    check_refused("http://127.0.0.1:1 --user secret", "no name or no colon");
    check_refused("http://127.0.0.1:1 --user a:b -H authorization:x", "found both");
}

#[test]
fn connections_can_go_elsewhere() {
    let target = plan("https://no.such.name --unix /run/a --cert a.pem --key b.pem").target;
    assert_eq!((target.host(), target.unix), ("no.such.name".to_owned(), Some("/run/a".into())));
    let client = target.tls.expect("https").client;
    assert_eq!(client, Some(("a.pem".into(), "b.pem".into())));
    let target = plan("http://no.such.name:5 --connect-to 127.0.0.2:7").target;
    assert_eq!(target.address.to_string(), "127.0.0.2:7");
    check_refused("http://127.0.0.1:1 --unix a --connect-to b:1", "cannot be used with");
    check_refused("http://127.0.0.1:1 --unix a --source 127.0.0.1", "cannot be used with");
    check_refused("http://127.0.0.1:1 --cert a --key b", "https:// or another target");
    check_refused("https://127.0.0.1:1 --cert a", "--key");
}

#[test]
fn lists_of_requests_come_from_files() {
    let folder = testkit::Folder::new();
    let list = |flag: &str, text: &str| {
        format!("http://127.0.0.1:1 --{flag} {}", folder.file("list", text).display())
    };
    let planned = |line: &str| {
        let http = http(line);
        (http.requests.len(), http.in_order)
    };
    assert_eq!(planned(&list("urls", "/a\n/b 2\n")), (2, false));
    let entry = r#"{"request":{"method":"GET","url":"http://127.0.0.1:1/a"}}"#;
    let har = format!(r#"{{"log":{{"entries":[{entry},{entry},{entry}]}}}}"#);
    assert_eq!(planned(&list("har", &har)), (3, true));
    check_refused(&list("urls", "/a\nhttp://b.org/\n"), ": line 2: ");
    check_refused(&list("har", "{"), ": expected a HAR file");
}

/// The plan of `runs` that take turns, with further arguments.
fn turns(runs: &str, line: &str) -> Result<::load::TurnsPlan, String> {
    let (_folder, file) = testkit::Folder::with("turns", runs);
    let args = args(&format!("--turns {}{line}", file.display()));
    args.turns_plan(&file).map_err(|why| why.to_string())
}

#[test]
fn each_turn_has_the_arguments_of_a_run() {
    let runs = r#"[["line://127.0.0.1:1", "--watch", "7", "--request", "a", "--depth", "4"],
                   ["stock://127.0.0.1:2", "--watch", "8", "--mix", "buy=1", "-c", "3"]]"#;
    let plan = turns(runs, " --windows 5").expect("it makes sense");
    assert_eq!((plan.runs.len(), plan.windows), (2, 5));
    let watched = plan.runs[0].watch.as_ref().map(|it| it.pid);
    assert_eq!((watched, plan.runs[0].model.depth()), (Some(7), 4));
    let Workload::Line(line) = &plan.runs[0].workload else { panic!("a line is spoken") };
    assert_eq!(line.requests, [b"a\n"]);
    assert_eq!(plan.runs[1].settings.connections, 3);
    let window = |line: &str| turns(runs, line).map(|plan| plan.window);
    assert_eq!(window(""), Ok(Duration::from_millis(40)));
    assert_eq!(window(" --window 25ms"), Ok(Duration::from_millis(25)));
    for bad in ["{}", "[]", "[[\"--wrong\"]]", "[[\"--turns\", \"x\"]]"] {
        assert!(turns(bad, "").unwrap_err().contains("expected a JSON list"), "{bad}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    check_refused("stock://127.0.0.1:1 -t 0", "1..=1024");
    check_refused("stock://127.0.0.1:1 -c 0", "at least one connection");
    check_refused("stock://127.0.0.1:1 --depth 0", "1..=100000");
    check_refused("stock://127.0.0.1:1 --mix buy=0", "expected a mix");
    check_refused("echo://127.0.0.1:1 --mix buy=1", "expected --mix with stock:// or http://");
    check_refused("http://127.0.0.1:1 --mix x=y", "expected names with whole weights");
    check_refused("http://127.0.0.1:1 --receipts r", "--receipts r with stock://");
    check_refused("http://127.0.0.1:1 -H nonsense", "expected a header");
    check_refused("stock://127.0.0.1:1 --for 5x", "expected a time");
    check_refused("ftp://127.0.0.1:1", "expected one of stock://");
    check_refused("udp+rtp://127.0.0.1:1", "roundhouse play");
    check_refused("127.0.0.1:1", "expected a target such as");
    check_refused("http://127.0.0.1:1 --insecure", "https:// or another target over TLS");
    check_refused("https://127.0.0.1 --insecure --cacert a.pem", "cannot be used with");
    check_refused("http://127.0.0.1:1 --urls a.txt --har a.har", "cannot be used with");
    check_refused("http://127.0.0.1:1 --har no.har", "no.har: cannot read");
    check_refused("stock://127.0.0.1:1 stock://127.0.0.1:2", "expected one target");
    check_refused("stock://127.0.0.1:1 a.txt", "expected one target");
    check_refused("line://127.0.0.1:1", "expected --request");
    check_refused("line://127.0.0.1:1 --request a\\q", "found `\\q`");
    check_refused("stock://127.0.0.1:1 --turns a.json", "cannot be used with");
    check_refused("stock://127.0.0.1:1 --for 1s --count 5", "cannot be used with");
    check_refused("echo://127.0.0.1:1 --open 5 --sessions 5", "cannot be used with");
    check_refused("echo://127.0.0.1:1 --open 5 --ramp 5", "expected --ramp with a closed loop");
    check_refused("echo://127.0.0.1:1 --open fast", "expected a rate");
    check_refused("echo://127.0.0.1:1 --think soon", "expected a pause");
    check_refused("echo://127.0.0.1:1 --slo 5ms", "expected METRIC OP VALUE");
    check_refused("echo://127.0.0.1:1 --find-capacity", "--slo");
}

#[test]
fn a_stress_client_has_a_window() {
    let plan = plan("echo://127.0.0.1:1 -c 100 --in-flight 200 --send-delay 2ms --reconnect 500ms");
    let think = Think::Fixed(Duration::from_millis(2));
    assert_eq!(plan.model, Model::Closed { depth: 200, think, ramp: None });
    assert!(plan.settings.tops_up && plan.settings.renew == Some(Duration::from_millis(500)));
    check_refused("stock://127.0.0.1:1 --in-flight 10", "with echo://");
    check_refused("echo://127.0.0.1:1 --in-flight 0", "1..=100000");
    check_refused("echo://127.0.0.1:1 --reconnect 1s", "--in-flight");
    check_refused("echo://127.0.0.1:1 --in-flight 10 --depth 3", "cannot be used with");
    check_refused("echo://127.0.0.1:1 --in-flight 10 --reconnect 0s", "1ms or more");
}

#[test]
fn the_clients_of_a_study_are_a_closed_loop() {
    let plan = plan(
        "http://127.0.0.1:1/ -c 20 --guests 12 --stay 1s --connect-apart --until-failure \
         --requests-per-connection 1 --malformed",
    );
    let Settings { connections, connect_apart, guests, until_failure, .. } = plan.settings;
    assert_eq!((connections, connect_apart, until_failure), (32, true, true));
    assert_eq!(guests, Some(Guests { count: 12, stay: Duration::from_secs(1) }));
    let Workload::Http(http) = plan.workload else { panic!("HTTP is spoken") };
    assert!(http.takes_malformed);
    check_refused("http://127.0.0.1:1 --guests 2 --stay 1ms", "10ms or more");
    check_refused("http://127.0.0.1:1 --open 5 --connect-apart", "cannot be used with");
}

#[test]
fn a_file_of_requests_takes_one_run() {
    let all = "http://127.0.0.1:1 --requests-csv rows";
    assert_eq!(plan(all).requests_csv, Some("rows".into()));
    check_refused(&format!("{all} --find-capacity --slo p99<5ms"), "cannot be used with");
    check_refused(
        "http://127.0.0.1:1 --prometheus 127.0.0.1:1 --find-capacity --slo p99<5ms",
        "cannot be used with",
    );
    for (flag, value) in [
        ("--requests-csv", "rows"),
        ("--prometheus", "127.0.0.1:1"),
        ("--otlp", "http://127.0.0.1:1"),
        ("--stages", "1s:5"),
    ] {
        let turn = format!(r#"[["http://127.0.0.1:1", "--watch", "1", "{flag}", "{value}"]]"#);
        let why = turns(&turn, "").expect_err("a turn");
        assert!(why.contains(flag), "{why}");
    }
}

#[test]
fn stages_are_users_or_a_rate() {
    let users = plan("http://127.0.0.1:1/ --stages 1s:8,2s:8,1s:0 --think 1ms");
    assert_eq!((users.settings.connections, users.warmup), (8, Duration::ZERO));
    assert_eq!(users.window, Window::For(Duration::from_secs(4)));
    assert_eq!(users.model.name(), "closed");
    let rate = plan("http://127.0.0.1:1/ --stage 1s:80/s,1s:0/s -c 5");
    assert_eq!((rate.model.rate(), rate.settings.connections), (Some(40.0), 5));
    check_refused("http://127.0.0.1:1/ --stages 1s:8 -c 5", "whose levels are users");
    check_refused("http://127.0.0.1:1/ --stages 1s:8 --for 5s", "cannot be used with");
    check_refused("echo://127.0.0.1:1 --stages 1s:8/s --in-flight 5", "cannot be used with");
    check_refused("http://127.0.0.1:1/ --stages 8", "such as 30s:100,2m:100,30s:0");
}

#[test]
fn a_proxy_is_asked_for_whole_urls() {
    let proxied = plan("http://no.such.name/a --proxy 127.0.0.1:3128");
    assert_eq!(proxied.target.address.to_string(), "127.0.0.1:3128");
    let Workload::Http(options) = proxied.workload else { panic!("HTTP is spoken") };
    let mut asked = Vec::new();
    let mut script = script::Http::new(options, 1).expect("a script");
    script::Script::ask(&mut script, 0, 1, &mut asked);
    let asked = String::from_utf8_lossy(&asked);
    assert!(asked.starts_with("GET http://no.such.name/a HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\nHost: no.such.name\r\n"), "{asked}");
    let options = http("http://127.0.0.1/ --proxy tom:s@cret@127.0.0.1:3128");
    let field = ("Proxy-Authorization".to_owned(), "Basic dG9tOnNAY3JldA==".to_owned());
    assert_eq!(options.headers, [field]);
    // In a tunnel the server gets no word for the proxy.
    let options = http("https://no.such.name/ --proxy tom:secret@127.0.0.1:3128 --insecure");
    assert_eq!((options.prefix.as_str(), &options.headers[..]), ("", &[][..]));
    check_refused("http://127.0.0.1/ --proxy secret@127.0.0.1:1", "no name or no colon");
    check_refused("grpc://127.0.0.1:1/a.B/C --urls x", "a POST of one message");
    check_refused("grpc://127.0.0.1:1/a.B/C --malformed", "a POST of one message");
    let options = http("grpc://127.0.0.1:1/a.B/C -H Content-Type:application/grpc+proto --body x");
    let names: Vec<&str> = options.headers.iter().map(|field| field.0.as_str()).collect();
    assert_eq!((options.method.as_str(), names), ("POST", vec!["Content-Type", "te"]));
    assert_eq!((options.body, options.wanted.status), (b"\0\0\0\0\x01x".to_vec(), Some(0)));
    check_refused("grpc://127.0.0.1:1/a.B", "PACKAGE.SERVICE/METHOD");
    check_refused("http://127.0.0.1/ --proxy 127.0.0.1:1 --http2", "in HTTP/1.1");
    check_refused("stock://127.0.0.1 --proxy 127.0.0.1:1", "another target over TLS");
}
