//! `weir ab`: ApacheBench's command line, and its report line by line.

mod arguments;
mod files;
mod html;
mod request;
mod samples;
mod text;
mod times;
mod watch;

use crate::limited::limited;
use crate::system::{error_number, error_text, monotonic_ns};
use crate::words::words_as_text;
use anyhow::{anyhow, bail};
use arguments::{Arguments, Asked, Mistake, PROXY_AUTHORIZATION};
use request::Target;
use std::ffi::OsString;
use std::fs::File;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};
use text::Found;
use watch::{Fatal, Watch};
use weir_load::reach::{Credentials, Proxy, ProxyKind, TlsVersion};
use weir_load::{Control, LoadError, Options, Outcome, Request, StopRule, Trust};
use weir_terminal::output::print;
use weir_terminal::stop::Stop;

/// The exit status of a mistake in the command line: EINVAL, as the original has it.
const USAGE_STATUS: u8 = 22;

/// Runs the command; `program` is the name that it was called by.
///
/// # Errors
/// Its report cannot be written.
pub fn run(program: &str, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let usage = || format!("Usage: {program} [options] [http[s]://]hostname[:port]/path\n{}", arguments::USAGE);
    let arguments = match arguments::parse(&words_as_text(words)?) {
        Ok(Asked::Run(arguments)) => arguments,
        Ok(Asked::Version) => return Ok(print(&banner(false)).map(|()| ExitCode::SUCCESS)?),
        Ok(Asked::Help) => return Ok(print(&usage()).map(|()| ExitCode::SUCCESS)?),
        Ok(Asked::Usage) => {
            eprint!("{}", usage());
            return Ok(ExitCode::from(USAGE_STATUS));
        }
        Err(Mistake::Usage(mistake)) => {
            eprint!("{program}: {mistake}\n{}", usage());
            return Ok(ExitCode::from(USAGE_STATUS));
        }
        Err(Mistake::Incomplete(option)) => {
            eprintln!("{program}: option requires an argument -- {option}");
            eprint!("{program}: wrong number of arguments\n{}", usage());
            return Ok(ExitCode::from(USAGE_STATUS));
        }
        Err(Mistake::Plain(mistake)) => return Ok(failed(&mistake, 1)),
    };
    let Some(target) = Target::parse(&arguments.url) else {
        eprint!("{program}: invalid URL\n{}", usage());
        return Ok(ExitCode::from(USAGE_STATUS));
    };
    if let Err(reason) = refused(&arguments) {
        return Ok(failed(&format!("ab: {reason}"), 1));
    }
    match prepare(&arguments, &target) {
        Ok(prepared) => benchmark(&arguments, &target, prepared),
        Err(mistake) => Ok(failed(&mistake.to_string(), 1)),
    }
}

/// Says what went wrong and gives the exit status.
fn failed(what: &str, status: u8) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(status)
}

/// Refuses options that this program cannot honour, so that none is ignored.
fn refused(arguments: &Arguments) -> anyhow::Result<()> {
    if matches!(arguments.proxy, Some((_, 0))) {
        bail!("-X: the proxy's port is missing; write -X host:port");
    }
    if let Some(protocol) = arguments.protocol.as_deref()
        && tls_version(protocol).is_none()
    {
        bail!("-f {protocol}: only TLS1.2, TLS1.3 and ALL can be had; what is older is broken");
    }
    Ok(())
}

/// The credentials for the proxy of a tunnel.
fn proxy_user(arguments: &Arguments) -> Option<Credentials> {
    let (_, credentials) = arguments.credentials.iter().rfind(|(header, _)| *header == PROXY_AUTHORIZATION)?;
    let (name, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    Some(Credentials { user: name.to_owned(), password: password.to_owned() })
}

/// The address of this host that `-B` names.
fn source_address(source: &str) -> anyhow::Result<IpAddr> {
    let found = (source, 0).to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address.ip()),
        Ok(None) => bail!("ab: -B {source}: there is no such address"),
        Err(error) => bail!("apr_sockaddr_info_get() for {source}: {}", error_text(&error)),
    }
}

/// The version that a word of `-f` means, read as the original does: by its begin. ALL names no single version.
fn tls_version(protocol: &str) -> Option<Option<TlsVersion>> {
    let begins = |with: &str| protocol.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    match () {
        () if begins("ALL") => Some(None),
        () if begins("TLS1.2") => Some(Some(TlsVersion::Tls12)),
        () if begins("TLS1.3") => Some(Some(TlsVersion::Tls13)),
        () => None,
    }
}

/// What a run needs and what can fail before it.
struct Prepared {
    options: Options,
    head: String,
    csv: Option<File>,
    gnuplot: Option<File>,
}

/// Opens every file first: a run whose results have no place to go is not begun.
fn prepare(arguments: &Arguments, target: &Target) -> anyhow::Result<Prepared> {
    let body = match &arguments.body {
        None => None,
        Some(path) => Some(std::fs::read(path).map_err(|error| {
            anyhow!("ab: Could not open POST data file ({}): {}", path.display(), error_text(&error))
        })?),
    };
    let create = |path: &Option<std::path::PathBuf>, what: &str| match path {
        None => Ok(None),
        Some(path) => File::create(path)
            .map(Some)
            .map_err(|error| anyhow!("Cannot open {what} output file: {}", error_text(&error))),
    };
    let head = request::head(arguments, target, body.as_deref()).map_err(anyhow::Error::msg)?;
    let mut options = Options::new(target.url());
    match &arguments.proxy {
        // The original sends what is meant for the server to the proxy; here there is a tunnel.
        Some((host, port)) if target.encrypted => {
            let (kind, host, port) = (ProxyKind::Http, host.clone(), *port);
            options.reach.proxy = Some(Proxy { kind, host, port, credentials: proxy_user(arguments) });
        }
        Some((host, port)) => (options.url.host, options.url.port) = (host.clone(), *port),
        None => {}
    }
    if let Some(source) = &arguments.source {
        options.reach.sources = vec![source_address(source)?];
    }
    options.request = Request { method: arguments.method.clone(), ..Request::default() };
    options.verbatim = Some([head.as_bytes(), body.as_deref().unwrap_or_default()].concat());
    options.connections = arguments.concurrency;
    let window = (arguments.window_bytes > 0).then_some(arguments.window_bytes);
    (options.sockets.send_buffer, options.sockets.receive_buffer) = (window, window);
    options.stop = StopRule::Requests(u64::from(arguments.requests));
    options.keep_alive = arguments.keep_alive;
    options.timeout = Duration::from_secs(u64::from(arguments.timeout_s));
    // As the original does: it never looks at certificates.
    options.trust = Trust::Anything;
    if target.encrypted {
        let tls = &mut options.reach.tls;
        tls.send_name = !arguments.no_sni;
        tls.certificate.clone_from(&arguments.client_certificate);
        tls.version = arguments.protocol.as_deref().and_then(tls_version).flatten();
        let ciphers = arguments.ciphers.as_deref().unwrap_or_default().split([':', ',', ' ']);
        tls.ciphers = ciphers.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    }
    let (csv, gnuplot) = (create(&arguments.csv, "CSV")?, create(&arguments.gnuplot, "gnuplot")?);
    Ok(Prepared { options, head, csv, gnuplot })
}

/// Makes the run and prints what ab prints.
fn benchmark(arguments: &Arguments, target: &Target, prepared: Prepared) -> anyhow::Result<ExitCode> {
    print(&banner(arguments.html))?;
    print(&beginning(arguments, target, &prepared.head))?;
    let stop = Stop::on_signals()?;
    let control = Arc::new(Control::default());
    let (watch, shared) = Watch::new(arguments, Arc::clone(&control));
    let mut options = prepared.options;
    options.observers = vec![Box::new(watch)];
    let limit = (arguments.time_limit_s > 0).then(|| Duration::from_secs(u64::from(arguments.time_limit_s)));
    let result = limited(options, &control, &stop, limit, || {});
    let end_ns = monotonic_ns();
    let mut counts = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            let (what, status) = engine_error(&error);
            return Ok(failed(&what, status));
        }
    };
    if let Some(fatal) = counts.fatal {
        return aborted(fatal, counts.done);
    }
    if arguments.verbosity >= 1 {
        report.warnings.iter().for_each(|warning| eprintln!("weir: {warning}"));
    }
    let until_ns = match limit {
        _ if stop.asked() => end_ns,
        Some(limit) if counts.done < u64::from(arguments.requests) => counts.begin_ns + limit.as_nanos() as u64,
        _ => counts.last_ns,
    };
    if !stop.asked() {
        match arguments.heartbeat() {
            0 => print("..done\n")?,
            _ => eprintln!("Finished {} requests", counts.done),
        }
    }
    let begin = SystemTime::now() - Duration::from_nanos(end_ns.saturating_sub(counts.begin_ns));
    let elapsed_us = (until_ns / 1000).saturating_sub(counts.begin_ns / 1000);
    let tls = tls_lines(arguments, target, &counts);
    let mut found = Found { arguments, target, counts: &mut counts, elapsed_us, tls };
    let text = if arguments.html { html::report(&mut found) } else { text::report(&mut found) };
    print(&text)?;
    let samples = &mut counts.samples;
    if samples.count() > 0 {
        let csv = prepared.csv.map_or(Ok(()), |file| files::write_percentages(file, samples, arguments.strict));
        let gnuplot = prepared.gnuplot.map_or(Ok(()), |file| files::write_samples(file, samples, begin));
        for (file, result) in [("CSV", csv), ("gnuplot", gnuplot)] {
            if let Err(error) = result {
                return Ok(failed(&format!("Cannot write {file} output file: {}", error_text(&error)), 1));
            }
        }
    }
    // A run that the user ended has its report, and the exit status of an ended run.
    Ok(if stop.asked() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What the report says of the encryption.
fn tls_lines(arguments: &Arguments, target: &Target, counts: &watch::Counts) -> Vec<(&'static str, String)> {
    let Some(tls) = &counts.tls else { return Vec::new() };
    let mut lines = vec![("SSL/TLS Protocol", tls.protocol.clone())];
    lines.extend(tls.group.clone().map(|group| ("Server Temp Key", group)));
    // An address is no name that a handshake could carry.
    if !arguments.no_sni && target.host.parse::<IpAddr>().is_err() {
        lines.push(("TLS Server Name", target.host.clone()));
    }
    lines
}

/// What ab says where the engine cannot make the run, and its exit status.
fn engine_error(error: &LoadError) -> (String, u8) {
    match error {
        LoadError::UnknownHost { host, cause } => {
            let cause = error_text(cause);
            let text = cause.rsplit(": ").next().unwrap_or(&cause).to_owned();
            // 670000 is APR's begin of the resolver's errors, 2 that of a name that is not known, 3 of a bad moment.
            let code = if text.starts_with("Temporary") { 670_003 } else { 670_002 };
            (format!("apr_sockaddr_info_get() for {host}: {text} ({code})"), (code & 0xff) as u8)
        }
        LoadError::Unreachable { cause, .. } => match error_number(cause) {
            Some(number) => {
                (format!("apr_socket_recv: {} ({number})", error_text(cause)), u8::try_from(number).unwrap_or(1))
            }
            None => ("apr_pollset_poll: The timeout specified has expired (70007)".to_owned(), 119),
        },
        other => (format!("ab: {other}"), 1),
    }
}

/// What ab says where it gives up in the middle.
fn aborted(fatal: Fatal, done: u64) -> anyhow::Result<ExitCode> {
    let status = match fatal {
        Fatal::Reset => {
            eprintln!("apr_socket_recv: Connection reset by peer (104)");
            104
        }
        Fatal::NoConnection(outcome) => {
            let (words, number) = match outcome {
                Outcome::Refused => ("Connection refused", libc::ECONNREFUSED),
                Outcome::NoDescriptors => ("Too many open files", libc::EMFILE),
                Outcome::NoPorts => ("Cannot assign requested address", libc::EADDRNOTAVAIL),
                _ => ("Connection timed out", libc::ETIMEDOUT),
            };
            eprintln!("\nTest aborted after 10 failures\n\napr_socket_connect(): {words} ({number})");
            u8::try_from(number).unwrap_or(1)
        }
    };
    if done > 0 {
        print(&format!("Total of {done} requests completed\n"))?;
    }
    Ok(ExitCode::from(status))
}

/// As many lines as the original has before its report.
fn banner(html: bool) -> String {
    let version = weir_terminal::VERSION;
    if html {
        return format!(
            "<p>\n This is ApacheBench, Version 2.3 <i>&lt;weir {version}&gt;</i><br>\n \
             Its command line and its report, made by weir without its code<br>\n \
             ApacheBench is of the Apache Software Foundation, http://www.apache.org/<br>\n</p>\n<p>\n"
        );
    }
    format!(
        "This is ApacheBench, Version 2.3 <weir {version}>\n\
         Its command line and its report, made by weir without its code\n\
         ApacheBench is of the Apache Software Foundation, http://www.apache.org/\n\n"
    )
}

/// What ab says as it begins.
fn beginning(arguments: &Arguments, target: &Target, head: &str) -> String {
    let mut text = String::new();
    if !arguments.html {
        text.push_str(&format!("Benchmarking {} ", target.host));
        if let Some((host, port)) = &arguments.proxy {
            text.push_str(&format!("[through {host}:{port}] "));
        }
        text.push_str(if arguments.heartbeat() > 0 { "(be patient)\n" } else { "(be patient)..." });
    }
    if arguments.verbosity >= 2 {
        text.push_str(&format!("INFO: {} header == \n---\n{head}\n---\n", arguments.method));
    }
    text
}
