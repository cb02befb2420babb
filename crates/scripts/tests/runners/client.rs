//! A supervisor with one pool, and a client of FastCGI that is not the server's.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use weir_scripts::{Pool, ToServer, ToSupervisor, Wanted, Way};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A supervisor with one pool.
pub(crate) struct Stand {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) pool: Pool,
    supervisor: Child,
    link: Option<UnixStream>,
    said: BufReader<UnixStream>,
}

/// A response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) output: Vec<u8>,
    pub(crate) log: String,
    /// The status of its end; none if the connection ended instead.
    pub(crate) end: Option<u32>,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// What the head says of the status, and what stands behind it.
    #[track_caller]
    pub(crate) fn is_refusal(&self, status: u16) {
        assert!(self.text().starts_with(&format!("Status: {status} ")), "{status}: {self:?}");
        assert_eq!(self.end, Some(0), "{self:?}");
    }
}

impl Stand {
    pub(crate) fn new(way: Way, change: impl FnOnce(&mut Pool)) -> Self {
        Self::begun(way, change, |program, _| Command::new(program))
    }

    /// With a supervisor that `command` starts, which knows its program and the folder of the stand.
    pub(crate) fn begun(
        way: Way,
        change: impl FnOnce(&mut Pool),
        command: impl FnOnce(&Path, &Path) -> Command,
    ) -> Self {
        let folder =
            tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().expect("a directory");
        let root = folder.path().join("scripts");
        fs::create_dir(&root).expect("creates");
        let mut pool = Pool { way, root, socket: folder.path().join("pool.sock"), workers: 2, ..Pool::default() };
        change(&mut pool);
        let (link, of_supervisor) = UnixStream::pair().expect("a pair");
        let program = std::env::current_exe().expect("this program");
        let program = program.parent().and_then(Path::parent).expect("its folders").join("examples/supervise");
        let supervisor =
            command(&program, folder.path()).stdin(OwnedFd::from(of_supervisor)).spawn().expect("the supervisor");
        let begin = ToSupervisor::Begin(Box::new(Wanted { user: None, pools: vec![pool.clone()] }));
        let mut line = serde_json::to_vec(&begin).expect("JSON");
        line.push(b'\n');
        (&link).write_all(&line).expect("is told");
        link.set_read_timeout(Some(PATIENCE)).expect("a time");
        let said = BufReader::new(link.try_clone().expect("the same"));
        let mut stand = Self { folder, pool, supervisor, link: Some(link), said };
        loop {
            match stand.hear() {
                ToServer::Ready => break,
                ToServer::Failed(why) => panic!("{why}"),
                _ => {}
            }
        }
        stand
    }

    /// What the supervisor says next.
    pub(crate) fn hear(&mut self) -> ToServer {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    pub(crate) fn supervisor(&self) -> u32 {
        self.supervisor.id()
    }

    /// Writes a script.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.pool.root.join(name);
        // A script that is open for writing in any process cannot be run, and tests beside this one fork: so it is
        // written by a process of its own.
        let mut cp =
            Command::new("cp").args(["/dev/stdin"]).arg(&path).stdin(std::process::Stdio::piped()).spawn().expect("cp");
        cp.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("is written");
        assert!(cp.wait().expect("ends").success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("is allowed");
        path
    }

    pub(crate) fn connect(&self) -> Connection {
        let socket = UnixStream::connect(&self.pool.socket).expect("connects");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        Connection(socket)
    }

    /// One request over a connection of its own.
    pub(crate) fn ask(&self, script: &str, variables: &[(&str, &str)], body: &[u8]) -> Response {
        self.connect().ask(&self.pool.root.join(script), variables, body)
    }

    /// Processes of scripts that run, by their command lines.
    pub(crate) fn processes(&self) -> Vec<String> {
        let of = self.folder.path().to_string_lossy().into_owned();
        command_lines().into_iter().filter(|(_, line)| line.contains(&of)).map(|(_, line)| line).collect()
    }

    /// The process that runs a script.
    pub(crate) fn process_of(&self, script: &Path) -> Option<u32> {
        let name = script.to_string_lossy().into_owned();
        command_lines().into_iter().find(|(_, line)| line.contains(&name)).map(|(pid, _)| pid)
    }

    /// The processes of the runners.
    pub(crate) fn runners(&self) -> Vec<u32> {
        let of = self.supervisor.id().to_string();
        let is_child = |pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(of.as_str())
        };
        command_lines().into_iter().map(|(pid, _)| pid).filter(is_child).collect()
    }

    /// Waits until a process of this stand's scripts runs.
    #[track_caller]
    pub(crate) fn has_begun(&self) {
        let until = Instant::now() + PATIENCE;
        while self.processes().is_empty() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until no process of this stand's scripts runs.
    #[track_caller]
    pub(crate) fn is_alone(&self) {
        let until = Instant::now() + PATIENCE;
        while !self.processes().is_empty() {
            assert!(Instant::now() < until, "{:?}", self.processes());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            let _ = link.shutdown(std::net::Shutdown::Both);
        }
        let _ = self.supervisor.wait();
    }
}

/// All processes with their command lines.
fn command_lines() -> Vec<(u32, String)> {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let lines = numbers.filter_map(|pid| Some((pid, fs::read(format!("/proc/{pid}/cmdline")).ok()?)));
    lines.map(|(pid, line)| (pid, String::from_utf8_lossy(&line).replace('\0', " "))).collect()
}

/// A connection to a runner.
pub(crate) struct Connection(pub(crate) UnixStream);

impl Connection {
    pub(crate) fn ask(&mut self, script: &Path, variables: &[(&str, &str)], body: &[u8]) -> Response {
        self.send(script, variables, body);
        self.receive()
    }

    pub(crate) fn send(&mut self, script: &Path, variables: &[(&str, &str)], body: &[u8]) {
        let mut records = begin(script, variables, body.len());
        for piece in body.chunks(60_000) {
            record(5, piece, &mut records);
        }
        record(5, b"", &mut records);
        self.0.write_all(&records).expect("is sent");
    }

    pub(crate) fn receive(&mut self) -> Response {
        let mut response = Response::default();
        loop {
            let mut head = [0; 8];
            if self.0.read_exact(&mut head).is_err() {
                return response;
            }
            let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
            let mut content = vec![0; length + usize::from(head[6])];
            self.0.read_exact(&mut content).expect("a whole record");
            content.truncate(length);
            match head[1] {
                6 => response.output.extend_from_slice(&content),
                7 => response.log.push_str(&String::from_utf8_lossy(&content)),
                3 => {
                    response.end = Some(u32::from_be_bytes([content[0], content[1], content[2], content[3]]));
                    return response;
                }
                other => panic!("a record of kind {other}"),
            }
        }
    }
}

/// The start of a request: all but its body.
pub(crate) fn begin(script: &Path, variables: &[(&str, &str)], length: usize) -> Vec<u8> {
    let (script, length) = (script.to_string_lossy().into_owned(), length.to_string());
    let mut all = HashMap::from([
        ("SCRIPT_FILENAME", script.as_str()),
        ("REQUEST_METHOD", if length == "0" { "GET" } else { "POST" }),
        ("REQUEST_URI", "/x"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
    ]);
    if length != "0" {
        all.insert("CONTENT_LENGTH", &length);
    }
    all.extend(variables.iter().copied());
    let mut pairs = Vec::new();
    for (name, value) in all {
        for length in [name.len(), value.len()] {
            pairs.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes());
        }
        pairs.extend_from_slice(name.as_bytes());
        pairs.extend_from_slice(value.as_bytes());
    }
    let mut records = Vec::new();
    record(1, &[0, 1, 1, 0, 0, 0, 0, 0], &mut records);
    for piece in pairs.chunks(60_000) {
        record(4, piece, &mut records);
    }
    record(4, b"", &mut records);
    records
}

pub(crate) fn record(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    let [high, low] = (content.len() as u16).to_be_bytes();
    out.extend_from_slice(&[1, kind, 0, 1, high, low, 0, 0]);
    out.extend_from_slice(content);
}
