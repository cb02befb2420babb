//! `weir-wasm` with a real component, which this test builds: what it answers, what it is refused, what it survives.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a state is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// The component of `guest/`, which is built once.
fn component() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
        let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/Cargo.toml");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--locked", "--target", "wasm32-wasip2", "--manifest-path"])
            .arg(guest)
            .arg("--target-dir")
            .arg(&target)
            .status();
        assert!(built.is_ok_and(|status| status.success()), "rustup target add wasm32-wasip2 may help");
        target.join("wasm32-wasip2/release/guest.wasm")
    })
}

/// A running program, its directory and its log.
struct Served {
    child: Child,
    folder: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
}

impl Served {
    /// Serves the component `app.wasm`, with these options besides.
    fn start(name: &str, options: &[&str]) -> Self {
        let folder = folder(name);
        fs::copy(component(), folder.join("app.wasm")).expect("a copy of the component");
        Self::start_in(folder, "app.wasm", options)
    }

    fn start_in(folder: PathBuf, source: &str, options: &[&str]) -> Self {
        let mut child = program(&folder, source, options).stderr(Stdio::piped()).spawn().expect("the program");
        let errors = BufReader::new(child.stderr.take().expect("its standard error"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let own = Self { child, folder, log: log.clone() };
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| log.lock().unwrap().push(line))
        });
        own.await_line("serves on");
        own
    }

    fn await_line(&self, words: &str) -> String {
        until(&format!("a line of the log with {words:?}"), || {
            self.log.lock().unwrap().iter().find(|line| line.contains(words)).cloned()
        })
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.join("s")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream
    }

    fn get(&self, target: &str) -> Response {
        let mut stream = self.connect();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").expect("a request");
        Response::read(&mut stream)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-wasm-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a directory");
    folder
}

fn program(folder: &Path, source: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-wasm"));
    command.current_dir(folder).args(["--socket", "s"]).args(options).arg(source).env("SECRET", "of the server");
    command
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[derive(Debug)]
struct Response {
    status: u16,
    body: String,
    /// Whether the body came to its end.
    is_whole: bool,
}

impl Response {
    fn read(stream: &mut UnixStream) -> Self {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("a response");
        let text = String::from_utf8_lossy(&all).into_owned();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        let head = head.to_ascii_lowercase();
        let (body, is_whole) = if head.contains("transfer-encoding: chunked") {
            unchunked(rest)
        } else {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            (rest.to_owned(), length.is_some_and(|length| length.parse() == Ok(rest.len())))
        };
        Self { status, body, is_whole }
    }
}

fn unchunked(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, behind)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 {
            return (body, true);
        }
        body.push_str(behind.get(..size).unwrap_or(behind));
        rest = behind.get(size + 2..).unwrap_or("");
    }
    (body, false)
}

#[test]
fn a_request_is_answered_and_leaves_nothing_to_the_next() {
    let served = Served::start("answers", &["--instances", "1"]);
    for _ in 0..20 {
        let response = served.get("/count");
        assert_eq!((response.status, response.body.as_str(), response.is_whole), (200, "1", true));
    }
    let mut stream = served.connect();
    write!(stream, "GET /info?q HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 192.0.2.7\r\n").unwrap();
    write!(stream, "X-Forwarded-Proto: https\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(Response::read(&mut stream).body, "GET https://a.example/info?q of 192.0.2.7 env []");
    let mut stream = served.connect();
    write!(stream, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(Response::read(&mut stream).status, 400);
}

/// Asks for an echo, and reads the head, which comes before the request's body has begun.
fn begin_echo(served: &Served) -> (UnixStream, BufReader<UnixStream>) {
    let mut stream = served.connect();
    write!(stream, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the head has no end");
    }
    (stream, reader)
}

#[test]
fn bodies_stream_both_ways_at_once() {
    let served = Served::start("streams", &[]);
    let (mut stream, mut reader) = begin_echo(&served);
    for piece in ["one", "two", "three"] {
        write!(stream, "{:x}\r\n{piece}\r\n", piece.len()).unwrap();
        let (mut size, mut text) = (String::new(), vec![0; piece.len() + 2]);
        reader.read_line(&mut size).unwrap();
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text[..piece.len()], piece.as_bytes());
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut end = [0; 5];
    reader.read_exact(&mut end).unwrap();
    assert_eq!(&end, b"0\r\n\r\n");
}

#[test]
fn what_goes_wrong_has_its_status_and_its_line_and_harms_no_other() {
    let served = Served::start("wrong", &["--cpu", "0.2", "--timeout", "8", "--memory", "16"]);
    for (path, status, words) in [
        ("/trap", 500, "app.wasm request 1 (GET /trap): it has trapped: wasm `unreachable`"),
        ("/loop", 504, "(GET /loop): it has used its CPU time (--cpu)"),
        ("/alloc", 500, "more memory was refused to it (--memory)"),
        ("/silent", 502, "(GET /silent): it has returned without a response"),
        ("/error", 502, "(GET /error): it gives no response"),
        ("/never", 504, "(GET /never): it has not ended in time (--timeout)"),
    ] {
        let response = served.get(path);
        assert_eq!(response.status, status, "{path}: {response:?}");
        served.await_line(words);
        assert_eq!(served.get("/hello").body, "hello");
    }
    for path in ["/half", "/short"] {
        let response = served.get(path);
        assert!(!response.is_whole, "{path}: {response:?}");
        served.await_line(&format!("(GET {path}): its response breaks off"));
        assert_eq!(served.get("/hello").body, "hello");
    }
}

#[test]
fn endless_loops_leave_time_to_others() {
    let served = Served::start("loops", &["--cpu", "60", "--threads", "1"]);
    let mut loops: Vec<_> = (0..4).map(|_| served.connect()).collect();
    for stream in &mut loops {
        stream.write_all(b"GET /loop HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    assert_eq!(served.get("/hello").body, "hello");
    // A client that goes away ends its instance; otherwise they would compute for a minute each.
    drop(loops);
    until("an idle program", || {
        let before = cpu_ticks(served.child.id());
        std::thread::sleep(Duration::from_millis(200));
        (cpu_ticks(served.child.id()) - before <= 2).then_some(())
    });
}

/// CPU time of a process in ticks of 10 ms (utime and stime of proc_pid_stat(5)).
fn cpu_ticks(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("the process");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_client_that_goes_away_frees_its_place() {
    let served = Served::start("away", &["--instances", "1", "--timeout", "3600"]);
    let mut stream = served.connect();
    stream.write_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 100_000]).unwrap();
    drop(stream);
    let mut stream = served.connect();
    stream.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    drop(stream);
    assert_eq!(served.get("/hello").body, "hello");
}

#[test]
fn requests_beyond_the_queue_are_refused() {
    let served = Served::start("queue", &["--instances", "1", "--queue", "1"]);
    let mut first = served.connect();
    first.write_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    first.read_exact(&mut [0; 1000]).unwrap();
    let mut waiting = served.connect();
    waiting.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    // Until the waiting one is seen, this one may wait itself: then it is given up, and asks again.
    until("503", || {
        let mut stream = served.connect();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        stream.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).ok().filter(|()| &status == b"HTTP/1.1 503")
    });
    drop(first);
    assert_eq!(Response::read(&mut waiting).body, "hello");
    served.await_line("for want of an instance");
}

#[test]
fn nothing_is_granted_that_no_option_names() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in server.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nasked");
        }
    });
    let bare = Served::start("bare", &[]);
    let data = bare.folder.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("a"), "kept").unwrap();
    let data = data.to_str().unwrap();
    let refused = |served: &Served, target: &str| {
        let response = served.get(target);
        assert!(response.body.starts_with("refused: "), "{target}: {response:?}");
    };
    refused(&bare, &format!("/read?{data}/a"));
    refused(&bare, "/read?/etc/passwd");
    refused(&bare, &format!("/connect?{address}"));
    refused(&bare, &format!("/fetch?{address}"));
    bare.await_line(&format!("it may not ask {address}; --allow-host {address} would grant it"));

    let host = address.to_string();
    let options = ["--dir", data, "--env", "NAME=value", "--allow-host", &host];
    let given = Served::start("given", &options);
    assert_eq!(given.get(&format!("/read?{data}/a")).body, "kept");
    assert_eq!(given.get(&format!("/fetch?{address}")).body, "200 asked");
    assert!(given.get("/info").body.ends_with(r#"env [("NAME", "value")]"#));
    refused(&given, &format!("/write?{data}/a"));
    refused(&given, &format!("/read?{data}/../app.wasm"));
    refused(&given, &format!("/connect?{address}"));

    let writing = Served::start("writing", &["--dir-write", data]);
    assert_eq!(writing.get(&format!("/write?{data}/b")).body, "written");
    assert_eq!(fs::read_to_string(Path::new(data).join("b")).unwrap(), "written");
}

#[test]
fn texts_of_components_go_to_the_log() {
    let served = Served::start("texts", &[]);
    assert_eq!(served.get("/log").body, "logged");
    served.await_line("app.wasm request 1 stdout: this is said");
    served.await_line("app.wasm request 1 stderr: this is wrong\\u{1b}[2J");
}

#[test]
fn a_changed_file_is_loaded_again_and_a_broken_one_is_refused() {
    let folder = folder("reload");
    fs::copy(component(), folder.join("a.wasm")).unwrap();
    let served = Served::start_in(folder.clone(), ".", &[]);
    assert_eq!(served.get("/a/hello").body, "hello");
    assert_eq!(served.get("/b/hello").status, 404);
    assert_eq!(served.get("/../a/hello").status, 404);
    fs::write(folder.join("a.wasm"), "no component").unwrap();
    served.await_line("a.wasm: no component");
    assert_eq!(served.get("/a/hello").body, "hello");
    fs::copy(component(), folder.join("b.wasm")).unwrap();
    served.await_line("b.wasm is loaded");
    assert_eq!(served.get("/b/hello").body, "hello");
    fs::remove_file(folder.join("b.wasm")).unwrap();
    until("404", || (served.get("/b/hello").status == 404).then_some(()));
}

#[test]
fn mistakes_are_refused_at_the_start() {
    let folder = folder("mistakes");
    fs::write(folder.join("core.wasm"), b"\0asm\x01\0\0\0").unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    for (source, options, code, words) in [
        ("core.wasm", &[][..], 1, "wasm-tools component new"),
        ("missing.wasm", &[], 1, "missing.wasm: No such file"),
        ("empty", &[], 1, "no file that ends with .wasm"),
        ("core.wasm", &["--fuel", "1"], 2, "there is no option --fuel"),
    ] {
        let output = program(&folder, source, options).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(words), "{told}");
    }
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn it_ends_when_its_requests_have() {
    let mut served = Served::start("end", &[]);
    let (mut stream, mut reader) = begin_echo(&served);
    let _idle = served.connect();
    // SAFETY: the call sends a signal to our own child.
    unsafe { libc::kill(served.child.id() as i32, libc::SIGTERM) };
    until("the end of the socket", || (!served.folder.join("s").exists()).then_some(()));
    stream.write_all(b"3\r\nend\r\n0\r\n\r\n").unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "3\r\nend\r\n0\r\n\r\n");
    let ended = until("the end", || served.child.try_wait().unwrap());
    assert!(ended.success());
}
