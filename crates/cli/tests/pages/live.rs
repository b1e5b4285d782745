//! The live page: from `roundhouse live` in a browser that loses its server and finds it again, and
//! from a race without any browser.

use crate::Room;
use crate::browser::{Browser, PATIENCE};
use lab::record::{Recorder, Run};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");

/// A server that is killed with its guard.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Serves the page of a raw file. An address that was free a moment ago may have become the
    /// other end of another connection, so it is tried until it is free again.
    fn start(file: &Path, listen: &str) -> Server {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(server) = Server::try_start(file, listen) {
                return server;
            }
            assert!(Instant::now() < until, "{listen} cannot be listened on");
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn try_start(file: &Path, listen: &str) -> Option<Server> {
        let mut child = Command::new(EXE)
            .arg("live")
            .arg(file)
            .args(["--listen", listen])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built for this test");
        let output = child.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("it is text");
        let mut server = Server { child, address: String::new() };
        if line.is_empty() {
            return None;
        }
        let ready: Value = serde_json::from_str(&line).expect("one line of JSON");
        ready["listening"].as_str().expect("it says where").clone_into(&mut server.address);
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A raw file that grows trial by trial.
struct Growing {
    run: Run,
    recorder: Recorder,
    done: usize,
}

impl Growing {
    fn new(path: &Path) -> Growing {
        let run = pages::sample::small();
        let recorder = Recorder::begin(path, &run.manifest).expect("the room is writable");
        Growing { run, recorder, done: 0 }
    }

    /// Appends trials until `count` of them count.
    fn until(&mut self, counted: usize) {
        let known =
            |run: &Run, done: usize| run.trials[..done].iter().filter(|it| it.counted).count();
        while known(&self.run, self.done) < counted {
            self.recorder.trial(&self.run.trials[self.done]).expect("the room is writable");
            self.done += 1;
        }
    }
}

#[test]
fn the_live_page_updates_survives_a_killed_server_and_ends() {
    let Some(mut browser) = Browser::open("live") else { return };
    let room = Room::new("live");
    let file = room.0.join("report.jsonl");
    let mut race = Growing::new(&file);
    race.until(3);
    let server = Server::start(&file, "127.0.0.1:0");
    let address = server.address.clone();
    browser.look(1280, 900, "light");
    browser.go(&format!("http://{address}/"));
    let done = |number: usize| format!("document.documentElement.dataset.done === '{number}'");
    let wire = |state: &str| format!("document.documentElement.dataset.wire === '{state}'");
    browser.wait(&done(3));
    race.until(40);
    browser.wait(&done(40));
    let rows = "document.querySelectorAll('.live-table tbody tr').length";
    assert_eq!(browser.eval(rows), json!(8), "three arms and a twin at two load points");
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());

    drop(server);
    browser.wait(&wire("lost"));
    race.until(48);
    let server = Server::start(&file, &address);
    browser.wait(&wire("open"));
    browser.wait(&done(48));
    race.until(60);
    browser.wait(&done(60));
    assert!(browser.eval("document.querySelectorAll('.funnel .area').length").as_u64() > Some(0));
    let over = browser.eval("document.documentElement.scrollWidth - innerWidth");
    assert_eq!(over, json!(0), "the page is wider than the window");
    browser.shot("live-1280-light");
    race.recorder.finish().expect("the room is writable");
    browser.wait("document.documentElement.dataset.phase === 'over'");
    assert_eq!(browser.eval(&wire("over")), json!(true));
    drop(server);
    // Without a server the browser itself logged failed requests; the page did not.
    let ours: Vec<_> =
        browser.complaints().into_iter().filter(|it| !it.starts_with("network")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

#[test]
fn the_live_page_fits_a_phone_in_the_dark() {
    let Some(mut browser) = Browser::open("phone") else { return };
    let room = Room::new("phone");
    let file = room.0.join("report.jsonl");
    Growing::new(&file).until(60);
    let server = Server::start(&file, "127.0.0.1:0");
    browser.look(360, 800, "dark");
    browser.go(&format!("http://{}/", server.address));
    browser.wait("document.documentElement.dataset.done === '60'");
    let over =
        browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(over, json!(0), "the page is wider than the window");
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
    browser.shot("live-360-dark");
}

/// Asks for one page; what comes is to be read.
fn ask(address: &str, path: &str) -> std::io::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    Ok(BufReader::new(stream))
}

/// What an event of the stream says, if the line is one.
fn event(line: &str) -> Option<Value> {
    Some(serde_json::from_str(line.strip_prefix("data: ")?).expect("an event is JSON"))
}

#[test]
fn a_race_shows_itself_from_its_first_trial_to_its_report() {
    let room = Room::new("race");
    // Far more blocks than are waited for: the race must not end before the browser opens the page.
    let mut race = Command::new(EXE)
        .args(["race", "stock", "--arms", "epoll", "--blocks", "5000", "--depths", "1"])
        .args(["--window", "50ms", "--warmup", "20ms", "--live"])
        .current_dir(&room.0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut said = BufReader::new(race.stderr.take().expect("it is piped")).lines();
    let address = said
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| {
            Some(line.strip_prefix("watch it at http://")?.trim_matches('/').to_owned())
        })
        .expect("the race says where it can be watched");
    let rest = thread::spawn(move || said.map_while(Result::ok).collect::<Vec<_>>());
    let mut page = String::new();
    let mut answer = ask(&address, "/").expect("the page is served");
    answer.read_to_string(&mut page).expect("the page ends in order");
    let policy = "Content-Security-Policy: default-src 'none'";
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains(policy), "{page}");
    // When two trials are seen the race is stopped. The stream ends with the race; what it told
    // last is how the race ended.
    let (mut stream, mut events) = (ask(&address, "/events").expect("events"), String::new());
    let mut line = String::new();
    let (mut stopped, mut last) = (false, Value::Null);
    while stream.read_line(&mut line).expect("the stream ends in order") > 0 {
        last = event(&line).unwrap_or(last);
        if !stopped && last["done"].as_u64() >= Some(2) {
            let pid = rustix::process::Pid::from_child(&race);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
            stopped = true;
        }
        events.push_str(&line);
        line.clear();
    }
    assert_eq!((&last["phase"], &last["total"]), (&json!("stopped"), &json!(10_000)), "{last}");
    assert!(last["report"].as_str().is_some_and(|it| it.ends_with("report.html")), "{last}");
    assert!(events.ends_with("0\r\n\r\n"), "the stream is whole");
    let until = Instant::now() + PATIENCE;
    while race.try_wait().expect("it is ours").is_none() {
        assert!(Instant::now() < until, "the race ends after its stream");
        thread::sleep(Duration::from_millis(20));
    }
    let told = rest.join().expect("lines").join("\n");
    assert!(race.wait().expect("it has ended").success(), "{told}");
}
