//! Our small servers with a planted fault: the program `weir-faulty` of this package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use super::running::RunningServer;
use super::start::{StartError, own_directory, read_log, spawn, wait_until};

/// Launches `weir-faulty FAULT`; `weir-faulty help` lists the faults.
#[derive(Debug, Clone)]
pub struct Faulty {
    args: Vec<String>,
    cpu: Option<usize>,
}

impl Faulty {
    /// The name of the fault, such as `sleep`.
    pub fn new(fault: &str) -> Self {
        Self { args: vec![fault.to_owned()], cpu: None }
    }

    /// Options of the fault, such as `["--ms", "5"]`.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Keeps it on one CPU.
    pub fn pin(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Starts it and waits until it has said its port; no request is sent to it.
    pub fn start(self) -> Result<RunningServer, StartError> {
        let own = own_directory().map_err(StartError::Prepare)?;
        let log = own.path().join("output.log");
        let mut command = Command::new(Self::program());
        command.args(&self.args);
        let mut process = spawn(command, &log, self.cpu, libc::SIGTERM)?;
        let port = wait_until(&mut process, &[&log], || announced_port(&read_log(&log)))?;
        let root = own.path().to_owned();
        let (scheme, more_ports) = ("http", Vec::new());
        Ok(RunningServer { port, more_ports, root, scheme, process, log, _own: own, _site: None })
    }

    /// The path of `weir-faulty`, built first where it is missing or older than its sources: Cargo
    /// builds a dependency's library, but not its programs.
    pub fn program() -> &'static Path {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        PROGRAM.get_or_init(|| {
            let program = beside_this_test().join("weir-faulty");
            let sources = newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
            let built = fs::metadata(&program).and_then(|meta| meta.modified()).ok();
            if built.is_none_or(|built| sources.is_some_and(|sources| sources > built)) {
                build();
            }
            program
        })
    }
}

fn announced_port(output: &str) -> Option<u16> {
    let (_, rest) = output.split_once("listening on 127.0.0.1:")?;
    // Without the end of the line the number may be cut.
    rest.split_once('\n')?.0.parse().ok()
}

/// The directory of built programs: tests lie in its `deps`.
fn beside_this_test() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    let dir = test.parent().unwrap_or(Path::new("."));
    let is_deps = dir.file_name().is_some_and(|name| name == "deps");
    if is_deps { dir.parent().unwrap_or(dir).to_owned() } else { dir.to_owned() }
}

/// When the youngest file below a directory was changed; the sources are two levels deep.
fn newest(dir: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(dir).ok()?;
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok()?;
            if meta.is_dir() { newest(&entry.path()) } else { meta.modified().ok() }
        })
        .max()
}

fn build() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "weir-testkit", "--bin", "weir-faulty"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    // Where it fails, the start that follows says which program is missing.
    if let Err(error) = command.status() {
        eprintln!("weir-faulty could not be built: {error}");
    }
}
