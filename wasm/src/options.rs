//! The command line of `weir-wasm`.

use crate::grants::{Grants, HostGrant};
use crate::limits::Limits;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
const HELP: &str = "\
Answers HTTP requests on a Unix socket by WebAssembly components of wasi:http.

Usage: weir-wasm --socket PATH [OPTIONS] COMPONENT.wasm
       weir-wasm --socket PATH [OPTIONS] DIRECTORY

With a directory, /NAME and /NAME/... are answered by its file NAME.wasm.
Files are read again when they change. Nothing is granted that no option names.

  --socket PATH        where the web server connects to
  --mode MODE          permissions of the socket, octal [default: 600]
  --threads N          threads that run components [default: one per CPU]

Limits of a request:
  --timeout SECONDS    from its arrival to the end of its instance [default: 60]
  --cpu SECONDS        CPU time [default: 10]
  --memory MIB         all memories of its instance [default: 128]
  --table ELEMENTS     each table of its instance [default: 20000]

Limits of all requests:
  --instances N        instances at once, 1 to 4096 [default: 64]
  --queue N            requests that wait for one; more get 503 [default: 1024]

Grants:
  --env NAME=VALUE     an environment variable
  --dir PATH           a directory, for reading, by the same name
  --dir-write PATH     a directory, for reading and writing
  --allow-host HOST[:PORT]  requests to this host; without PORT at 80 and 443

  --help, --version
";

/// Most instances at once: each reserves 16 GiB of the 128 TiB of addresses.
const INSTANCES_MAX: u64 = 4096;

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// To serve.
    Serve(Box<Options>),
    /// To print a text.
    Text(String),
}

/// How to serve.
#[derive(Debug)]
pub(crate) struct Options {
    /// The Unix socket to listen on.
    pub(crate) socket: PathBuf,
    /// Its permissions.
    pub(crate) mode: u32,
    /// Threads that run components.
    pub(crate) threads: usize,
    /// A component, or a directory of components.
    pub(crate) source: PathBuf,
    /// Bounds of requests.
    pub(crate) limits: Limits,
    /// What components may use.
    pub(crate) grants: Grants,
}

/// A mistake in the command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionError {
    /// There is no option of this name.
    #[error("there is no option {0}")]
    Unknown(String),
    /// An option stands last, without its value.
    #[error("{0} needs a value behind it")]
    NoValue(String),
    /// A value is not what its option takes.
    #[error("{option} takes {takes}, not {value:?}")]
    Value {
        /// The option.
        option: String,
        /// What it takes.
        takes: &'static str,
        /// What stands there.
        value: String,
    },
    /// The socket is missing.
    #[error("--socket PATH is missing: where the web server connects to")]
    NoSocket,
    /// The component is missing.
    #[error("name a component (FILE.wasm) or a directory of components")]
    NoSource,
    /// Two components are named.
    #[error("name one component or one directory; {0} is a second one")]
    TwoSources(String),
}

impl Options {
    /// Reads the arguments behind the program's name.
    pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Asked, OptionError> {
        let (mut socket, mut source) = (None, None);
        let mut options = Self {
            socket: PathBuf::new(),
            mode: 0o600,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            source: PathBuf::new(),
            limits: Limits::default(),
            grants: Grants::default(),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let text = argument.to_string_lossy().into_owned();
            match text.as_str() {
                "--help" | "-h" => return Ok(Asked::Text(HELP.to_owned())),
                "--version" | "-V" => {
                    return Ok(Asked::Text(format!("weir-wasm {}\n", env!("CARGO_PKG_VERSION"))));
                }
                option if option.starts_with("--") => {
                    let value = arguments.next().ok_or_else(|| OptionError::NoValue(option.to_owned()))?;
                    if option == "--socket" {
                        socket = Some(PathBuf::from(value));
                    } else {
                        options.set(option, &value)?;
                    }
                }
                _ if source.is_some() => return Err(OptionError::TwoSources(text)),
                _ => source = Some(PathBuf::from(argument)),
            }
        }
        options.socket = socket.ok_or(OptionError::NoSocket)?;
        options.source = source.ok_or(OptionError::NoSource)?;
        Ok(Asked::Serve(Box::new(options)))
    }

    fn set(&mut self, option: &str, value: &OsString) -> Result<(), OptionError> {
        let text = value.to_string_lossy();
        let given = Given { option, text: &text };
        match option {
            "--mode" => {
                let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
                self.mode = mode.ok_or_else(|| given.refused("an octal number up to 777"))?;
            }
            "--threads" => self.threads = given.number(1..=1024, "a number of threads, 1 to 1024")? as usize,
            "--timeout" => self.limits.timeout = given.seconds()?,
            "--cpu" => self.limits.cpu = given.seconds()?,
            "--memory" => {
                self.limits.memory_bytes = (given.number(1..=4096, "MiB, 1 to 4096")? as usize) << 20;
            }
            "--table" => {
                self.limits.table_elements = given.number(1..=10_000_000, "elements, 1 to 10000000")? as usize;
            }
            "--instances" => {
                self.limits.instances = given.number(1..=INSTANCES_MAX, "a number from 1 to 4096")? as u32;
            }
            "--queue" => self.limits.queue = given.number(0..=1_000_000, "a number up to 1000000")? as u32,
            "--env" => {
                let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
                let (name, value) = pair.ok_or_else(|| given.refused("NAME=VALUE"))?;
                self.grants.env.push((name.to_owned(), value.to_owned()));
            }
            "--dir" | "--dir-write" => {
                let name = value.to_str().ok_or_else(|| given.refused("a path in UTF-8"))?;
                if !std::fs::metadata(name).is_ok_and(|metadata| metadata.is_dir()) {
                    return Err(given.refused("a directory that is there"));
                }
                self.grants.directories.push((name.to_owned(), option == "--dir-write"));
            }
            "--allow-host" => {
                let host = HostGrant::parse(&text).ok_or_else(|| given.refused("HOST or HOST:PORT"))?;
                self.grants.hosts.push(host);
            }
            _ => return Err(OptionError::Unknown(option.to_owned())),
        }
        Ok(())
    }
}

/// An option and the text behind it.
struct Given<'a> {
    option: &'a str,
    text: &'a str,
}

impl Given<'_> {
    fn refused(&self, takes: &'static str) -> OptionError {
        OptionError::Value { option: self.option.to_owned(), takes, value: self.text.to_owned() }
    }

    fn number(&self, range: std::ops::RangeInclusive<u64>, takes: &'static str) -> Result<u64, OptionError> {
        self.text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| self.refused(takes))
    }

    fn seconds(&self) -> Result<Duration, OptionError> {
        let seconds = self.text.parse().ok().filter(|seconds: &f64| (0.001..=86_400.0).contains(seconds));
        seconds.map(Duration::from_secs_f64).ok_or_else(|| self.refused("seconds, 0.001 to 86400"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Asked, OptionError> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_become_limits_and_grants() {
        let line = "--socket a.sock --cpu 0.5 --memory 32 --env A=b=c --allow-host example.org:8080 app.wasm";
        let Ok(Asked::Serve(options)) = parse(line) else { panic!("{line} is refused") };
        assert_eq!(options.limits.cpu, Duration::from_millis(500));
        assert_eq!(options.limits.memory_bytes, 32 << 20);
        assert_eq!(options.grants.env, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(options.mode, 0o600);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            ("app.wasm", "--socket PATH is missing"),
            ("--socket a", "name a component"),
            ("--socket a --cpu 0 b", "seconds"),
            ("--socket a --memory 9999999 b", "MiB"),
            ("--socket a --mode 999 b", "octal"),
            ("--socket a --env =x b", "NAME=VALUE"),
            ("--socket a --dir /nowhere/at/all b", "a directory that is there"),
            ("--socket a --fuel 3 b", "no option --fuel"),
            ("--socket a b c", "c is a second one"),
            ("--socket", "needs a value"),
        ] {
            let error = parse(line).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(words), "{line}: {error:?}");
        }
    }

    #[test]
    fn help_fits_a_terminal() {
        assert!(HELP.lines().all(|line| line.len() <= 80));
    }
}
