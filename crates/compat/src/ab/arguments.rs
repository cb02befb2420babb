//! The command line of ApacheBench 2.4.

use crate::getopt::{Getopt, Step, atoi};
use std::path::PathBuf;

/// The options, as ab gives them to its `getopt`.
const OPTIONS: &str = "n:c:t:s:b:T:p:u:v:lrkVhwiIx:y:z:C:H:P:A:g:X:de:SqB:m:Z:f:E:";
/// The most connections at a time.
const CONCURRENCY_MAX: i32 = 200_000;
/// Requests of a run that `-t` ends.
const TIMED_REQUESTS: i32 = 50_000;

/// What stands in `-h`; word for word, as scripts look for options in it.
pub(super) const USAGE: &str = "\
Options are:
    -n requests     Number of requests to perform
    -c concurrency  Number of multiple requests to make at a time
    -t timelimit    Seconds to max. to spend on benchmarking
                    This implies -n 50000
    -s timeout      Seconds to max. wait for each response
                    Default is 30 seconds
    -b windowsize   Size of TCP send/receive buffer, in bytes
    -B address      Address to bind to when making outgoing connections
    -p postfile     File containing data to POST. Remember also to set -T
    -u putfile      File containing data to PUT. Remember also to set -T
    -T content-type Content-type header to use for POST/PUT data, eg.
                    'application/x-www-form-urlencoded'
                    Default is 'text/plain'
    -v verbosity    How much troubleshooting info to print
    -w              Print out results in HTML tables
    -i              Use HEAD instead of GET
    -x attributes   String to insert as table attributes
    -y attributes   String to insert as tr attributes
    -z attributes   String to insert as td or th attributes
    -C attribute    Add cookie, eg. 'Apache=1234'. (repeatable)
    -H attribute    Add Arbitrary header line, eg. 'Accept-Encoding: gzip'
                    Inserted after all normal header lines. (repeatable)
    -A attribute    Add Basic WWW Authentication, the attributes
                    are a colon separated username and password.
    -P attribute    Add Basic Proxy Authentication, the attributes
                    are a colon separated username and password.
    -X proxy:port   Proxyserver and port number to use
    -V              Print version number and exit
    -k              Use HTTP KeepAlive feature
    -d              Do not show percentiles served table.
    -S              Do not show confidence estimators and warnings.
    -q              Do not show progress when doing more than 150 requests
    -l              Accept variable document length (use this for dynamic pages)
    -g filename     Output collected data to gnuplot format file.
    -e filename     Output CSV file with percentages served
    -r              Don't exit on socket receive errors.
    -m method       Method name
    -h              Display usage information (this message)
    -I              Disable TLS Server Name Indication (SNI) extension
    -Z ciphersuite  Specify SSL/TLS cipher suite (See openssl ciphers)
    -f protocol     Specify SSL/TLS protocol
                    (SSL2, TLS1, TLS1.1, TLS1.2, TLS1.3 or ALL)
    -E certfile     Specify optional client certificate chain and private key
    --strict        Repeat the arithmetic of the original where weir's differs
";

/// The header of a proxy's credentials.
pub(super) const PROXY_AUTHORIZATION: &str = "Proxy-Authorization";

/// What ab was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) requests: u32,
    pub(super) concurrency: u32,
    /// Seconds; 0 = no limit.
    pub(super) time_limit_s: u32,
    pub(super) timeout_s: u32,
    pub(super) window_bytes: u32,
    pub(super) source: Option<String>,
    pub(super) method: String,
    /// The file whose bytes are the body, and what ab calls it.
    pub(super) body: Option<PathBuf>,
    pub(super) content_type: String,
    pub(super) verbosity: i32,
    pub(super) html: bool,
    pub(super) table: String,
    pub(super) row: String,
    pub(super) cell: String,
    pub(super) cookies: Vec<String>,
    /// Lines as they were given.
    pub(super) headers: Vec<String>,
    /// `Authorization` and `Proxy-Authorization` before their encoding: (header, user and password).
    pub(super) credentials: Vec<(&'static str, String)>,
    /// Host and port of the proxy; port 0 = none was given.
    pub(super) proxy: Option<(String, u16)>,
    pub(super) keep_alive: bool,
    pub(super) percentiles: bool,
    pub(super) confidence: bool,
    pub(super) quiet: bool,
    pub(super) variable_length: bool,
    pub(super) gnuplot: Option<PathBuf>,
    pub(super) csv: Option<PathBuf>,
    pub(super) go_on: bool,
    pub(super) no_sni: bool,
    pub(super) ciphers: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) client_certificate: Option<PathBuf>,
    pub(super) strict: bool,
    /// As it was given.
    pub(super) url: String,
}

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// A run.
    Run(Box<Arguments>),
    /// `-h`: the options, and the exit status of a mistake, as ab has it.
    Usage,
    /// `--help`: the same, by the customs of today.
    Help,
    /// `-V`.
    Version,
}

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mistake {
    /// Printed with the options; exit status 22.
    Usage(String),
    /// The last word is an option that lacks its value: printed as two mistakes, as the original does.
    Incomplete(char),
    /// Printed alone; exit status 1.
    Plain(String),
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            requests: 1,
            concurrency: 1,
            time_limit_s: 0,
            timeout_s: 30,
            window_bytes: 0,
            source: None,
            method: String::new(),
            body: None,
            content_type: "text/plain".to_owned(),
            verbosity: 0,
            html: false,
            table: String::new(),
            row: String::new(),
            cell: "bgcolor=white".to_owned(),
            cookies: Vec::new(),
            headers: Vec::new(),
            credentials: Vec::new(),
            proxy: None,
            keep_alive: false,
            percentiles: true,
            confidence: true,
            quiet: false,
            variable_length: false,
            gnuplot: None,
            csv: None,
            go_on: false,
            no_sni: false,
            ciphers: None,
            protocol: None,
            client_certificate: None,
            strict: false,
            url: String::new(),
        }
    }
}

/// Reads the words behind the program's name.
pub(super) fn parse(words: &[String]) -> Result<Asked, Mistake> {
    let mut arguments = Arguments::default();
    // Ours alone: the original would end the options there. So a value cannot be the word --strict.
    let mut own = Vec::with_capacity(words.len());
    for word in words {
        match word.as_str() {
            "--strict" => arguments.strict = true,
            "--help" => return Ok(Asked::Help),
            _ => own.push(word.clone()),
        }
    }
    let mut options = Getopt::new(&own, OPTIONS);
    let mut requests = 1;
    let mut concurrency = 1;
    loop {
        match options.step() {
            Step::End => break,
            Step::Unknown(option) => return Err(Mistake::Usage(format!("illegal option -- {option}"))),
            Step::Incomplete(option) => {
                return Err(Mistake::Incomplete(option));
            }
            Step::Option('h', _) => return Ok(Asked::Usage),
            Step::Option('V', _) => return Ok(Asked::Version),
            Step::Option('n', Some(value)) => {
                requests = atoi(&value);
                if requests <= 0 {
                    return Err(Mistake::Plain("Invalid number of requests\n".to_owned()));
                }
            }
            Step::Option('c', Some(value)) => concurrency = atoi(&value),
            Step::Option('t', Some(value)) => {
                arguments.time_limit_s = positive("-t", &value)?;
                requests = TIMED_REQUESTS;
            }
            Step::Option(option, Some(value)) => arguments.with_value(option, value)?,
            Step::Option(option, None) => arguments.flag(option)?,
        }
    }
    let [url] = options.rest() else { return Err(Mistake::Usage("wrong number of arguments".to_owned())) };
    arguments.url.clone_from(url);
    if arguments.method.is_empty() {
        "GET".clone_into(&mut arguments.method);
    }
    if !(1..=CONCURRENCY_MAX).contains(&concurrency) {
        return Err(Mistake::Usage(format!("Invalid Concurrency [Range 1..{CONCURRENCY_MAX}]")));
    }
    if concurrency > requests {
        return Err(Mistake::Usage("Cannot use concurrency level greater than total number of requests".to_owned()));
    }
    (arguments.requests, arguments.concurrency) = (requests.unsigned_abs(), concurrency.unsigned_abs());
    Ok(Asked::Run(Box::new(arguments)))
}

/// A number above 0; for 0 and below the original would run without that limit, or not at all.
fn positive(option: &str, value: &str) -> Result<u32, Mistake> {
    match u32::try_from(atoi(value)) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Mistake::Plain(format!("ab: {option} {value}: a number above 0 is wanted"))),
    }
}

impl Arguments {
    fn flag(&mut self, option: char) -> Result<(), Mistake> {
        match option {
            'k' => self.keep_alive = true,
            'q' => self.quiet = true,
            'i' => self.set_method("HEAD")?,
            'd' => self.percentiles = false,
            'S' => self.confidence = false,
            'l' => self.variable_length = true,
            'r' => self.go_on = true,
            'w' => self.html = true,
            _ => self.no_sni = true,
        }
        Ok(())
    }

    fn with_value(&mut self, option: char, value: String) -> Result<(), Mistake> {
        match option {
            'b' => self.window_bytes = u32::try_from(atoi(&value)).unwrap_or(0),
            's' => self.timeout_s = positive("-s", &value)?,
            'v' => self.verbosity = atoi(&value),
            'p' | 'u' => {
                self.set_method(if option == 'p' { "POST" } else { "PUT" })?;
                self.body = Some(PathBuf::from(value));
            }
            'm' => self.method = value,
            'T' => self.content_type = value,
            'C' => self.cookies.push(value),
            'H' => self.headers.push(value),
            'A' => self.credentials.push(("Authorization", value.trim_start().to_owned())),
            'P' => self.credentials.push((PROXY_AUTHORIZATION, value.trim_start().to_owned())),
            'X' => {
                let (host, port) = value.split_once(':').unwrap_or((&value, "0"));
                self.proxy = Some((host.to_owned(), u16::try_from(atoi(port)).unwrap_or(0)));
            }
            'g' => self.gnuplot = Some(PathBuf::from(value)),
            'e' => self.csv = Some(PathBuf::from(value)),
            'x' => (self.html, self.table) = (true, value),
            'y' => (self.html, self.row) = (true, value),
            'z' => (self.html, self.cell) = (true, value),
            'B' => self.source = Some(value),
            'Z' => self.ciphers = Some(value),
            'f' => self.protocol = Some(value),
            _ => self.client_certificate = Some(PathBuf::from(value)),
        }
        Ok(())
    }

    fn set_method(&mut self, method: &str) -> Result<(), Mistake> {
        if !self.method.is_empty() {
            return Err(Mistake::Plain(format!("Cannot mix {method} with other methods\n")));
        }
        method.clone_into(&mut self.method);
        Ok(())
    }

    /// After how many requests a line of progress is due; 0 = none.
    pub(super) fn heartbeat(&self) -> u64 {
        if self.quiet || self.requests <= 150 { 0 } else { u64::from(self.requests / 10).max(100) }
    }
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
    fn a_time_limit_means_fifty_thousand_requests_unless_they_are_given_behind_it() {
        assert_eq!((run("-t 5 h/").requests, run("-t 5 h/").time_limit_s), (50_000, 5));
        assert_eq!(run("-t 5 -n 10 h/").requests, 10);
        assert_eq!(run("-n 10 -t 5 h/").requests, 50_000);
    }

    #[test]
    fn mistakes_are_those_of_the_original() {
        let usage = |text: &str| Err(Mistake::Usage(text.to_owned()));
        assert_eq!(parsed(""), usage("wrong number of arguments"));
        assert_eq!(parsed("-n 5 -x"), Err(Mistake::Incomplete('x')));
        assert_eq!(parsed("-j h/"), usage("illegal option -- j"));
        assert_eq!(
            parsed("-n 5 -c 10 h/"),
            usage("Cannot use concurrency level greater than total number of requests")
        );
        assert_eq!(parsed("-n 0 h/"), Err(Mistake::Plain("Invalid number of requests\n".to_owned())));
        assert_eq!(parsed("-i -p f h/"), Err(Mistake::Plain("Cannot mix POST with other methods\n".to_owned())));
        assert_eq!((parsed("-kh"), parsed("-V")), (Ok(Asked::Usage), Ok(Asked::Version)));
        // A method by name replaces the others without complaint.
        assert_eq!(run("-p f -m PATCH h/").method, "PATCH");
    }

    #[test]
    fn html_attributes_ask_for_html_and_strict_is_found_anywhere() {
        let arguments = run("-x border=1 --strict -z c -kn5 h/");
        assert!(arguments.html && arguments.strict && arguments.keep_alive);
        assert_eq!((arguments.table.as_str(), arguments.cell.as_str(), arguments.requests), ("border=1", "c", 5));
        assert_eq!(run("-X proxy:3128 h/").proxy, Some(("proxy".to_owned(), 3128)));
    }

    #[test]
    fn progress_comes_every_tenth_but_not_more_often_than_each_hundred() {
        let beats = |line: &str| run(line).heartbeat();
        assert_eq!((beats("-n 150 h/"), beats("-n 151 h/"), beats("-n 5000 h/")), (0, 100, 500));
        assert_eq!(beats("-q -n 5000 h/"), 0);
    }

    proptest! {
        #[test]
        fn no_words_are_too_odd(words in proptest::collection::vec("[-a-zA-Z0-9:/ é]{0,6}", 0..10)) {
            let _ = parse(&words);
        }
    }
}
