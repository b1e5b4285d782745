//! A real Chromium, driven by its DevTools protocol over a pair of pipes.
//!
//! With `--remote-debugging-pipe` Chromium reads commands from descriptor 3 and answers on 4, each
//! message a JSON object that ends with a zero byte (chromedevtools.github.io/devtools-protocol).
//! A shell moves our pipes there. Nothing here waits longer than [`PATIENCE`].

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Folder, PATIENCE};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// One browser at a time: several would only slow each other down.
static ONE: Mutex<()> = Mutex::new(());

const FLAGS: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--mute-audio",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A browser with one tab.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    events: Vec<Value>,
    session: String,
    last: u64,
    _profile: Folder,
    _alone: MutexGuard<'static, ()>,
}

impl Browser {
    /// Starts a browser, or says that there is none.
    pub fn open() -> Option<Browser> {
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let program = testkit::chromium()?;
        let profile = Folder::new();
        let mut child = Command::new("sh")
            .arg("-c")
            .arg("exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1")
            .arg("sh")
            .arg(&program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        let (tell, messages) = channel();
        thread::spawn(move || listen(output, &tell));
        let mut browser = Browser {
            child,
            input,
            messages,
            events: Vec::new(),
            session: String::new(),
            last: 0,
            _profile: profile,
            _alone: alone,
        };
        let tab = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": tab["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().expect("a session has a name").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.answer(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Sends a command and returns its result, or the browser's error.
    fn answer(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last += 1;
        let id = self.last;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser reads commands");
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.next(until).unwrap_or_else(|| panic!("{method}: no answer"));
            if answer["id"] == json!(id) {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].clone()),
                    error => Err(error.clone()),
                };
            }
            self.events.push(answer);
        }
    }

    fn next(&self, until: Instant) -> Option<Value> {
        match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the browser has ended"),
        }
    }

    /// The value of an expression in the page; promises are awaited.
    pub fn eval(&mut self, expression: &str) -> Value {
        self.try_eval(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The value of an expression; the browser's error if the page is left meanwhile.
    fn try_eval(&mut self, expression: &str) -> Result<Value, Value> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let found = self.answer("Runtime.evaluate", params)?;
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        Ok(found["result"]["value"].clone())
    }

    /// Waits until an expression is true in the page, or in the one that follows it.
    pub fn wait(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.try_eval(&format!("Boolean({expression})"));
            if found == Ok(json!(true)) {
                return;
            }
            assert!(Instant::now() < until, "it never came true: {expression}, last: {found:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Opens a page and waits until it is loaded. Forgets complaints of the previous page.
    pub fn go(&mut self, url: &str) {
        self.events.clear();
        let found = self.call("Page.navigate", json!({"url": url}));
        assert!(found["errorText"].is_null(), "{url}: {found}");
        self.wait(&format!(
            "location.href === {} && document.readyState === 'complete'",
            json!(url)
        ));
    }

    /// The size of the window and the scheme of colours, `light` or `dark`.
    pub fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
                          "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": scheme}));
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key,
                                   "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Everything the page has complained of since [`Browser::go`]: console errors, exceptions,
    /// and, beginning with `network`, requests that failed.
    pub fn complaints(&mut self) -> Vec<String> {
        // A round trip, so that all earlier messages have arrived.
        self.eval("0");
        self.events.iter().filter_map(complaint).collect()
    }

    /// The addresses that the page has asked for since [`Browser::go`].
    pub fn requests(&mut self) -> Vec<String> {
        self.eval("0");
        let sent = self.events.iter().filter(|it| it["method"] == "Network.requestWillBeSent");
        sent.filter_map(|it| it["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// Writes a picture to the directory in `ROUNDHOUSE_SHOTS`, if that is set.
    pub fn shot(&mut self, name: &str) {
        let Ok(dir) = std::env::var("ROUNDHOUSE_SHOTS") else { return };
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let height = size["height"].as_f64().unwrap_or(1_000.0).min(8_000.0);
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.call("Page.captureScreenshot", params);
        let bytes = decoded(picture["data"].as_str().expect("a picture"));
        let path = Path::new(&dir).join(format!("{name}.png"));
        std::fs::write(&path, bytes).expect("ROUNDHOUSE_SHOTS names a writable directory");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Cuts the browser's output into messages.
fn listen(mut output: impl Read, tell: &Sender<Value>) {
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(count @ 1..) = output.read(&mut part) {
        bytes.extend_from_slice(&part[..count]);
        while let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            let message = serde_json::from_slice(&bytes[..end]).expect("the browser speaks JSON");
            bytes.drain(..=end);
            if tell.send(message).is_err() {
                return;
            }
        }
    }
}

fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    let (source, text) = match event["method"].as_str()? {
        "Runtime.exceptionThrown" => {
            ("exception".to_owned(), params["exceptionDetails"].to_string())
        }
        "Runtime.consoleAPICalled" if params["type"] == "error" || params["type"] == "warning" => {
            ("console".to_owned(), params["args"].to_string())
        }
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            let entry = &params["entry"];
            (entry["source"].as_str().unwrap_or_default().to_owned(), entry["text"].to_string())
        }
        _ => return None,
    };
    Some(format!("{source}: {text}"))
}

/// Pictures and documents as DevTools encodes them.
pub fn decoded(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).expect("base64")
}
