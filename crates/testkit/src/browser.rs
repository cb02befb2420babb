//! A real browser without a screen, driven over its DevTools pipe: pages are opened, keys pressed, errors collected.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Debian's Chromium.
pub const PROGRAM: &str = "/usr/bin/chromium";
/// How long the browser may take for one command.
const PATIENCE: Duration = Duration::from_secs(30);
/// Messages that wait to be looked at.
const MOST_WAITING: usize = 4096;

/// A page in a browser of its own; both end with it.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: File,
    messages: Receiver<Value>,
    session: String,
    next: u64,
    errors: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start() -> Self {
        let profile = TempDir::new().expect("a directory for the browser's profile");
        let (from_us, to) = pipe();
        let (from, to_us) = pipe();
        let mut command = Command::new(PROGRAM);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-extensions"])
            .args(["--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let (read, write) = (from_us.as_raw_fd(), to_us.as_raw_fd());
        // SAFETY: only dup2 and fcntl are called between fork and exec; both are safe there. The browser's protocol
        // wants to read from descriptor 3 and to write to 4. Both are first moved out of each other's way.
        unsafe {
            command.pre_exec(move || {
                let (high_read, high_write) =
                    (libc::fcntl(read, libc::F_DUPFD, 10), libc::fcntl(write, libc::F_DUPFD, 10));
                for (from, to) in [(high_read, 3), (high_write, 4)] {
                    if from < 0 || libc::dup2(from, to) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                    libc::close(from);
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("the browser starts");
        drop((from_us, to_us));
        let (sender, messages) = sync_channel(MOST_WAITING);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(File::from(from));
            let mut bytes = Vec::new();
            while reader.read_until(0, &mut bytes).is_ok_and(|count| count > 0) {
                bytes.pop();
                let message = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                bytes.clear();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            to: File::from(to),
            messages,
            session: String::new(),
            next: 0,
            errors: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Shows pages as on a screen of this size in pixels, dark or light.
    pub fn screen(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Takes any certificate from now on, also one of an authority that it does not know.
    pub fn take_any_certificate(&mut self) {
        self.call("Security.setIgnoreCertificateErrors", &json!({"ignore": true}));
    }

    /// Opens an address and waits until it is loaded.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(&mut self, address: &str) {
        // A change of what is behind the # alone would not load anything.
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        let answer = self.call("Page.navigate", &json!({"url": address}));
        assert_eq!(answer.get("errorText"), None, "{address}");
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// The value of a JavaScript expression.
    ///
    /// # Panics
    /// If it throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &asked);
        assert_eq!(answer.get("exceptionDetails"), None, "{expression}");
        answer["result"].get("value").cloned().unwrap_or(Value::Null)
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// If it does not become so in time.
    pub fn wait_for(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.value(expression) != Value::Bool(true) {
            assert!(Instant::now() < deadline, "never true: {expression}; errors: {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Presses and releases a key, by its name in `KeyboardEvent.key`.
    pub fn press(&mut self, key: &str) {
        let mut event = json!({"type": "keyDown", "key": key});
        if key.chars().count() == 1 {
            event["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", &event);
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key}));
    }

    /// Types text where the focus is.
    pub fn type_in(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Errors so far: exceptions, failed loads, what the page logged as an error.
    pub fn errors(&mut self) -> &[String] {
        // Events that came before the answer to this call have been read then.
        self.value("1");
        &self.errors
    }

    /// A picture of what the screen shows, or of the whole page: a PNG.
    ///
    /// # Panics
    /// If there is none.
    pub fn picture(&mut self, whole: bool) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", &json!({"captureBeyondViewport": whole, "format": "png"}));
        of_base64(answer["data"].as_str().expect("a picture"))
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap_or_else(|error| panic!("{method}: the browser has ended: {error}"));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = match self.messages.recv_timeout(left) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => panic!("{method}: no answer after {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{method}: the browser has ended"),
            };
            self.note(&message);
            if message["id"] == json!(id) {
                assert_eq!(message.get("error"), None, "{method}");
                return message["result"].clone();
            }
        }
    }

    fn note(&mut self, message: &Value) {
        let told = &message["params"];
        let error = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(told["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") if told["type"] == "error" => Some(told["args"].to_string()),
            Some("Log.entryAdded") if told["entry"]["level"] == "error" => Some(told["entry"].to_string()),
            Some("Network.requestWillBeSent") => {
                let address = told["request"]["url"].as_str().unwrap_or_default();
                let inside =
                    ["file:", "data:", "about:", "http://127.0.0.1:"].iter().any(|own| address.starts_with(own));
                (!inside).then(|| format!("asks for {address}"))
            }
            _ => None,
        };
        self.errors.extend(error);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // SAFETY: the group is that of our own child, which has not been waited for.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
        let _ended = self.child.wait();
    }
}

/// The bytes that base64 stands for, as RFC 4648 has it.
fn of_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => u32::from(letter - b'A'),
        b'a'..=b'z' => u32::from(letter - b'a') + 26,
        b'0'..=b'9' => u32::from(letter - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').collect();
    let mut bytes = Vec::new();
    for four in letters.chunks(4) {
        let word = four.iter().fold(0, |word, letter| word << 6 | value(*letter)) << (6 * (4 - four.len()));
        bytes.extend_from_slice(&word.to_be_bytes()[1..four.len()]);
    }
    bytes
}

/// A pipe, its reading end first; neither end is inherited.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors of ours into the array.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "a pipe");
    // SAFETY: both were just made, and nothing else owns them.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_the_rfc_says() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(of_base64(text), bytes.as_bytes());
        }
    }
}
