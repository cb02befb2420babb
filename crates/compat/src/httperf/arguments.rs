//! The command line of httperf: long options that may be shortened while they stay unique, and a few short ones.

use super::parts::Parts;
use super::period::Period;
use crate::getopt::atoi;
use std::time::Duration;

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    /// Behind an equals sign only.
    Optional,
    Needed,
}

/// All options of httperf 0.9.
const OPTIONS: [(&str, Value); 53] = [
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
    ("wsesslog", Value::Needed),
    ("wsesspage", Value::Needed),
    ("wset", Value::Needed),
];

/// The most calls of a burst.
const BURST_MAX: u64 = 65_536;
/// The longest time that an option may ask for, in seconds: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

/// The most connections of a session, and the most calls that go out over one together, as in the original.
pub(super) const CONNECTIONS_MAX: u32 = 4;
pub(super) const PIPED_MAX: usize = 32;

/// What connections or sessions are to do, as the options say it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// `--num-conns`, `--num-calls`.
    Connections,
    /// `--wsess`: sessions, calls of each, seconds between bursts.
    Bursts(u64, u64, f64),
    /// `--wsesslog`: sessions, seconds between bursts, a file.
    Listed(u64, f64, String),
    /// `--wsesspage`: sessions, pages of each, seconds between them.
    Pages(u64, u64, f64),
}

/// What httperf was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arguments {
    pub(super) server: String,
    /// A file of servers.
    pub(super) servers: Option<String>,
    pub(super) server_name: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) uri: String,
    pub(super) sources: Vec<String>,
    pub(super) http_version: String,
    pub(super) method: Option<String>,
    /// The last `--add-header`, as it was given.
    pub(super) header: Option<String>,
    pub(super) header_file: Option<String>,
    pub(super) no_host: bool,
    pub(super) connections: u64,
    pub(super) calls: u64,
    pub(super) burst: u64,
    pub(super) work: Work,
    /// `--wlog`: whether it wraps, and the file.
    pub(super) log: Option<(bool, String)>,
    /// `--wset`: files, and how many each call goes on.
    pub(super) set: Option<(u32, f64)>,
    pub(super) failure_status: Option<u16>,
    pub(super) retry: bool,
    pub(super) cookies: bool,
    pub(super) max_connections: Option<u32>,
    pub(super) max_piped: Option<usize>,
    pub(super) period: Period,
    pub(super) runtime: Option<Duration>,
    pub(super) timeout_s: f64,
    pub(super) think_timeout_s: f64,
    pub(super) client: (u32, u32),
    pub(super) send_buffer: u32,
    pub(super) recv_buffer: u32,
    pub(super) hog: bool,
    pub(super) close_with_reset: bool,
    pub(super) print_requests: Parts,
    pub(super) print_replies: Parts,
    pub(super) periodic: bool,
    pub(super) timer_cache: bool,
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
    pub(super) authorities_path: Option<String>,
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
            servers: None,
            server_name: None,
            port: None,
            uri: "/".to_owned(),
            sources: Vec::new(),
            http_version: "1.1".to_owned(),
            method: None,
            header: None,
            header_file: None,
            no_host: false,
            connections: 1,
            calls: 1,
            burst: 1,
            work: Work::Connections,
            log: None,
            set: None,
            failure_status: None,
            retry: false,
            cookies: false,
            max_connections: None,
            max_piped: None,
            period: Period::Sequential,
            runtime: None,
            timeout_s: 0.0,
            think_timeout_s: 0.0,
            client: (0, 1),
            send_buffer: 4096,
            recv_buffer: 16384,
            hog: false,
            close_with_reset: false,
            print_requests: Parts::default(),
            print_replies: Parts::default(),
            periodic: false,
            timer_cache: false,
            ssl: false,
            tls: Tls::default(),
            verbose: 0,
        }
    }
}

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mistake {
    /// A word that is no option.
    #[error("{word}: httperf takes options only")]
    NoOption { word: String },
    /// An option with a value that takes none.
    #[error("--{name}: no value belongs to it")]
    NoValue { name: &'static str },
    /// An option without its value.
    #[error("--{name}: a value is missing")]
    ValueMissing { name: &'static str },
    /// `-d` without its level.
    #[error("-d: a value is missing")]
    LevelMissing,
    /// A long option that there is not.
    #[error("--{given}: no such option")]
    Unknown { given: String },
    /// A short option that there is not.
    #[error("-{letter}: no such option")]
    UnknownLetter { letter: char },
    /// An option that is shortened too much.
    #[error("--{given}: it may mean {names}")]
    Ambiguous { given: String, names: String },
    /// A value that an option does not take.
    #[error("--{name} {value}: {what} is wanted")]
    Wanted { name: &'static str, value: String, what: &'static str },
    /// Cookies are of sessions.
    #[error("--session-cookie requires session-oriented workload (e.g., --wsess)")]
    CookiesWithoutSessions,
    /// A version that is not spoken.
    #[error("--http-version {given}: 1.0 or 1.1 is wanted")]
    HttpVersion { given: String },
    /// The server is named in two ways.
    #[error("--server S or --servers FILE, not both")]
    ServerTwice,
    /// The authorities are named in two ways.
    #[error("--ssl-ca-file or --ssl-ca-path, not both: put the file into the directory")]
    AuthoritiesTwice,
    /// A workload that makes paths of the URI, which is none.
    #[error("--uri {given}: a path that begins with / is wanted")]
    Uri { given: String },
}

/// Reads the words behind the program's name; the error says what is wrong.
pub(super) fn parse(words: &[String]) -> Result<Asked, Mistake> {
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
                _ => return Err(Mistake::NoOption { word: word.clone() }),
            }
        };
        let (given, behind) = match long.split_once('=') {
            Some((given, value)) => (given, Some(value.to_owned())),
            None => (long, None),
        };
        let (name, kind) = find(given)?;
        let value = match (kind, behind) {
            (Value::None, Some(_)) => return Err(Mistake::NoValue { name }),
            (Value::Needed, None) => Some(words.next().cloned().ok_or(Mistake::ValueMissing { name })?),
            (_, behind) => behind,
        };
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
fn find(given: &str) -> Result<(&'static str, Value), Mistake> {
    if let Some(option) = OPTIONS.into_iter().find(|(name, _)| *name == given) {
        return Ok(option);
    }
    let found: Vec<_> = OPTIONS.into_iter().filter(|(name, _)| name.starts_with(given)).collect();
    match found[..] {
        [] => Err(Mistake::Unknown { given: given.to_owned() }),
        // Two names of one thing are no choice.
        [(name, value)] | [(name @ "session-cookie", value), _] if found.len() < 3 => Ok((name, value)),
        _ => {
            let names: Vec<String> = found.iter().map(|(name, _)| format!("--{name}")).collect();
            Err(Mistake::Ambiguous { given: given.to_owned(), names: names.join(", ") })
        }
    }
}

impl Arguments {
    /// Reads a word of short options.
    fn short(&mut self, letters: &str, words: &mut std::slice::Iter<'_, String>) -> Result<Option<Asked>, Mistake> {
        for (at, letter) in letters.char_indices() {
            match letter {
                'h' => return Ok(Some(Asked::Help)),
                'V' => return Ok(Some(Asked::Version)),
                'v' => self.verbose += 1,
                'n' => self.periodic = true,
                'd' => {
                    // Its value follows at once, behind an equals sign, or as the next word; it changes nothing here.
                    if at + 1 == letters.len() && words.next().is_none() {
                        return Err(Mistake::LevelMissing);
                    }
                    return Ok(None);
                }
                _ => return Err(Mistake::UnknownLetter { letter }),
            }
        }
        Ok(None)
    }

    fn take(&mut self, name: &'static str, value: &str) -> Result<(), Mistake> {
        let number = || value.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let wanted = |what: &'static str| Mistake::Wanted { name, value: value.to_owned(), what };
        let count = || {
            let count = u64::try_from(atoi(value)).ok().filter(|count| *count > 0);
            count.ok_or_else(|| wanted("a whole number above 0"))
        };
        let text = || value.to_owned();
        let seconds = || number().filter(|seconds| *seconds <= SECONDS_MAX);
        let bytes = || count().map(|count| u32::try_from(count).unwrap_or(u32::MAX).min(i32::MAX as u32));
        match name {
            "add-header" => self.header = Some(text()),
            "add-header-file" => self.header_file = Some(text()),
            "burst-length" => {
                self.burst = count()?;
                if self.burst > BURST_MAX {
                    return Err(wanted("a number from 1 to 65536"));
                }
            }
            "client" => {
                let parts = value.split_once('/').map(|(one, all)| (one.parse(), all.parse()));
                let Some((Ok(one), Ok(all))) = parts else { return Err(wanted("I/N")) };
                if one >= all {
                    return Err(wanted("I/N, with I below N,"));
                }
                self.client = (one, all);
            }
            "close-with-reset" => self.close_with_reset = true,
            "debug" => {}
            "failure-status" => {
                let status = u16::try_from(atoi(value)).ok().filter(|status| (100..1000).contains(status));
                self.failure_status = Some(status.ok_or_else(|| wanted("a status such as 504"))?);
            }
            "hog" => self.hog = true,
            "http-version" => self.http_version = text(),
            "max-connections" => {
                let most = u32::try_from(count()?).ok().filter(|most| *most <= CONNECTIONS_MAX);
                self.max_connections = Some(most.ok_or_else(|| wanted("a number from 1 to 4"))?);
            }
            "max-piped-calls" => {
                let most = usize::try_from(count()?).ok().filter(|most| *most <= PIPED_MAX);
                self.max_piped = Some(most.ok_or_else(|| wanted("a number from 1 to 32"))?);
            }
            "method" => self.method = Some(text()),
            "myaddr" => self.sources.push(text()),
            "no-host-hdr" => self.no_host = true,
            "num-calls" => self.calls = count()?,
            "num-conns" => self.connections = count()?,
            "period" => {
                let wrong = || wanted("[d|e]SECONDS, uLEAST,MOST or vSECONDS,DURATION[,SECONDS,DURATION]...");
                self.period = Period::parse(value).ok_or_else(wrong)?;
            }
            "periodic-stats" => self.periodic = true,
            "port" => {
                let port = u16::try_from(atoi(value)).ok().filter(|port| *port > 0);
                self.port = Some(port.ok_or_else(|| wanted("a number from 1 to 65535"))?);
            }
            "print-reply" => self.print_replies = Parts::parse(value),
            "print-request" => self.print_requests = Parts::parse(value),
            "rate" => self.period = Period::of_rate(number().ok_or_else(|| wanted("a number from 0 on"))?),
            "recv-buffer" => self.recv_buffer = bytes()?,
            "retry-on-failure" => self.retry = true,
            "runtime" => {
                let seconds =
                    seconds().filter(|seconds| *seconds > 0.0).ok_or_else(|| wanted("a number of seconds"))?;
                self.runtime = Some(Duration::from_secs_f64(seconds));
            }
            "send-buffer" => self.send_buffer = bytes()?,
            "server" => self.server = text(),
            "server-name" => self.server_name = Some(text()),
            "servers" => self.servers = Some(text()),
            "session-cookie" | "session-cookies" => self.cookies = true,
            "ssl" => self.ssl = true,
            "ssl-ca-file" => self.tls.authorities = Some(text()),
            "ssl-ca-path" => self.tls.authorities_path = Some(text()),
            "ssl-certificate" => self.tls.certificate = Some(text()),
            "ssl-ciphers" => self.tls.ciphers = value.split(':').map(str::to_owned).collect(),
            "ssl-key" => self.tls.key = Some(text()),
            "ssl-no-reuse" => self.tls.no_reuse = true,
            "ssl-protocol" => self.tls.protocol = Some(text()),
            // As in the original: anything but yes means no.
            "ssl-verify" => self.tls.verify = value.is_empty() || value.starts_with(['y', 'Y']),
            "think-timeout" => self.think_timeout_s = seconds().ok_or_else(|| wanted("a number of seconds"))?,
            "timeout" => self.timeout_s = seconds().ok_or_else(|| wanted("a number of seconds"))?,
            "tls-server-name" => self.tls.name = Some(text()),
            "uri" => self.uri = text(),
            "use-timer-cache" => self.timer_cache = true,
            "wlog" => {
                let (wraps, file) = value.split_once(',').ok_or_else(|| wanted("y,FILE or n,FILE"))?;
                self.log = Some((wraps.eq_ignore_ascii_case("y"), file.to_owned()));
            }
            "wset" => {
                let parts =
                    value.split_once(',').map(|(files, rate)| (files.trim().parse(), rate.trim().parse::<f64>()));
                self.set = match parts {
                    Some((Ok(files), Ok(rate))) if files > 0 && (0.0..=1.0).contains(&rate) => Some((files, rate)),
                    _ => return Err(wanted("FILES,RATE, with a rate from 0 to 1,")),
                };
            }
            "wsess" | "wsesspage" => {
                let parts: Vec<&str> = value.split(',').map(str::trim).collect();
                let [sessions, calls, think] = parts[..] else { return Err(wanted("SESSIONS,CALLS,SECONDS")) };
                let parts = (sessions.parse(), calls.parse(), think.parse::<f64>());
                let (Ok(sessions @ 1..), Ok(calls @ 1..), Ok(think)) = parts else {
                    return Err(wanted("SESSIONS,CALLS,SECONDS"));
                };
                let think = Some(think).filter(|think| (0.0..=SECONDS_MAX).contains(think));
                let think = think.ok_or_else(|| wanted("SESSIONS,CALLS,SECONDS"))?;
                let is_page = name == "wsesspage";
                self.work =
                    if is_page { Work::Pages(sessions, calls, think) } else { Work::Bursts(sessions, calls, think) };
            }
            "wsesslog" => {
                let parts: Vec<&str> = value.splitn(3, ',').collect();
                let [sessions, think, file] = parts[..] else { return Err(wanted("SESSIONS,SECONDS,FILE")) };
                let (Ok(sessions @ 1..), Ok(think)) = (sessions.trim().parse(), think.trim().parse::<f64>()) else {
                    return Err(wanted("SESSIONS,SECONDS,FILE"));
                };
                if !(0.0..=SECONDS_MAX).contains(&think) {
                    return Err(wanted("SESSIONS,SECONDS,FILE"));
                }
                self.work = Work::Listed(sessions, think, file.to_owned());
            }
            _ => self.verbose += 1,
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Mistake> {
        if self.cookies && self.work == Work::Connections {
            return Err(Mistake::CookiesWithoutSessions);
        }
        if !matches!(self.http_version.as_str(), "1.0" | "1.1") {
            return Err(Mistake::HttpVersion { given: self.http_version.clone() });
        }
        if self.servers.is_some() && self.server != Self::default().server {
            return Err(Mistake::ServerTwice);
        }
        if self.tls.authorities.is_some() && self.tls.authorities_path.is_some() {
            return Err(Mistake::AuthoritiesTwice);
        }
        if !self.uri.starts_with('/') && (matches!(self.work, Work::Pages(..)) || self.set.is_some()) {
            return Err(Mistake::Uri { given: self.uri.clone() });
        }
        Ok(())
    }

    /// How many connections or sessions there are to be.
    pub(super) fn arrivals(&self) -> u64 {
        match self.work {
            Work::Connections => self.connections,
            Work::Bursts(sessions, ..) | Work::Listed(sessions, ..) | Work::Pages(sessions, ..) => sessions,
        }
    }
}

/// The bytes that a text with `\n` (line end), `\r`, `\a` (line feed), `\\` and octal numbers means.
pub(super) fn unescaped(text: &str) -> Vec<u8> {
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

    fn parsed(line: &str) -> Result<Asked, Mistake> {
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
        assert!(parsed("--num 7").expect_err("two begin so").to_string().contains("--num-calls, --num-conns"));
        assert!(parsed("--ssl-c x").expect_err("four begin so").to_string().contains("--ssl-ca-file"));
        assert!(parsed("--nonsense").is_err() && parsed("--port").is_err() && parsed("--hog=1").is_err());
        assert!(run("--session-c --wsess 1,1,0").cookies);
    }

    #[test]
    fn periods_are_rates_turned_over() {
        assert_eq!(run("--period=d0.2").period, Period::Fixed(5.0));
        assert_eq!(run("--period 0.5").period, Period::Fixed(2.0));
        assert_eq!(run("--period e0.1").period, Period::Exponential(0.1));
        assert_eq!(run("--period u1,3").period, Period::Uniform(1.0, 3.0));
        assert!(parsed("--period x1").is_err());
    }

    #[test]
    fn workloads_are_understood() {
        assert_eq!(run("--wsess=10,5,2").work, Work::Bursts(10, 5, 2.0));
        assert_eq!(run("--wsesspage 1,2,0.5").work, Work::Pages(1, 2, 0.5));
        assert_eq!(run("--wsesslog=3,1,a,b").work, Work::Listed(3, 1.0, "a,b".to_owned()));
        assert_eq!(run("--wlog=n,f").log, Some((false, "f".to_owned())));
        assert_eq!(run("--wset=1024,0.25").set, Some((1024, 0.25)));
        assert_eq!(run("--wsess=1,2,0 --max-conn 2 --max-piped 32 --fail 504 --retry").max_connections, Some(2));
        assert_eq!(run("--print-reply=header --print-req").print_replies, Parts { head: true, content: false });
        for wrong in [
            "--wsess=1,2",
            "--wsess=0,1,1",
            "--wsess=1,1,-1",
            "--wsesslog=1,2",
            "--wset=0,1",
            "--wset=5,2",
            "--wlog=f",
            "--max-connections 5",
            "--max-piped-calls 33",
            "--session-cookie",
            "--failure-status x",
            "--client 2/2",
            "--servers f --server h",
            "--runtime 0",
            "--burst-length 0",
            "--wsesspage 1,1,0 --uri x",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
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
