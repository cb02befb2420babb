//! `weir serve` in a folder of the test's own, with what it says on standard error.

use super::planted::wait_for;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use weir_testkit::client::Connection;
use weir_testkit::free_port;

/// It ends with the test.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) port: u16,
    pub(crate) said: Receiver<String>,
}

impl Served {
    pub(crate) fn start(folder: &Path, args: &[&str], what: impl AsRef<Path>) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_weir")), folder, args, what)
    }

    /// The same with variables of its environment.
    pub(crate) fn start_with(folder: &Path, variables: &[(&str, &str)], args: &[&str], what: impl AsRef<Path>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.envs(variables.iter().copied());
        Self::start_by(command, folder, args, what)
    }

    /// The same by a command that ends with the program, such as one that makes a namespace for it.
    pub(crate) fn start_by(mut command: Command, folder: &Path, args: &[&str], what: impl AsRef<Path>) -> Self {
        let port = free_port();
        let mut child = command
            .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(args)
            .arg(what.as_ref())
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (sender, said) = channel();
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let served = Self { child, port, said };
        wait_for(|| Connection::open(port).ok());
        // The socket at which it tells of itself is opened after those of clients.
        let admin = args.windows(2).find(|pair| pair[0] == "--admin").and_then(|pair| pair[1].strip_prefix("unix:"));
        if let Some(path) = admin {
            wait_for(|| UnixStream::connect(folder.join(path)).ok());
        }
        served
    }

    /// The next line with such words in it.
    pub(crate) fn says(&self, words: &str) -> String {
        loop {
            let line =
                self.said.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("no word of {words:?}"));
            eprintln!("{line}");
            if line.contains(words) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the call takes no pointers.
        assert_eq!(unsafe { libc::kill(self.child.id().cast_signed(), signal) }, 0);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
