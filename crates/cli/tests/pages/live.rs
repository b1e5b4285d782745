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
    /// Serves the page of a raw file.
    fn start(file: &Path, listen: &str) -> Server {
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
        BufReader::new(output).read_line(&mut line).expect("one line of JSON");
        let ready: Value = serde_json::from_str(&line).expect("one line of JSON");
        let address = ready["listening"].as_str().expect("it says where").to_owned();
        Server { child, address }
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

    /// Appends trials until so many count.
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
    // While nobody served, the browser itself wrote down that requests failed; the page did not.
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

/// Asks for one page and reads until the server closes.
fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_race_shows_itself_from_its_first_trial_to_its_report() {
    let room = Room::new("race");
    let mut race = Command::new(EXE)
        .args(["race", "stock", "--arms", "epoll", "--blocks", "2", "--depths", "1"])
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
    // The stream ends with the race; what it told last is how the race ended.
    let page = get(&address, "/").expect("the page is served");
    let policy = "Content-Security-Policy: default-src 'none'";
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains(policy), "{page}");
    let events = get(&address, "/events").expect("the stream ends in order");
    let last = events.lines().rfind(|line| line.starts_with("data: ")).expect("an edition");
    let last: Value = serde_json::from_str(&last["data: ".len()..]).expect("JSON");
    assert_eq!((&last["phase"], &last["done"]), (&json!("over"), &json!(4)), "{last}");
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
