//! `weir httperf`: httperf's command line and report, for connections with one call each or one connection with many.

mod arguments;
mod report;
mod watch;

use super::{connections_of_a_rate, error_text, limited, words_as_text};
use crate::output::print;
use crate::stop::Stop;
use arguments::{Arguments, Asked, Period};
use report::Cpu;
use std::ffi::OsString;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use watch::Watch;
use weir_load::reach::TlsVersion;
use weir_load::{Control, Options, Request, Schedule, StopRule, Trust, Url};

/// A time without end, where no `--timeout` is given.
const NO_TIMEOUT: Duration = Duration::from_secs(86_400);

const USAGE: &str = "\
Options, which may be shortened while they stay unique:
  --server S --port N --uri S --server-name S --myaddr S --no-host-hdr
  --http-version S --method S --add-header S
  --num-conns N --num-calls N --rate X --period [d|e]X --client I/N --hog
  --timeout X --think-timeout X
  --ssl --ssl-ciphers L --ssl-no-reuse --ssl-certificate F --ssl-key F
  --ssl-ca-file F --ssl-verify[=yes|no] --ssl-protocol P --tls-server-name S
  -v -V -h -d N
All others of httperf 0.9 are refused: what they ask for is not there yet.
";

/// Runs the command; `program` is the name that it was called by.
pub(super) fn run(program: &str, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let arguments = match arguments::parse(&words_as_text(words)?) {
        Ok(Asked::Run(arguments)) => arguments,
        Ok(Asked::Help) => return print(&format!("Usage: {program} [options]\n{USAGE}")).map(|()| ExitCode::SUCCESS),
        Ok(Asked::Version) => {
            return print(&format!("{program}: httperf-0.9.0 as weir {} has it\n", crate::VERSION))
                .map(|()| ExitCode::SUCCESS);
        }
        Err(mistake) => return Ok(failed(program, &mistake)),
    };
    match options(&arguments) {
        Ok(options) => measure(program, &arguments, options),
        Err(mistake) => Ok(failed(program, &mistake)),
    }
}

/// Says what went wrong; every mistake of httperf's ends with 1.
fn failed(program: &str, what: &str) -> ExitCode {
    eprintln!("{program}: {what}");
    ExitCode::FAILURE
}

/// The engine's options.
fn options(arguments: &Arguments) -> Result<Options, String> {
    let port = arguments.port.unwrap_or(if arguments.ssl { 443 } else { 80 });
    let (encrypted, host, target) = (arguments.ssl, arguments.server.clone(), arguments.uri.clone());
    let mut options = Options::new(Url { encrypted, host, port, target });
    options.request = Request { method: arguments.method.clone(), ..Request::default() };
    options.verbatim = Some(request(arguments));
    options.keep_alive = arguments.calls > 1;
    options.hang_up = true;
    options.stop = StopRule::Requests(arguments.connections.saturating_mul(arguments.calls));
    let (schedule, connections) = match arguments.period {
        Period::Sequential => (Schedule::Closed, 1),
        Period::Fixed(rate_per_s) => (Schedule::Fixed { rate_per_s }, connections_of_a_rate(1)),
        Period::Exponential(rate_per_s) => {
            // The same times for the same client, as in the original.
            let seed = u64::from(arguments.client.0) + 1;
            (Schedule::Poisson { rate_per_s, seed }, connections_of_a_rate(1))
        }
    };
    (options.schedule, options.connections) = (schedule, connections);
    let timeout_s = arguments.timeout_s + arguments.think_timeout_s;
    options.timeout = if arguments.timeout_s > 0.0 { Duration::from_secs_f64(timeout_s.min(1e9)) } else { NO_TIMEOUT };
    if let Some(source) = &arguments.source {
        options.reach.sources = vec![source_address(source)?];
    }
    if arguments.ssl {
        encryption(arguments, &mut options)?;
    }
    Ok(options)
}

/// The bytes of a call, in the order of the original.
fn request(arguments: &Arguments) -> Vec<u8> {
    let Arguments { method, uri, http_version, .. } = arguments;
    // Its name too: other bytes would get other answers from some servers.
    let mut head = format!("{method} {uri} HTTP/{http_version}\r\nUser-Agent: httperf/0.9.0\r\n");
    if http_version == "1.0" {
        head.push_str("Connection: keep-alive\r\n");
    }
    if !arguments.no_host {
        head.push_str(&format!("Host: {}\r\n", arguments.server_name.as_ref().unwrap_or(&arguments.server)));
    }
    [head.as_bytes(), &arguments.headers, b"\r\n"].concat()
}

/// The address of this host that `--myaddr` names.
fn source_address(source: &str) -> Result<IpAddr, String> {
    match (source, 0).to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(address)) => Ok(address.ip()),
        Ok(None) => Err(format!("--myaddr {source}: there is no such address")),
        Err(error) => Err(format!("--myaddr {source}: {}", error_text(&error))),
    }
}

/// What the options of TLS mean.
fn encryption(arguments: &Arguments, options: &mut Options) -> Result<(), String> {
    let (given, tls) = (&arguments.tls, &mut options.reach.tls);
    options.trust = match &given.authorities {
        _ if !given.verify => Trust::Anything,
        Some(file) => Trust::File(PathBuf::from(file)),
        None => Trust::System,
    };
    tls.name.clone_from(&given.name);
    tls.certificate = given.certificate.as_ref().map(PathBuf::from);
    tls.key = given.key.as_ref().map(PathBuf::from);
    tls.ciphers.clone_from(&given.ciphers);
    tls.version = match given.protocol.as_deref() {
        None | Some("auto") => None,
        Some("TLSv1.2") => Some(TlsVersion::Tls12),
        Some("TLSv1.3") => Some(TlsVersion::Tls13),
        Some(other) => return Err(format!("--ssl-protocol {other}: auto, TLSv1.2 or TLSv1.3 is wanted")),
    };
    Ok(())
}

/// The command line as the original repeats it.
fn repeated(arguments: &Arguments) -> String {
    let mut line = String::from("httperf");
    let mut put = |is: bool, text: String| {
        if is {
            line.push(' ');
            line.push_str(&text);
        }
    };
    let Arguments { client, server, uri, .. } = arguments;
    let port = arguments.port.unwrap_or(if arguments.ssl { 443 } else { 80 });
    put(arguments.verbose > 0, "--verbose".to_owned());
    put(arguments.hog, "--hog".to_owned());
    put(arguments.think_timeout_s > 0.0, format!("--think-timeout={}", arguments.think_timeout_s));
    put(arguments.timeout_s > 0.0, format!("--timeout={}", arguments.timeout_s));
    put(true, format!("--client={}/{} --server={server}", client.0, client.1));
    put(
        arguments.server_name.is_some(),
        format!("--server_name={}", arguments.server_name.clone().unwrap_or_default()),
    );
    put(true, format!("--port={port} --uri={uri}"));
    put(arguments.http_version != "1.1", format!("--http-version={}", arguments.http_version));
    match arguments.period {
        Period::Sequential => {}
        Period::Fixed(rate) => put(true, format!("--rate={}", super::printf::general(rate))),
        Period::Exponential(rate) => put(true, format!("--period=e{}", super::printf::general(1.0 / rate))),
    }
    put(true, format!("--send-buffer={} --recv-buffer={}", arguments.send_buffer, arguments.recv_buffer));
    put(arguments.ssl, "--ssl".to_owned());
    put(!arguments.tls.ciphers.is_empty(), format!("--ssl-ciphers={}", arguments.tls.ciphers.join(":")));
    put(arguments.tls.no_reuse, "--ssl-no-reuse".to_owned());
    put(arguments.method != "GET", format!("--method={}", arguments.method));
    put(true, format!("--num-conns={} --num-calls={}", arguments.connections, arguments.calls));
    line
}

/// Makes the run and prints what httperf prints.
fn measure(program: &str, arguments: &Arguments, mut options: Options) -> anyhow::Result<ExitCode> {
    print(&format!("{}\n", repeated(arguments)))?;
    let stop = Stop::on_signals()?;
    let control = Arc::new(Control::default());
    let (watch, shared) = Watch::new();
    options.observers = vec![Box::new(watch)];
    let before = cpu();
    let report = match limited(options, &control, &stop, None, || {}) {
        Ok(report) => report,
        Err(error) => return Ok(failed(program, &error.to_string())),
    };
    let after = cpu();
    let mut counts = shared.lock().unwrap_or_else(PoisonError::into_inner);
    // Arrivals that found no connection left: the original would have run out of descriptors.
    counts.no_descriptors += report.dropped;
    let elapsed_s = counts.last_ns.saturating_sub(counts.begin_ns) as f64 / 1e9;
    let cpu = Cpu { user_s: after.user_s - before.user_s, system_s: after.system_s - before.system_s };
    // Arrivals are issued one at a time, each at its own time.
    print(&format!("Maximum connect burst length: 1\n{}", report::report(&counts, elapsed_s, cpu)))?;
    if arguments.verbose > 0 {
        report.warnings.iter().for_each(|warning| eprintln!("weir: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// CPU time of this process so far.
fn cpu() -> Cpu {
    // SAFETY: an all-zero `rusage` is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for the result; asked for this process, the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Cpu { user_s: seconds(usage.ru_utime), system_s: seconds(usage.ru_stime) }
}
