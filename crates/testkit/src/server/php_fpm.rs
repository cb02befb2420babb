//! Debian's php-fpm with a configuration of its own.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::backend::RunningBackend;
use super::port;
use super::start::{StartError, UNPRIVILEGED, is_root, own_directory, read_log, spawn, wait_until};

/// Where Debian keeps PHP's extensions, below the number of their interface.
const EXTENSIONS: &str = "/usr/lib/php";

/// Launches php-fpm: one pool of a fixed number of processes, none of /etc/php is read.
#[derive(Debug, Clone)]
pub struct PhpFpm {
    processes: u32,
    tcp: bool,
    opcache: bool,
    environment: Vec<(String, String)>,
    global: Vec<(String, String)>,
    pool: Vec<(String, String)>,
    ini: Vec<(String, String)>,
    own: Vec<(&'static str, PathBuf)>,
    cpu: Option<usize>,
}

impl Default for PhpFpm {
    fn default() -> Self {
        Self::new()
    }
}

impl PhpFpm {
    /// Four processes on a Unix socket, with opcache.
    pub fn new() -> Self {
        Self {
            processes: 4,
            tcp: false,
            opcache: true,
            environment: Vec::new(),
            global: Vec::new(),
            pool: Vec::new(),
            ini: Vec::new(),
            own: Vec::new(),
            cpu: None,
        }
    }

    /// The number of processes in the pool (`pm = static`).
    pub fn processes(mut self, processes: u32) -> Self {
        self.processes = processes.max(1);
        self
    }

    /// Listens on a port of the loopback interface instead of a Unix socket.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Whether compiled pages are kept; they are unless told otherwise.
    pub fn opcache(mut self, opcache: bool) -> Self {
        self.opcache = opcache;
        self
    }

    /// A variable that the pages read with `getenv`, such as a database's address.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A line of the configuration that is none of the pool's, such as `("process_control_timeout", "10")`.
    pub fn global_setting(mut self, name: &str, value: &str) -> Self {
        self.global.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A line of the pool's configuration, such as `("listen.backlog", "16")`.
    pub fn pool_setting(mut self, name: &str, value: &str) -> Self {
        self.pool.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A line of php.ini, such as `("memory_limit", "64M")`.
    pub fn ini(mut self, name: &str, value: &str) -> Self {
        self.ini.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a variable of the server's own environment, such as where it looks for libraries; pages do not see it.
    pub fn environment(mut self, name: &'static str, value: &Path) -> Self {
        self.own.push((name, value.to_owned()));
        self
    }

    /// Keeps all processes on one CPU.
    pub fn pin(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Starts it and waits until it takes connections.
    pub fn start(self) -> Result<RunningBackend, StartError> {
        let own = own_directory().map_err(StartError::Prepare)?;
        let dir = own.path();
        let (socket, port) = if self.tcp {
            (None, Some(port::free().map_err(StartError::Prepare)?))
        } else {
            (Some(dir.join("php-fpm.sock")), None)
        };
        let listen = match (&socket, port) {
            (Some(socket), _) => socket.display().to_string(),
            (None, port) => format!("127.0.0.1:{}", port.unwrap_or_default()),
        };
        fs::write(dir.join("php-fpm.conf"), self.configuration(dir, &listen)).map_err(StartError::Prepare)?;
        fs::write(dir.join("php.ini"), self.php_ini()).map_err(StartError::Prepare)?;

        let (log, output) = (dir.join("error.log"), dir.join("output.log"));
        let mut command = Command::new(program().unwrap_or_else(|| PathBuf::from("php-fpm")));
        command.arg("--nodaemonize").arg("--fpm-config").arg(dir.join("php-fpm.conf"));
        // The empty variable keeps it from /etc/php/VERSION/fpm/conf.d.
        command.arg("-c").arg(dir.join("php.ini")).env("PHP_INI_SCAN_DIR", "");
        command.envs(self.own.iter().map(|(name, value)| (name, value)));
        let mut process = spawn(command, &output, self.cpu, libc::SIGTERM)?;
        wait_until(&mut process, &[&output, &log], || {
            let connects = match (&socket, port) {
                (Some(socket), _) => UnixStream::connect(socket).is_ok(),
                (None, port) => TcpStream::connect((Ipv4Addr::LOCALHOST, port.unwrap_or_default())).is_ok(),
            };
            // The socket is there before the processes that serve it.
            (connects && read_log(&log).contains("ready to handle connections")).then_some(())
        })?;
        Ok(RunningBackend { socket, port, process, log, own })
    }

    fn configuration(&self, dir: &Path, listen: &str) -> String {
        let (dir, processes) = (dir.display(), self.processes);
        let global: String = self.global.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        let mut text = format!(
            "[global]\nerror_log = {dir}/error.log\npid = {dir}/php-fpm.pid\nlog_level = notice\n{global}\n\
             [www]\nlisten = {listen}\npm = static\npm.max_children = {processes}\n\
             catch_workers_output = yes\nclear_env = yes\n"
        );
        if is_root() {
            // The group's name, unlike the user's, differs between systems: numbers are the same.
            let _ = writeln!(text, "user = {UNPRIVILEGED}\ngroup = {UNPRIVILEGED}\nlisten.mode = 0666");
        }
        for (name, value) in &self.environment {
            let _ = writeln!(text, "env[{name}] = \"{value}\"");
        }
        for (name, value) in &self.pool {
            let _ = writeln!(text, "{name} = {value}");
        }
        text
    }

    fn php_ini(&self) -> String {
        let mut text = String::from("display_errors = 1\nhtml_errors = 0\nlog_errors = 1\n");
        // In the order of what needs what.
        for name in ["mysqlnd", "pgsql", "pdo", "mysqli", "pdo_pgsql", "pdo_mysql"] {
            if extension(name).is_some() {
                let _ = writeln!(text, "extension={name}");
            }
        }
        if self.opcache && extension("opcache").is_some() {
            // Pages are not looked at again: no stat in the request.
            text.push_str("zend_extension=opcache\nopcache.enable=1\nopcache.validate_timestamps=0\n");
        }
        for (name, value) in &self.ini {
            let _ = writeln!(text, "{name} = {value}");
        }
        text
    }
}

/// The newest php-fpm that is installed.
pub(crate) fn program() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/sbin")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm")))
        .collect();
    found.sort();
    found.pop()
}

/// The file of an extension, such as `pgsql`.
pub(crate) fn extension(name: &str) -> Option<PathBuf> {
    let interfaces = fs::read_dir(EXTENSIONS).ok()?;
    interfaces.filter_map(|entry| Some(entry.ok()?.path().join(format!("{name}.so")))).find(|path| path.exists())
}
