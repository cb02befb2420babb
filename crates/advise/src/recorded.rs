//! What a run's manifest tells of how it was made: the load, and the server that it named.

use std::path::Path;
use weir_trace::{Entry, RunReader};

/// How a run was made.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Recorded {
    /// What was loaded; a query is redacted in it.
    pub(crate) url: Option<String>,
    /// Ports that the server was named by.
    pub(crate) ports: Vec<u16>,
    /// Processes that it was named by.
    pub(crate) pids: Vec<u32>,
    /// Names that it was named by.
    pub(crate) comms: Vec<String>,
    /// Connections of the load.
    pub(crate) connections: Option<u32>,
    /// The load's method, where it was said.
    pub(crate) method: Option<String>,
    /// The load itself made a connection for each request.
    pub(crate) no_keep_alive: bool,
    /// The server was started by this command.
    pub(crate) command: Vec<String>,
    /// CPUs of the host; at least one.
    pub(crate) cpus: u32,
    /// It was recorded on this host since its start.
    pub(crate) here: bool,
}

impl Recorded {
    /// Reads a run's manifest.
    pub(crate) fn of(run: &Path) -> anyhow::Result<Self> {
        let reader = RunReader::open(run)?;
        let this = weir_trace::Host::this();
        let mut recorded = Self { cpus: this.cpus.max(1), here: true, ..Self::default() };
        for entry in &reader.entries {
            if let Entry::Source { command, host, .. } = entry {
                recorded.cpus = host.cpus.max(1);
                recorded.here = host.boot_id == this.boot_id && host.machine_id == this.machine_id;
                recorded.command_line(command);
            }
        }
        Ok(recorded)
    }

    fn command_line(&mut self, words: &[String]) {
        let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
        if let Some(command) = words.get(own + 1..).filter(|command| !command.is_empty()) {
            self.command = command.to_vec();
        }
        for (at, word) in words[..own].iter().enumerate() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value)),
                _ => (word.as_str(), words[..own].get(at + 1).map(String::as_str)),
            };
            let value = value.unwrap_or_default();
            match name {
                "--port" => self.ports.extend(value.parse::<u16>().ok()),
                "--pid" => self.pids.extend(value.parse::<u32>().ok()),
                "--comm" => self.comms.push(value.to_owned()),
                "-c" | "--connections" => self.connections = value.parse().ok().or(self.connections),
                "-m" | "--method" => self.method = Some(value.to_owned()),
                "--no-keepalive" => self.no_keep_alive = true,
                _ => {
                    if let Some(attached) = word.strip_prefix("-c").and_then(|rest| rest.parse().ok()) {
                        self.connections = Some(attached);
                    } else if word.contains("://") && !word.starts_with('-') {
                        self.url = Some(word.clone());
                    }
                }
            }
        }
        self.ports.sort_unstable();
        self.ports.dedup();
    }

    /// The port that was loaded.
    pub(crate) fn loaded_port(&self) -> Option<u16> {
        weir_load::Url::parse(self.url.as_deref()?).ok().map(|url| url.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_tells_how_the_run_was_made() {
        let mut recorded = Recorded::default();
        let line = "weir explain --load http://h:8080/x?(redacted) --port=8080 --port 9000 -c50 --no-keepalive -- nginx -c a -p 3";
        recorded.command_line(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(recorded.ports, [8080, 9000]);
        assert_eq!(
            (recorded.connections, recorded.loaded_port(), recorded.no_keep_alive),
            (Some(50), Some(8080), true)
        );
        assert_eq!(recorded.command, ["nginx", "-c", "a", "-p", "3"]);
    }
}
