//! The live page: from `roundhouse live` in a browser that loses its server and reconnects, and
//! from a race without any browser.

use crate::browser::Browser;
use lab::record::{Recorder, Run};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use testkit::{Folder, PATIENCE, Server, eventually, ms, wait_for};

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");

/// Serves the page of a raw file. The address was free a moment ago but may now be the local end of
/// another connection, so the function retries until it is free.
fn serve(file: &Path, listen: &str) -> Server {
    wait_for("the page is served", PATIENCE, || {
        Server::try_start(Command::new(EXE).arg("live").arg(file).args(["--listen", listen])).ok()
    })
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

    /// Appends trials until `counted` of them count.
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
    let Some(mut browser) = Browser::open() else { return };
    let room = Folder::new();
    let file = room.path().join("report.jsonl");
    let mut race = Growing::new(&file);
    race.until(3);
    let server = serve(&file, "127.0.0.1:0");
    let address = server.address;
    browser.look(1280, 900, "light");
    browser.go(&format!("http://{address}/"));
    let done = |number: usize| format!("document.documentElement.dataset.done === '{number}'");
    let wire = |state: &str| format!("document.documentElement.dataset.wire === '{state}'");
    browser.wait(&done(3));
    race.until(40);
    browser.wait(&done(40));
    let rows = "document.querySelectorAll('.live-table tbody tr').length";
    assert_eq!(browser.eval(rows), json!(8), "three arms and a twin at two load points");
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    assert_eq!(browser.eval(&text("when")), json!("So far"));
    let told = browser.eval(&text("estimates"));
    let told = told.as_str().unwrap_or_default();
    assert!(told.contains(" requests/s against ") && told.contains("1.00×"), "{told}");
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());

    drop(server);
    browser.wait(&wire("lost"));
    race.until(48);
    let server = serve(&file, &address.to_string());
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
    assert_eq!(browser.eval(&text("when")), json!("Result"));
    drop(server);
    // While no server ran, the browser itself logged failed requests; the page did not.
    let ours: Vec<_> =
        browser.complaints().into_iter().filter(|it| !it.starts_with("network")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

#[test]
fn the_live_page_fits_a_phone_in_the_dark() {
    let Some(mut browser) = Browser::open() else { return };
    let room = Folder::new();
    let file = room.path().join("report.jsonl");
    Growing::new(&file).until(60);
    let server = serve(&file, "127.0.0.1:0");
    browser.look(360, 800, "dark");
    browser.go(&format!("http://{}/", server.address));
    browser.wait("document.documentElement.dataset.done === '60'");
    let over =
        browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(over, json!(0), "the page is wider than the window");
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
    browser.shot("live-360-dark");
}

/// Requests one page and returns a reader of the answer.
fn ask(address: &str, path: &str) -> std::io::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    Ok(BufReader::new(stream))
}

#[test]
fn a_race_shows_itself_from_its_first_trial_to_its_report() {
    let room = Folder::new();
    // Far more blocks than the test awaits: the race must not end before the page is read.
    let mut race = Command::new(EXE)
        .args(["race", "stock", "--arms", "epoll", "--blocks", "5000", "--depths", "1"])
        .args(["--window", "50ms", "--warmup", "20ms", "--live"])
        .current_dir(room.path())
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
    // The test stops the race after two trials. The server ends with the race, and its last
    // document is the outcome of the race.
    let (mut stopped, mut last) = (false, Value::Null);
    while let Ok(mut answer) = ask(&address, "/state.json") {
        let mut text = String::new();
        let whole = answer.read_to_string(&mut text);
        let Some((_, document)) = text.split_once("\r\n\r\n").filter(|_| whole.is_ok()) else {
            break;
        };
        last = serde_json::from_str(document).expect("a document is JSON");
        if !stopped && last["done"].as_u64() >= Some(2) {
            let pid = rustix::process::Pid::from_child(&race);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
            stopped = true;
        }
        thread::sleep(ms(50));
    }
    assert_eq!((&last["phase"], &last["total"]), (&json!("stopped"), &json!(10_000)), "{last}");
    assert!(last["report"].as_str().is_some_and(|it| it.ends_with("report.html")), "{last}");
    eventually("the race ends after its page", PATIENCE, || {
        race.try_wait().expect("it is ours").is_some()
    });
    let told = rest.join().expect("lines").join("\n");
    // As a shell reports a program that Ctrl-C ended.
    assert_eq!(race.wait().expect("it has ended").code(), Some(130), "{told}");
}
