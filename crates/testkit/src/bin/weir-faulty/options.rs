//! Arguments, and the socket that they describe.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Why the program ends.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense.
    Usage(String),
    /// The system refused something.
    Run(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Run(error)
    }
}

/// Arguments that have not been taken yet; what is left at the end is an error.
#[derive(Debug)]
pub(crate) struct Options {
    words: Vec<String>,
    values: Vec<(String, Option<u64>)>,
}

impl Options {
    /// Reads words, `--name NUMBER` and `--name`.
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut options = Self { words: Vec::new(), values: Vec::new() };
        let mut args = args.peekable();
        while let Some(arg) = args.next() {
            match arg.strip_prefix("--") {
                Some("help") | None => options.words.push(arg),
                Some(name) => {
                    let value = args.next_if(|next| !next.starts_with("--"));
                    let number = value.as_ref().map(|text| text.parse()).transpose();
                    let number =
                        number.map_err(|_| Failure::Usage(format!("--{name} takes a number, not `{value:?}`")))?;
                    options.values.push((name.to_owned(), number));
                }
            }
        }
        Ok(options)
    }

    /// The next word that is no option.
    pub(crate) fn word(&mut self, meaning: &str) -> Result<String, Failure> {
        if self.words.is_empty() {
            return Err(Failure::Usage(format!("{meaning} is missing")));
        }
        Ok(self.words.remove(0))
    }

    /// The number of an option, where given.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        match self.take(name) {
            Some(Some(number)) => Ok(Some(number)),
            Some(None) => Err(Failure::Usage(format!("--{name} takes a number"))),
            None => Ok(None),
        }
    }

    /// The milliseconds of an option.
    pub(crate) fn millis(&mut self, name: &str, default: u64) -> Result<Duration, Failure> {
        Ok(Duration::from_millis(self.number(name)?.unwrap_or(default)))
    }

    /// Whether an option without a value is there.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.take(name) {
            Some(Some(_)) => Err(Failure::Usage(format!("--{name} takes no number"))),
            Some(None) => Ok(true),
            None => Ok(false),
        }
    }

    /// Takes the port, refuses what is left over, listens and says where.
    pub(crate) fn listen(mut self) -> Result<TcpListener, Failure> {
        let port = self.number("port")?.unwrap_or(0);
        let port = u16::try_from(port).map_err(|_| Failure::Usage(format!("{port} is no port: at most 65535")))?;
        self.finish()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        // A queue longer than the standard library's, where the queue itself is the fault.
        // SAFETY: the descriptor is open; listen touches no memory of ours.
        if unsafe { libc::listen(listener.as_raw_fd(), 1024) } != 0 {
            return Err(io::Error::last_os_error().into());
        }
        let port = listener.local_addr()?.port();
        let mut out = io::stdout();
        writeln!(out, "listening on 127.0.0.1:{port}")?;
        out.flush()?;
        Ok(listener)
    }

    /// Refuses what is left over.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        let left = self.values.iter().map(|(name, _)| format!("--{name}"));
        match left.chain(self.words.iter().cloned()).next() {
            Some(unknown) => Err(Failure::Usage(format!("`{unknown}` is not known to this fault"))),
            None => Ok(()),
        }
    }

    fn take(&mut self, name: &str) -> Option<Option<u64>> {
        let index = self.values.iter().position(|(known, _)| known == name)?;
        Some(self.values.remove(index).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_numbers_and_flags_are_told_apart() {
        let mut options = parse("hog --cpu 1 --sleep --hogs 2").unwrap();
        assert_eq!(options.word("FAULT").unwrap(), "hog");
        assert_eq!(options.number("cpu").unwrap(), Some(1));
        assert!(options.flag("sleep").unwrap());
        assert_eq!(options.number("hogs").unwrap(), Some(2));
        assert_eq!(options.number("hogs").unwrap(), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(matches!(parse("sleep --ms five"), Err(Failure::Usage(_))));
        assert!(matches!(parse("").unwrap().word("FAULT"), Err(Failure::Usage(_))));
        assert!(matches!(parse("--port 70000").unwrap().listen(), Err(Failure::Usage(_))));
        assert!(matches!(parse("--unknown 1").unwrap().listen(), Err(Failure::Usage(_))));
        assert!(matches!(parse("--cpu").unwrap().number("cpu"), Err(Failure::Usage(_))));
    }
}
