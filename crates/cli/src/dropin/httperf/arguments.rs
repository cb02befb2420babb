//! The command line of httperf: long options that may be shortened while they stay unique, and a few short ones.

use crate::dropin::getopt::atoi;

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    /// Behind an equals sign only.
    Optional,
    Needed,
}

/// All options of httperf 0.9.
const OPTIONS: [(&str, Value); 51] = [
    ("add-header", Value::Needed),
    ("add-header-file", Value::Needed),
    ("burst-length", Value::Needed),
    ("client", Value::Needed),
    ("close-with-reset", Value::None),
    ("debug", Value::Needed),
    ("failure-status", Value::Needed),
    ("help", Value::None),
    ("hog", Value::None),
    ("http-version", Value::Needed),
    ("max-connections", Value::Needed),
    ("max-piped-calls", Value::Needed),
    ("method", Value::Needed),
    ("myaddr", Value::Needed),
    ("no-host-hdr", Value::None),
    ("num-calls", Value::Needed),
    ("num-conns", Value::Needed),
    ("period", Value::Needed),
    ("periodic-stats", Value::None),
    ("port", Value::Needed),
    ("print-reply", Value::Optional),
    ("print-request", Value::Optional),
    ("rate", Value::Needed),
    ("recv-buffer", Value::Needed),
    ("retry-on-failure", Value::None),
    ("runtime", Value::Needed),
    ("send-buffer", Value::Needed),
    ("server", Value::Needed),
    ("server-name", Value::Needed),
    ("servers", Value::Needed),
    ("session-cookie", Value::None),
    ("session-cookies", Value::None),
    ("ssl", Value::None),
    ("ssl-ca-file", Value::Needed),
    ("ssl-ca-path", Value::Needed),
    ("ssl-certificate", Value::Needed),
    ("ssl-ciphers", Value::Needed),
    ("ssl-key", Value::Needed),
    ("ssl-no-reuse", Value::None),
    ("ssl-protocol", Value::Needed),
    ("ssl-verify", Value::Optional),
    ("think-timeout", Value::Needed),
    ("timeout", Value::Needed),
    ("tls-server-name", Value::Needed),
    ("uri", Value::Needed),
    ("use-timer-cache", Value::None),
    ("verbose", Value::None),
    ("version", Value::None),
    ("wlog", Value::Needed),
    ("wsess", Value::Needed),
    ("wset", Value::Needed),
];

/// Options that ask for what is not there, with what that is; any other is honoured.
const REFUSED: [(&str, &str); 20] = [
    ("add-header-file", "headers from a file"),
    ("close-with-reset", "closing by a reset"),
    ("failure-status", "sessions"),
    ("max-connections", "sessions"),
    ("max-piped-calls", "sessions"),
    ("periodic-stats", "statistics on the way"),
    ("print-reply", "printing replies"),
    ("print-request", "printing requests"),
    ("retry-on-failure", "sessions"),
    ("runtime", "a limit to the time"),
    ("servers", "several servers"),
    ("session-cookie", "sessions"),
    ("session-cookies", "sessions"),
    ("ssl-ca-path", "a directory of certificate authorities"),
    ("wlog", "a list of URIs from a file"),
    ("wsess", "sessions"),
    ("wsesslog", "sessions"),
    ("wsesspage", "sessions"),
    ("wset", "a set of URIs"),
    ("burst-length", "pipelined calls"),
];

/// The times between connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Period {
    /// One after the other.
    Sequential,
    /// So many a second.
    Fixed(f64),
    /// At random with this mean rate.
    Exponential(f64),
}

/// What httperf was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arguments {
    pub(super) server: String,
    pub(super) server_name: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) uri: String,
    pub(super) source: Option<String>,
    pub(super) http_version: String,
    pub(super) method: String,
    pub(super) headers: Vec<u8>,
    pub(super) no_host: bool,
    pub(super) connections: u64,
    pub(super) calls: u64,
    pub(super) period: Period,
    pub(super) timeout_s: f64,
    pub(super) think_timeout_s: f64,
    pub(super) client: (u32, u32),
    pub(super) send_buffer: u32,
    pub(super) recv_buffer: u32,
    /// Whether one of the two was given.
    pub(super) buffers: bool,
    pub(super) hog: bool,
    pub(super) ssl: bool,
    pub(super) tls: Tls,
    pub(super) verbose: u32,
}

/// The options of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) name: Option<String>,
    pub(super) ciphers: Vec<String>,
    pub(super) no_reuse: bool,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    pub(super) authorities: Option<String>,
    pub(super) verify: bool,
    pub(super) protocol: Option<String>,
}

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Asked {
    /// A run.
    Run(Box<Arguments>),
    Help,
    Version,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            server: "localhost".to_owned(),
            server_name: None,
            port: None,
            uri: "/".to_owned(),
            source: None,
            http_version: "1.1".to_owned(),
            method: "GET".to_owned(),
            headers: Vec::new(),
            no_host: false,
            connections: 1,
            calls: 1,
            period: Period::Sequential,
            timeout_s: 0.0,
            think_timeout_s: 0.0,
            client: (0, 1),
            send_buffer: 4096,
            recv_buffer: 16384,
            buffers: false,
            hog: false,
            ssl: false,
            tls: Tls::default(),
            verbose: 0,
        }
    }
}

/// Reads the words behind the program's name; the error says what is wrong.
pub(super) fn parse(words: &[String]) -> Result<Asked, String> {
    let mut arguments = Arguments::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(long) = word.strip_prefix("--") else {
            match word.strip_prefix('-') {
                Some(letters) if !letters.is_empty() => {
                    if let Some(asked) = arguments.short(letters, &mut words)? {
                        return Ok(asked);
                    }
                    continue;
                }
                _ => return Err(format!("{word}: httperf takes options only")),
            }
        };
        let (given, behind) = match long.split_once('=') {
            Some((given, value)) => (given, Some(value.to_owned())),
            None => (long, None),
        };
        let (name, kind) = find(given)?;
        let value = match (kind, behind) {
            (Value::None, Some(_)) => return Err(format!("--{name}: no value belongs to it")),
            (Value::Needed, None) => {
                Some(words.next().cloned().ok_or_else(|| format!("--{name}: a value is missing"))?)
            }
            (_, behind) => behind,
        };
        if let Some((_, what)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            // A burst of one call is no pipeline.
            if name != "burst-length" || value.as_deref().map(atoi) != Some(1) {
                return Err(format!("--{name}: {what}: not there yet; leave the option out"));
            }
        }
        match name {
            "help" => return Ok(Asked::Help),
            "version" => return Ok(Asked::Version),
            _ => arguments.take(name, value.as_deref().unwrap_or_default())?,
        }
    }
    arguments.check()?;
    Ok(Asked::Run(Box::new(arguments)))
}

/// The option that a word means: itself, or the only one that begins so.
fn find(given: &str) -> Result<(&'static str, Value), String> {
    // These three begin with others that are whole options themselves.
    const MORE: [(&str, Value); 2] = [("wsesslog", Value::Needed), ("wsesspage", Value::Needed)];
    let all = || OPTIONS.into_iter().chain(MORE);
    if let Some(option) = all().find(|(name, _)| *name == given) {
        return Ok(option);
    }
    let found: Vec<_> = all().filter(|(name, _)| name.starts_with(given)).collect();
    match found[..] {
        [] => Err(format!("--{given}: no such option")),
        // Two names of one thing are no choice.
        [(name, value)] | [(name @ "session-cookie", value), _] if found.len() < 3 => Ok((name, value)),
        _ => {
            let names: Vec<String> = found.iter().map(|(name, _)| format!("--{name}")).collect();
            Err(format!("--{given}: it may mean {}", names.join(", ")))
        }
    }
}

impl Arguments {
    /// Reads a word of short options.
    fn short(&mut self, letters: &str, words: &mut std::slice::Iter<'_, String>) -> Result<Option<Asked>, String> {
        for (at, letter) in letters.char_indices() {
            match letter {
                'h' => return Ok(Some(Asked::Help)),
                'V' => return Ok(Some(Asked::Version)),
                'v' => self.verbose += 1,
                'd' => {
                    // Its value follows at once, behind an equals sign, or as the next word; it changes nothing here.
                    if at + 1 == letters.len() && words.next().is_none() {
                        return Err("-d: a value is missing".to_owned());
                    }
                    return Ok(None);
                }
                _ => return Err(format!("-{letter}: no such option")),
            }
        }
        Ok(None)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || value.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let wanted = |what: &str| format!("--{name} {value}: {what} is wanted");
        let count = || {
            let count = u64::try_from(atoi(value)).ok().filter(|count| *count > 0);
            count.ok_or_else(|| wanted("a whole number above 0"))
        };
        let text = || value.to_owned();
        match name {
            "add-header" => self.headers.extend(unescaped(value)),
            "burst-length" | "debug" | "use-timer-cache" => {}
            "client" => {
                let parts = value.split_once('/').map(|(one, all)| (one.parse(), all.parse()));
                let Some((Ok(one), Ok(all))) = parts else { return Err(wanted("I/N")) };
                self.client = (one, all);
            }
            "hog" => self.hog = true,
            "http-version" => self.http_version = text(),
            "method" => self.method = text(),
            "myaddr" => self.source = Some(text()),
            "no-host-hdr" => self.no_host = true,
            "num-calls" => self.calls = count()?,
            "num-conns" => self.connections = count()?,
            "period" => self.period = period(value).ok_or_else(|| wanted("[d|e]SECONDS"))?,
            "port" => {
                let port = u16::try_from(atoi(value)).ok().filter(|port| *port > 0);
                self.port = Some(port.ok_or_else(|| wanted("a number from 1 to 65535"))?);
            }
            "rate" => {
                let rate = number().ok_or_else(|| wanted("a number from 0 on"))?;
                self.period = if rate > 0.0 { Period::Fixed(rate) } else { Period::Sequential };
            }
            "recv-buffer" => (self.recv_buffer, self.buffers) = (u32::try_from(count()?).unwrap_or(u32::MAX), true),
            "send-buffer" => (self.send_buffer, self.buffers) = (u32::try_from(count()?).unwrap_or(u32::MAX), true),
            "server" => self.server = text(),
            "server-name" => self.server_name = Some(text()),
            "ssl" => self.ssl = true,
            "ssl-ca-file" => self.tls.authorities = Some(text()),
            "ssl-certificate" => self.tls.certificate = Some(text()),
            "ssl-ciphers" => self.tls.ciphers = value.split(':').map(str::to_owned).collect(),
            "ssl-key" => self.tls.key = Some(text()),
            "ssl-no-reuse" => self.tls.no_reuse = true,
            "ssl-protocol" => self.tls.protocol = Some(text()),
            "ssl-verify" => {
                self.tls.verify = match value {
                    "" | "yes" => true,
                    "no" => false,
                    _ => return Err(wanted("yes or no")),
                }
            }
            "think-timeout" => self.think_timeout_s = number().ok_or_else(|| wanted("a number of seconds"))?,
            "timeout" => self.timeout_s = number().ok_or_else(|| wanted("a number of seconds"))?,
            "tls-server-name" => self.tls.name = Some(text()),
            "uri" => self.uri = text(),
            _ => self.verbose += 1,
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.buffers {
            return Err("--send-buffer, --recv-buffer: choosing the size of socket buffers is not there yet".to_owned());
        }
        if self.calls > 1 && (self.period != Period::Sequential || self.connections > 1) {
            return Err("--num-calls: more than one call on each of several connections is not there yet".to_owned());
        }
        if !matches!(self.http_version.as_str(), "1.0" | "1.1") {
            return Err(format!("--http-version {}: 1.0 or 1.1 is wanted", self.http_version));
        }
        Ok(())
    }
}

/// A value of `--period`; uniform and stepped ones are not there.
fn period(value: &str) -> Option<Period> {
    let (exponential, seconds) = match value.strip_prefix('e') {
        Some(seconds) => (true, seconds),
        None => (false, value.strip_prefix('d').unwrap_or(value)),
    };
    let seconds: f64 = seconds.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)?;
    Some(match () {
        () if seconds == 0.0 => Period::Sequential,
        () if exponential => Period::Exponential(1.0 / seconds),
        () => Period::Fixed(1.0 / seconds),
    })
}

/// The bytes that a text with `\n` (line end), `\r`, `\a` (line feed), `\\` and octal numbers means.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.extend_from_slice(b"\r\n"),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'a') => bytes.push(b'\n'),
            Some(digit @ b'0'..=b'7') => {
                let mut code = u32::from(digit - b'0');
                while let Some(digit) = rest.next_if(|byte| matches!(byte, b'0'..=b'7') && code < 32) {
                    code = code * 8 + u32::from(digit - b'0');
                }
                bytes.push(code as u8);
            }
            Some(other) => bytes.push(other),
            None => bytes.push(b'\\'),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(line: &str) -> Result<Asked, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn run(line: &str) -> Arguments {
        match parsed(line) {
            Ok(Asked::Run(arguments)) => *arguments,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_command_line_of_the_book_is_understood() {
        let arguments = run(
            "--server localhost --port 80 --uri /perl/simple_test.pl --hog --rate 860 --num-conn 5000 --num-call 1 \
             --timeout 60",
        );
        assert_eq!((arguments.server.as_str(), arguments.port), ("localhost", Some(80)));
        assert_eq!((arguments.period, arguments.connections, arguments.calls), (Period::Fixed(860.0), 5000, 1));
        assert!(arguments.hog && (arguments.timeout_s - 60.0).abs() < 1e-9);
    }

    #[test]
    fn options_may_be_shortened_while_they_are_unique() {
        assert_eq!(run("--num-co=7 --ur /x --http 1.0").connections, 7);
        // --server is an option, though others begin with it.
        assert_eq!(run("--server=h").server, "h");
        assert!(parsed("--num 7").expect_err("two begin so").contains("--num-calls, --num-conns"));
        assert!(parsed("--ssl-c x").expect_err("four begin so").contains("--ssl-ca-file"));
        assert!(parsed("--nonsense").is_err() && parsed("--port").is_err() && parsed("--hog=1").is_err());
        assert!(parsed("--session-c").expect_err("refused").starts_with("--session-cookie:"));
    }

    #[test]
    fn periods_are_rates_turned_over() {
        assert_eq!(run("--period=d0.2").period, Period::Fixed(5.0));
        assert_eq!(run("--period 0.5").period, Period::Fixed(2.0));
        assert_eq!(run("--period e0.1").period, Period::Exponential(10.0));
        assert_eq!(run("--period=0").period, Period::Sequential);
        assert!(parsed("--period u1,3").is_err());
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for option in
            ["--wsess=1,2,3", "--wsesslog=1,2,f", "--wset=1,1", "--wlog=y,f", "--burst-length=4", "--runtime=1"]
        {
            assert!(parsed(option).is_err_and(|error| error.contains("not there yet")), "{option}");
        }
        assert!(parsed("--burst-length 1").is_ok());
    }

    #[test]
    fn headers_have_their_escapes() {
        assert_eq!(unescaped(r"A: b\nC: \\\101\n"), b"A: b\r\nC: \\A\r\n");
        assert_eq!(unescaped(r"x\"), b"x\\");
    }

    proptest! {
        #[test]
        fn no_words_are_too_odd(words in proptest::collection::vec("-{0,2}[a-z0-9=é\\\\]{0,8}", 0..8)) {
            let _ = parse(&words);
        }
    }
}
