//! The command line of http_load.

use crate::getopt::atoi;

/// What the original allows, as its timer counts whole milliseconds; by `--strict` it is the limit.
const STRICT_RATE_MAX: i32 = 1000;

/// How fetches are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// So many at a time.
    Parallel(u32),
    /// So many a second.
    Rate(u32),
}

/// When the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Fetches(u64),
    Seconds(u64),
}

/// What http_load was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arguments {
    pub(super) start: Start,
    pub(super) end: End,
    pub(super) jitter: bool,
    pub(super) checksum: bool,
    /// Bytes a second of each connection.
    pub(super) throttle: Option<f64>,
    /// Host and port.
    pub(super) proxy: Option<(String, u16)>,
    pub(super) verbose: bool,
    pub(super) timeout_s: u64,
    pub(super) cipher: Option<String>,
    pub(super) sources: Option<String>,
    pub(super) seed: Option<u64>,
    pub(super) strict: bool,
    pub(super) file: String,
}

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mistake {
    /// Printed with the usage, after a reason if there is one.
    Usage(Option<&'static str>),
    /// Printed alone.
    Plain(String),
    /// `--help`.
    Help,
}

/// The usage; the last lines are ours.
pub(super) fn usage(program: &str) -> String {
    format!(
        "usage:  {program} [-checksum] [-throttle] [-proxy host:port] [-verbose] [-timeout secs] [-sip sip_file]\n            \
         [-cipher str]\n            \
         -parallel N | -rate N [-jitter]\n            \
         -fetches N | -seconds N\n            \
         url_file\n\
         One start specifier, either -parallel or -rate, is required.\n\
         One end specifier, either -fetches or -seconds, is required.\n\
         Besides:\n\
         \x20 -Throttle N  tenths of bytes a second instead of those of a modem\n\
         \x20 --seed N     where the choice of URLs begins, to repeat it\n\
         \x20 --strict     a period of whole milliseconds, as the original has it\n"
    )
}

/// The options in the order in which the original compares them: the first that begins with what was given is meant.
const OPTIONS: [(&str, bool); 13] = [
    ("-checksum", false),
    ("-throttle", false),
    ("-Throttle", true),
    ("-verbose", false),
    ("-timeout", true),
    ("-jitter", false),
    ("-parallel", true),
    ("-rate", true),
    ("-fetches", true),
    ("-seconds", true),
    ("-sip", true),
    ("-cipher", true),
    ("-proxy", true),
];

/// Reads the words behind the program's name.
pub(super) fn parse(words: &[String]) -> Result<Arguments, Mistake> {
    let mut read = Read { timeout_s: 60, ..Read::default() };
    let mut words = words.iter().peekable();
    while let Some(word) = words.next_if(|word| word.starts_with('-') && word.len() > 1) {
        match word.as_str() {
            "--help" => return Err(Mistake::Help),
            "--strict" => read.strict = true,
            "--seed" => {
                let seed = words.next().and_then(|word| word.parse().ok());
                read.seed = Some(seed.ok_or_else(|| Mistake::Plain("--seed: a whole number belongs here".to_owned()))?);
            }
            word => {
                let more = words.peek().is_some();
                let known = OPTIONS.into_iter().find(|(name, value)| name.starts_with(word) && (!value || more));
                match known {
                    Some((name, true)) => read.with_value(name, words.next().map_or("", String::as_str))?,
                    Some((name, false)) => read.flag(name),
                    None => return Err(Mistake::Usage(None)),
                }
            }
        }
    }
    let (Some(file), None) = (words.next(), words.next()) else { return Err(Mistake::Usage(None)) };
    read.finish(file)
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Read {
    start: Option<Start>,
    end: Option<End>,
    /// Whether a second way to start or to end was given.
    contradicts: bool,
    jitter: bool,
    checksum: bool,
    throttle: Option<f64>,
    proxy: Option<(String, u16)>,
    verbose: bool,
    timeout_s: u64,
    cipher: Option<String>,
    sources: Option<String>,
    seed: Option<u64>,
    strict: bool,
}

impl Read {
    fn flag(&mut self, name: &str) {
        match name {
            "-checksum" => self.checksum = true,
            // What a modem of 33.6 kbit/s brings.
            "-throttle" => self.throttle = Some(3360.0),
            "-verbose" => self.verbose = true,
            _ => self.jitter = true,
        }
    }

    fn with_value(&mut self, name: &str, value: &str) -> Result<(), Mistake> {
        let number = |what: &str| match u32::try_from(atoi(value)) {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Mistake::Plain(format!("{what} must be at least 1"))),
        };
        match name {
            "-Throttle" => self.throttle = Some(f64::from(number("Throttle")?) / 10.0),
            "-timeout" => self.timeout_s = u64::from(number("timeout")?),
            "-parallel" => self.contradicts |= self.start.replace(Start::Parallel(number("parallel")?)).is_some(),
            "-rate" => self.contradicts |= self.start.replace(Start::Rate(number("rate")?)).is_some(),
            "-fetches" => {
                self.contradicts |= self.end.replace(End::Fetches(u64::from(number("fetches")?))).is_some();
            }
            "-seconds" => {
                self.contradicts |= self.end.replace(End::Seconds(u64::from(number("seconds")?))).is_some();
            }
            "-sip" => self.sources = Some(value.to_owned()),
            "-cipher" => self.cipher = Some(value.to_owned()),
            _ => {
                let (host, port) = value.split_once(':').unwrap_or((value, "80"));
                self.proxy = Some((host.to_owned(), u16::try_from(atoi(port)).unwrap_or(0)));
            }
        }
        Ok(())
    }

    fn finish(self, file: &str) -> Result<Arguments, Mistake> {
        let (Some(start), Some(end)) = (self.start, self.end) else { return Err(Mistake::Usage(None)) };
        if self.contradicts {
            return Err(Mistake::Usage(Some("one way to start and one way to end are wanted, there are more")));
        }
        if self.jitter && matches!(start, Start::Parallel(_)) {
            return Err(Mistake::Usage(Some("-jitter belongs to -rate")));
        }
        if self.strict && matches!(start, Start::Rate(rate) if rate > STRICT_RATE_MAX.unsigned_abs()) {
            return Err(Mistake::Plain(format!("rate may be at most {STRICT_RATE_MAX}")));
        }
        if matches!(self.proxy, Some((_, 0))) {
            return Err(Mistake::Plain("-proxy: a port is a number from 1 to 65535".to_owned()));
        }
        Ok(Arguments {
            start,
            end,
            jitter: self.jitter,
            checksum: self.checksum,
            throttle: self.throttle,
            proxy: self.proxy,
            verbose: self.verbose,
            timeout_s: self.timeout_s,
            cipher: self.cipher,
            sources: self.sources,
            seed: self.seed,
            strict: self.strict,
            file: file.to_owned(),
        })
    }
}

impl Arguments {
    /// Fetches a second that a rate means: by `--strict` one each whole number of milliseconds, as in the original.
    pub(super) fn rate_per_s(&self) -> Option<f64> {
        match self.start {
            Start::Parallel(_) => None,
            Start::Rate(rate) if self.strict => Some(1000.0 / f64::from(1000 / rate)),
            Start::Rate(rate) => Some(f64::from(rate)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(line: &str) -> Result<Arguments, Mistake> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_known_by_their_beginnings() {
        let arguments = parsed("-p 5 -f 10 urls").expect("a command line");
        assert_eq!((arguments.start, arguments.end), (Start::Parallel(5), End::Fetches(10)));
        let arguments = parsed("-r 860 -j -s 5 -c -v -ti 7 -pro proxy:3128 urls").expect("a command line");
        assert_eq!((arguments.start, arguments.end), (Start::Rate(860), End::Seconds(5)));
        assert!(arguments.jitter && arguments.checksum && arguments.verbose);
        assert_eq!((arguments.timeout_s, arguments.proxy), (7, Some(("proxy".to_owned(), 3128))));
        // -t is the first that begins so: -throttle.
        assert_eq!(parsed("-t -p 1 -f 1 urls").expect("a command line").throttle, Some(3360.0));
        assert_eq!(parsed("-T 100 -p 1 -f 1 urls").expect("a command line").throttle, Some(10.0));
    }

    #[test]
    fn one_start_and_one_end_are_wanted() {
        for line in ["", "urls", "-p 1 urls", "-f 1 urls", "-p 1 -f 1", "-p 1 -f 1 a b", "-x -p 1 -f 1 urls"] {
            assert_eq!(parsed(line), Err(Mistake::Usage(None)), "{line}");
        }
        for line in ["-p 1 -r 1 -f 1 urls", "-p 1 -f 1 -s 1 urls", "-p 1 -j -f 1 urls"] {
            assert!(matches!(parsed(line), Err(Mistake::Usage(Some(_)))), "{line}");
        }
        assert_eq!(parsed("-p 0 -f 1 urls"), Err(Mistake::Plain("parallel must be at least 1".to_owned())));
    }

    #[test]
    fn rates_are_exact_unless_strict() {
        for (rate, strict) in [(860, 1000.0), (900, 1000.0), (300, 1000.0 / 3.0), (1, 1.0)] {
            let rate_of = |more: &str| parsed(&format!("{more} -r {rate} -s 1 urls")).expect("a line").rate_per_s();
            assert_eq!((rate_of(""), rate_of("--strict")), (Some(f64::from(rate)), Some(strict)));
        }
        assert!(parsed("--strict -r 1001 -s 1 urls").is_err() && parsed("-r 1001 -s 1 urls").is_ok());
    }

    proptest! {
        #[test]
        fn no_words_are_too_odd(words in proptest::collection::vec("-{0,2}[a-zA-Z0-9é]{0,6}", 0..10)) {
            let _ = parse(&words);
        }
    }
}
