//! A process of extensions, and what the runner of scripts is to it: pipes, variables, bodies, the sentinel.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What ends a response.
const SENTINEL: &str = "$CGIPLUS-EOF-0123456789abcdef0123456789abcdef$";
/// Where the test program gets the descriptors that a script has at 0, 1 and 3: its harness prints to 1.
const PLACES: [(i32, i32); 3] = [(110, 0), (111, 1), (113, 3)];
/// Nothing takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs in the child: becomes the process of extensions, and does not return. Does nothing in the test program itself.
pub(crate) fn become_host() {
    if std::env::var_os("WEIR_ISAPI_HOST").is_none() {
        return;
    }
    for (from, to) in PLACES {
        // SAFETY: system calls without pointers, on descriptors that the parent has given.
        unsafe {
            libc::dup2(from, to);
            libc::close(from);
        }
    }
    let code = weir_isapi::run();
    std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
}

fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: the memory has room for two descriptors, which the files then own.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

/// A response as it came, without the sentinel.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn expect(&self, head: &str, body: &str) {
        assert_eq!((self.head.as_str(), self.text().as_str()), (head, body));
    }

    #[track_caller]
    pub(crate) fn has(&self, part: &str) {
        assert!(self.text().contains(part), "{part:?} is missing: {} {}", self.head, self.text());
    }
}

/// The process, and a folder with its extensions and its log.
pub(crate) struct Host {
    child: Child,
    variables: Option<File>,
    body: File,
    response: File,
    pub(crate) folder: tempfile::TempDir,
}

impl Host {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let log = File::create(folder.path().join("log")).expect("a log");
        let (body_end, body) = pipe();
        let (response, response_end) = pipe();
        let (variables_end, variables) = pipe();
        let given = [body_end.as_raw_fd(), response_end.as_raw_fd(), variables_end.as_raw_fd()];
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "the_child_is_a_host", "--nocapture", "--test-threads=1"])
            .env("WEIR_ISAPI_HOST", "1")
            .env("CGIPLUSEOF", SENTINEL)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // SAFETY: only system calls, between fork and exec.
        unsafe {
            command.pre_exec(move || {
                for (from, (to, _)) in given.into_iter().zip(PLACES) {
                    if libc::dup2(from, to) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("a process of extensions");
        Self { child, variables: Some(variables), body, response, folder }
    }

    /// Compiles an extension into the folder.
    pub(crate) fn build(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let native = here.join("../../native/isapi");
        let source = if source == "hello.c" {
            native.join("examples/hello.c")
        } else {
            here.join("tests/extensions/c").join(source)
        };
        let to = self.folder.path().join(name);
        // A new file each time, as an installation makes one: a loaded library must not change.
        let made = to.with_extension("new");
        let built = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread", "-I"])
            .arg(&native)
            .args(flags)
            .arg("-o")
            .args([&made, &source])
            .output()
            .expect("cc (scripts/deps build)");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::rename(&made, &to).expect("a renamed file");
        to
    }

    /// Asks a script; `None` if the process ended instead.
    pub(crate) fn ask(&mut self, script: &Path, variables: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
        let request = request(script, variables, body.len());
        let pipe = self.variables.as_mut().expect("an open stream");
        pipe.write_all(&request).ok()?;
        let mut sender = self.body.try_clone().expect("a descriptor");
        std::thread::scope(|scope| {
            if !body.is_empty() {
                scope.spawn(move || sender.write_all(body));
            }
            self.answer()
        })
    }

    /// A GET of `functions.so` with a query string.
    #[track_caller]
    pub(crate) fn get(&mut self, script: &Path, query: &str) -> Answer {
        self.ask(script, &[("QUERY_STRING", query)], b"").expect("an answer")
    }

    fn answer(&mut self) -> Option<Answer> {
        let deadline = Instant::now() + PATIENCE;
        let mut read = Vec::new();
        let mut piece = [0; 65536];
        while !read.ends_with(SENTINEL.as_bytes()) {
            let mut waited = libc::pollfd { fd: self.response.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, valid for reads and writes.
            unsafe { libc::poll(&raw mut waited, 1, 1000) };
            assert!(Instant::now() < deadline, "no answer; log: {}", self.log());
            if waited.revents == 0 {
                continue;
            }
            match self.response.read(&mut piece).expect("a readable pipe") {
                0 => return None,
                count => read.extend_from_slice(&piece[..count]),
            }
        }
        read.truncate(read.len() - SENTINEL.len());
        let end = read.windows(4).position(|four| four == b"\r\n\r\n").expect("an empty line");
        let body = read.split_off(end + 4);
        Some(Answer { head: String::from_utf8_lossy(&read[..end]).into_owned(), body })
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    /// Ends the stream of variables, and waits for the end of the process.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.variables = None;
        self.wait()
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < deadline, "the process does not end; log: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How the process ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    /// Writes to the stream of variables.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.variables.as_mut().expect("an open stream").write_all(bytes).expect("a written request");
    }

    pub(crate) fn terminate(&self) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(id, libc::SIGTERM) };
    }

    /// How often the process has read and written, by the kernel's count.
    pub(crate) fn calls(&self) -> (u64, u64) {
        let path = format!("/proc/{}/io", self.child.id());
        let text = fs::read_to_string(path).expect("the counts of a child");
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a count");
            line.trim().parse().expect("a number")
        };
        (count("syscr:"), count("syscw:"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request in struct mode.
fn request(script: &Path, variables: &[(&str, &str)], length: usize) -> Vec<u8> {
    let length = length.to_string();
    let script = script.to_str().expect("a path in UTF-8");
    let fixed = [
        ("SCRIPT_FILENAME", script),
        ("SCRIPT_NAME", "/bin/a.so"),
        ("REQUEST_METHOD", if length == "0" { "GET" } else { "POST" }),
        ("CONTENT_LENGTH", &length),
        ("DOCUMENT_ROOT", "/srv/www"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("HTTP_HOST", "example.org:8080"),
    ];
    let mut block = Vec::new();
    for (name, value) in fixed.iter().chain(variables) {
        let record = format!("{name}={value}\0");
        block.extend_from_slice(&u16::try_from(record.len()).expect("a short variable").to_ne_bytes());
        block.extend_from_slice(record.as_bytes());
    }
    block.extend_from_slice(&[0, 0]);
    [format!("!!{}\n", block.len()).as_bytes(), &block].concat()
}
