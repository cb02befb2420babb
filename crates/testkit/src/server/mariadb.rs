//! MariaDB with a data directory of its own.

use std::path::Path;
use std::process::Command;

use super::backend::{RunningBackend, RunningDatabase, unprivileged, with_data};
use super::port;
use super::process::run;
use super::start::{StartError, is_root, spawn, wait_until};

/// The server's program.
pub(crate) const PROGRAM: &str = "/usr/sbin/mariadbd";
/// What creates the system tables.
pub(crate) const INSTALL: &str = "/usr/bin/mariadb-install-db";
/// The command-line client.
pub(crate) const CLIENT: &str = "/usr/bin/mariadb";

/// Launches MariaDB: new data in a temporary directory, run by an unprivileged user, on a Unix
/// socket and a port of the loopback interface; `root` connects without a password.
#[derive(Debug, Clone, Default)]
pub struct MariaDb {
    settings: Vec<(String, String)>,
    cpu: Option<usize>,
}

impl MariaDb {
    /// With the settings that MariaDB has by itself; no file of /etc is read.
    pub fn new() -> Self {
        Self::default()
    }

    /// An option of the server, such as `("max_connections", "20")`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps all threads on one CPU.
    pub fn pin(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Creates the system tables and a database `weir`, starts it and waits until it answers.
    ///
    /// `address` of the result is the Unix socket's path and `address_tcp` is `127.0.0.1:PORT`, as
    /// `mysqli_connect` takes them in its parts.
    pub fn start(self) -> Result<RunningDatabase, StartError> {
        let (own, home) = with_data()?;
        let data = home.join("tables");
        let mut install = unprivileged(INSTALL, &home);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.arg("--skip-name-resolve").arg(format!("--datadir={}", data.display()));
        if is_root() {
            // It would change to the user mysql.
            install.arg("--user=nobody");
        }
        run(install, "").map_err(StartError::Prepare)?;

        let port = port::free().map_err(StartError::Prepare)?;
        let socket = home.join("mariadb.sock");
        let log = own.path().join("output.log");
        let process = spawn(self.command(port, &home, &data, &socket), &log, self.cpu, libc::SIGTERM)?;
        let client = [
            CLIENT.to_owned(),
            "--no-defaults".to_owned(),
            "--user=root".to_owned(),
            format!("--socket={}", socket.display()),
            "--batch".to_owned(),
            "--skip-column-names".to_owned(),
        ];
        let backend = RunningBackend { socket: Some(socket.clone()), port: Some(port), process, log: log.clone(), own };
        let address = socket.display().to_string();
        let address_tcp = format!("127.0.0.1:{port}");
        let mut database = RunningDatabase { backend, address, address_tcp, client: client.to_vec() };
        let ask = || {
            let mut command = Command::new(CLIENT);
            command.args(&client[1..]);
            run(command, "CREATE DATABASE IF NOT EXISTS weir").ok().map(drop)
        };
        wait_until(&mut database.backend.process, &[&log], ask)?;
        database.client.push("--database=weir".to_owned());
        Ok(database)
    }

    fn command(&self, port: u16, home: &Path, data: &Path, socket: &Path) -> Command {
        let mut command = unprivileged(PROGRAM, home);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--port={port}"))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--pid-file={}/mariadb.pid", home.display()))
            .arg(format!("--tmpdir={}", home.display()))
            .arg("--skip-name-resolve");
        command.args(self.settings.iter().map(|(name, value)| format!("--{}={value}", name.replace('_', "-"))));
        command
    }
}
