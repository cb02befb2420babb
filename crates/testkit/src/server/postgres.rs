//! PostgreSQL with a data directory of its own.

use std::fs;
use std::path::{Path, PathBuf};

use super::backend::{RunningBackend, RunningDatabase, unprivileged, with_data};
use super::port;
use super::process::run;
use super::start::{StartError, spawn, wait_until};

/// Where Debian keeps one directory for each major version.
const VERSIONS: &str = "/usr/lib/postgresql";
const NEEDED: [&str; 3] = ["initdb", "postgres", "psql"];

/// Launches PostgreSQL: a new cluster in a temporary directory, run by an unprivileged user, on a
/// Unix socket and a port of the loopback interface; it trusts every client.
#[derive(Debug, Clone, Default)]
pub struct Postgres {
    settings: Vec<(String, String)>,
    wal: Option<PathBuf>,
    cpu: Option<usize>,
}

impl Postgres {
    /// With the settings that PostgreSQL has by itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// A setting of `postgresql.conf`, such as `("shared_buffers", "1MB")`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts the write-ahead log into a directory of the caller's, which must be empty and may be
    /// written by the user 65534 (by the caller, who is not root).
    pub fn wal_directory(mut self, dir: impl Into<PathBuf>) -> Self {
        self.wal = Some(dir.into());
        self
    }

    /// Keeps all processes on one CPU.
    pub fn pin(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Creates the cluster, starts it and waits until it answers a statement.
    ///
    /// `address` of the result is a connection string of libpq, as `pg_pconnect` takes it: user
    /// `weir`, database `postgres`.
    pub fn start(self) -> Result<RunningDatabase, StartError> {
        let programs = programs().unwrap_or_else(|| PathBuf::from(VERSIONS));
        let (own, data) = with_data()?;
        let cluster = data.join("cluster");
        let mut initdb = unprivileged(programs.join("initdb"), &data);
        initdb.args(["--no-sync", "--auth=trust", "--username=weir", "--encoding=UTF8", "--locale=C"]);
        if let Some(dir) = &self.wal {
            initdb.arg("--waldir").arg(dir);
        }
        initdb.arg("--pgdata").arg(&cluster);
        run(initdb, "").map_err(StartError::Prepare)?;

        let port = port::free().map_err(StartError::Prepare)?;
        fs::write(cluster.join("postgresql.auto.conf"), self.configuration(port, &data))
            .map_err(StartError::Prepare)?;
        let log = own.path().join("output.log");
        let mut command = unprivileged(programs.join("postgres"), &data);
        command.arg("-D").arg(&cluster);
        // SIGQUIT ends it at once; SIGTERM would wait until its last client has gone.
        let process = spawn(command, &log, self.cpu, libc::SIGQUIT)?;
        let socket = data.join(format!(".s.PGSQL.{port}"));
        let address = format!("host={} port={port} user=weir dbname=postgres", data.display());
        let address_tcp = format!("host=127.0.0.1 port={port} user=weir dbname=postgres");
        let psql = programs.join("psql").to_string_lossy().into_owned();
        let quiet = ["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"].map(str::to_owned);
        let client = [vec![psql], quiet.to_vec(), vec!["-d".to_owned(), address.clone()]].concat();
        let backend = RunningBackend { socket: Some(socket), port: Some(port), process, log: log.clone(), own };
        let mut database = RunningDatabase { backend, address, address_tcp, client };
        wait(&mut database, &log)?;
        Ok(database)
    }

    fn configuration(&self, port: u16, data: &Path) -> String {
        let mut text = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n\
             log_min_messages = warning\n",
            data.display()
        );
        for (name, value) in &self.settings {
            // A quote within quotes is doubled.
            text.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
        }
        text
    }
}

fn wait(database: &mut RunningDatabase, log: &Path) -> Result<(), StartError> {
    let client = database.client.clone();
    let answers = || {
        let (program, args) = client.split_first()?;
        let mut command = std::process::Command::new(program);
        command.args(args);
        run(command, "SELECT 1").ok().map(drop)
    };
    wait_until(&mut database.backend.process, &[log], answers)
}

/// The directory of the newest version's programs.
pub(crate) fn programs() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(VERSIONS)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            NEEDED.iter().all(|program| bin.join(program).exists()).then_some((version, bin))
        })
        .collect();
    versions.sort();
    versions.pop().map(|(_, bin)| bin)
}
