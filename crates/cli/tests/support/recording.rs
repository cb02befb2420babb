//! A recording in a process of its own whose probes are attached: how long that takes depends on the machine.

use super::weir;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

/// The recording, and the thread that reads what it says.
pub(crate) struct Recording {
    pub(crate) child: Child,
    reading: JoinHandle<String>,
}

/// Starts `weir record` with these arguments, and waits until all its probes are attached.
pub(crate) fn attached(arguments: &[&str]) -> Recording {
    let mut command = weir();
    command.arg("record").args(arguments);
    begun(command)
}

/// Starts a command that records, and waits until all its probes are attached.
pub(crate) fn begun(mut command: Command) -> Recording {
    command.env("WEIR_LOG", "weir_capture=debug").stderr(Stdio::piped());
    let mut child = command.spawn().expect("the recording starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut said = Vec::new();
    let is_attached = lines.by_ref().any(|line| {
        let is_it = line.contains("all attached");
        said.push(line);
        is_it
    });
    assert!(is_attached, "the probes are not attached: {said:?}");
    // Unread, a full pipe would hold the recording up.
    let reading = std::thread::spawn(move || said.into_iter().chain(lines).collect::<Vec<_>>().join("\n"));
    Recording { child, reading }
}

impl Recording {
    /// Waits for its end; how it ended, and what it said on standard error.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("the recording ends");
        (status, self.reading.join().expect("it is read"))
    }
}
