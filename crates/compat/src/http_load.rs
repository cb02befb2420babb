//! `weir http_load`: http_load's command line and report.

mod arguments;
mod report;
mod watch;

use crate::limited::limited;
use crate::system::{LIST_BYTES_MAX, connections_of_a_rate, error_text, monotonic_ns};
use crate::words::words_as_text;
use anyhow::{anyhow, bail};
use arguments::{Arguments, End, Mistake, Start};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use watch::{Shared, Watch};
use weir_load::reach::{Proxy, ProxyKind};
use weir_load::{
    Control, ListedRequest, Options, Order, Request, Schedule, StopRule, Trust, Url, Version, parse_url_file,
};
use weir_terminal::output::print;
use weir_terminal::stop::Stop;
use weir_terminal::text_file::{read_lines, unmarked};

/// How often a line of `-verbose` comes.
const PROGRESS_EVERY: Duration = Duration::from_secs(60);
/// The most fetches whose times are drawn before the run (8 bytes each).
const JITTERED_MAX: u64 = 4_000_000;

/// Runs the command; `program` is the name that it was called by.
///
/// # Errors
/// Its report cannot be written.
pub fn run(program: &str, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let arguments = match arguments::parse(&words_as_text(words)?) {
        Ok(arguments) => arguments,
        Err(Mistake::Help) => return Ok(print(&arguments::usage(program)).map(|()| ExitCode::SUCCESS)?),
        Err(Mistake::Usage(reason)) => {
            if let Some(reason) = reason {
                eprintln!("{program}: {reason}");
            }
            eprint!("{}", arguments::usage(program));
            return Ok(ExitCode::FAILURE);
        }
        Err(Mistake::Plain(mistake)) => return Ok(failed(program, &mistake)),
    };
    let prepared = refused(&arguments).and_then(|()| prepare(&arguments));
    match prepared {
        Ok((options, urls)) => fetch(program, &arguments, options, urls),
        Err(mistake) => Ok(failed(program, &mistake.to_string())),
    }
}

/// Says what went wrong; every mistake of http_load's ends with 1.
fn failed(program: &str, what: &str) -> ExitCode {
    eprintln!("{program}: {what}");
    ExitCode::FAILURE
}

/// Refuses options that this program cannot honour, so that none is ignored.
fn refused(arguments: &Arguments) -> anyhow::Result<()> {
    match arguments.cipher.as_deref().map(str::to_ascii_lowercase).as_deref() {
        Some(word @ ("fastsec" | "highsec" | "paranoid")) => Err(anyhow!(
            "-cipher {word}: it stands for a cipher that is broken or without forward secrecy, which no TLS of today \
             offers; name one, such as ECDHE-RSA-AES128-GCM-SHA256"
        )),
        _ => Ok(()),
    }
}

/// The engine's options, and the URLs by the names that events give them.
fn prepare(arguments: &Arguments) -> anyhow::Result<(Options, Vec<String>)> {
    let file = &arguments.file;
    let bytes = std::fs::read(file).map_err(|error| anyhow!("{file}: {}", error_text(&error)))?;
    let bytes = unmarked(&bytes).map_err(|error| anyhow!("{file}: {error}"))?;
    let urls = parse_url_file(bytes).map_err(|error| anyhow!("{file}: {error}"))?;
    let names = urls.iter().map(ToString::to_string).collect();
    // The requests of one URL are all the same, so the first stands for the list where one is wanted.
    let mut options = Options::new(urls[0].clone());
    let requests = (0..).zip(urls).map(|(name, url)| ListedRequest { request: request(name), url, weight: 1 });
    options.requests.list = requests.collect();
    options.requests.order = Order::Weighted { seed: arguments.seed.unwrap_or_else(random_seed) };
    options.keep_alive = false;
    options.timeout = Duration::from_secs(arguments.timeout_s);
    // As the original does: it never looks at certificates.
    options.trust = Trust::Anything;
    if options.requests.list.iter().any(|listed| listed.url.encrypted) {
        let ciphers = arguments.cipher.as_deref().unwrap_or_default().split([':', ',', ' ']);
        options.reach.tls.ciphers = ciphers.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    }
    if let Some((host, port)) = &arguments.proxy {
        options.reach.proxy = Some(Proxy { kind: ProxyKind::Http, host: host.clone(), port: *port, credentials: None });
    }
    if let Some(file) = &arguments.sources {
        options.reach.sources = source_addresses(file)?;
    }
    let hosts: Vec<&Url> = options.requests.hosts();
    options.slow.link.read_bytes_per_s = arguments.throttle;
    options.connections = match arguments.start {
        Start::Parallel(parallel) => parallel,
        Start::Rate(_) => connections_of_a_rate(hosts.len() as u64),
    };
    if let Some(rate_per_s) = arguments.rate_per_s() {
        options.schedule = Schedule::Fixed { rate_per_s };
        if arguments.jitter {
            let seed = arguments.seed.unwrap_or_else(random_seed);
            options.schedule = Schedule::Recorded(jittered(rate_per_s, arguments.end, seed)?.into());
        }
    }
    options.stop = match arguments.end {
        End::Fetches(fetches) => StopRule::Requests(fetches),
        End::Seconds(seconds) => StopRule::Duration(Duration::from_secs(seconds)),
    };
    Ok((options, names))
}

/// The times of fetches whose intervals lie within a tenth of the rate's, evenly spread; nanoseconds from the start.
fn jittered(rate_per_s: f64, end: End, seed: u64) -> anyhow::Result<Vec<u64>> {
    let (count, until_ns) = match end {
        End::Fetches(fetches) => (fetches, f64::INFINITY),
        End::Seconds(seconds) => ((seconds as f64 * rate_per_s / 0.9) as u64 + 1, seconds as f64 * 1e9),
    };
    if count > JITTERED_MAX {
        bail!("-jitter: more than {JITTERED_MAX} fetches at times of their own are too many");
    }
    let (mut state, mut at_ns) = (seed, 0.0);
    let times = (0..count).map(|_| {
        let now_ns = at_ns;
        at_ns += 1e9 / rate_per_s * (0.9 + 0.2 * fraction(&mut state));
        now_ns
    });
    Ok(times.take_while(|at_ns| *at_ns < until_ns).map(|at_ns| at_ns as u64).collect())
}

/// The next random number from 0 up to 1 (SplitMix64).
fn fraction(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

/// The addresses of a file, one in each line.
fn source_addresses(file: &str) -> anyhow::Result<Vec<IpAddr>> {
    let text = read_lines(Path::new(file), LIST_BYTES_MAX).map_err(|error| anyhow!("{file}: {error}"))?;
    let address = |(at, line): (usize, &str)| {
        let wrong = |_| anyhow!("{file}: line {}: cannot convert source IP address {line}", at + 1);
        line.trim_end().parse().map_err(wrong)
    };
    match text.lines().enumerate().map(address).collect::<anyhow::Result<Vec<_>>>()? {
        none if none.is_empty() => bail!("{file}: there is no address in it; write one in each line"),
        addresses => Ok(addresses),
    }
}

/// What the original sends, but for the name.
fn request(name: u32) -> Request {
    let agent = concat!("http_load (weir ", env!("CARGO_PKG_VERSION"), ")");
    let headers = vec![("User-Agent".to_owned(), agent.to_owned())];
    Request { headers, name, version: Version::Http10, ..Request::default() }
}

/// Another order of URLs for each run, as in the original.
fn random_seed() -> u64 {
    monotonic_ns() ^ u64::from(std::process::id()) << 32
}

/// Makes the run and prints what http_load prints.
fn fetch(program: &str, arguments: &Arguments, mut options: Options, urls: Vec<String>) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let control = Arc::new(Control::default());
    let limit_s = match arguments.end {
        End::Seconds(seconds) => Some(seconds),
        End::Fetches(_) => None,
    };
    let (watch, shared) = Watch::new(urls, arguments.checksum, limit_s);
    options.observers = vec![Box::new(watch)];
    let mut next = PROGRESS_EVERY;
    let begin = Instant::now();
    let result = limited(options, &control, &stop, limit_s.map(Duration::from_secs), || {
        if arguments.verbose && begin.elapsed() >= next {
            eprintln!("{}", progress(&shared, begin.elapsed()));
            next += PROGRESS_EVERY;
        }
    });
    let report = match result {
        Ok(report) => report,
        Err(error) => return Ok(failed(program, &error.to_string())),
    };
    if report.dropped > 0 {
        eprintln!("{program}: {} fetches were never started: all connection slots were taken", report.dropped);
    }
    let counts = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let end_ns = match limit_s {
        _ if stop.asked() => monotonic_ns(),
        Some(seconds) => counts.begin_ns + seconds * 1_000_000_000,
        None => counts.last_ns,
    };
    let elapsed_s = (end_ns.saturating_sub(counts.begin_ns) / 1000) as f64 / 1e6;
    print(&report::report(&counts, elapsed_s, arguments.checksum))?;
    Ok(ExitCode::SUCCESS)
}

/// The line of `-verbose`.
fn progress(shared: &Shared, elapsed: Duration) -> String {
    let counts = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let seconds = crate::printf::general((elapsed.as_secs_f64() * 1e6).trunc() / 1e6);
    format!(
        "--- {seconds} secs, {} fetches started, {} completed, {} current",
        counts.started, counts.fetches, counts.parallel
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_keeps_the_rate_and_stays_within_a_tenth() {
        let times = jittered(1000.0, End::Seconds(20), 7).expect("not too many");
        assert!(times.len().abs_diff(20_000) < 50, "{}", times.len());
        assert!(times.windows(2).all(|pair| (899_999..=1_100_001).contains(&(pair[1] - pair[0]))));
        let gaps = || times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps().min() < Some(905_000) && gaps().max() > Some(1_095_000));
        assert_eq!(times, jittered(1000.0, End::Seconds(20), 7).expect("the same"));
        assert_eq!(jittered(10.0, End::Fetches(3), 7).map(|times| times.len()).ok(), Some(3));
        assert!(jittered(1000.0, End::Fetches(JITTERED_MAX + 1), 7).is_err());
    }
}
