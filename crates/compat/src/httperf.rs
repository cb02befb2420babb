//! `weir httperf`: httperf's command line and report.

mod arguments;
mod calls;
mod page;
mod parts;
mod period;
mod printing;
mod report;
mod session_driver;
mod setup;
mod uris;
mod watch;
mod workload;

use crate::limited::limited;
use crate::system::{monotonic_ns, open_files_max};
use crate::words::words_as_text;
use arguments::{Arguments, Asked, Work};
use report::Cpu;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use watch::{Inner, Shared};
use weir_load::{Control, Options};
use weir_terminal::output::print;
use weir_terminal::stop::Stop;

const USAGE: &str = "\
Options, which may be shortened while they stay unique:
  --server S | --servers FILE    the server, or a file of them
  --port N --uri S --server-name S --myaddr S --no-host-hdr
  --http-version S --method S --add-header S --add-header-file FILE
  --num-conns N --num-calls N --burst-length N
  --rate X --period [d|e]X|uX,X|vX,X,... --runtime X --client I/N --hog
  --timeout X --think-timeout X
  --wsess N,N,X --wsesslog N,X,FILE --wsesspage N,N,X
  --session-cookies --max-connections N --max-piped-calls N
  --failure-status N --retry-on-failure
  --wlog y|n,FILE --wset N,X
  --send-buffer N --recv-buffer N --close-with-reset
  --print-request[=header|body] --print-reply[=header|body]
  --periodic-stats --use-timer-cache
  --ssl --ssl-ciphers L --ssl-no-reuse --ssl-certificate FILE
  --ssl-key FILE --ssl-ca-file FILE --ssl-ca-path DIRECTORY
  --ssl-verify[=yes|no] --ssl-protocol P --tls-server-name S
  -v -V -h -d N
";

/// Runs the command; `program` is the name that it was called by.
///
/// # Errors
/// Its report cannot be written.
pub fn run(program: &str, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let arguments = match arguments::parse(&words_as_text(words)?) {
        Ok(Asked::Run(arguments)) => arguments,
        Ok(Asked::Help) => {
            return Ok(print(&format!("Usage: {program} [options]\n{USAGE}")).map(|()| ExitCode::SUCCESS)?);
        }
        Ok(Asked::Version) => {
            return Ok(print(&format!("{program}: httperf-0.9.0 as weir {} has it\n", weir_terminal::VERSION))
                .map(|()| ExitCode::SUCCESS)?);
        }
        Err(mistake) => return Ok(failed(program, &mistake.to_string())),
    };
    let shared = Shared::default();
    match setup::options(&arguments, &shared) {
        Ok(options) => measure(program, &arguments, options, &shared),
        Err(mistake) => Ok(failed(program, &mistake.to_string())),
    }
}

/// Says what went wrong; every mistake of httperf's ends with 1.
fn failed(program: &str, what: &str) -> ExitCode {
    eprintln!("{program}: {what}");
    ExitCode::FAILURE
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
    let general = crate::printf::general;
    let option = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{name}={value}"));
    put(arguments.verbose > 0, "--verbose".to_owned());
    for (parts, name) in [(arguments.print_replies, "print-reply"), (arguments.print_requests, "print-request")] {
        put(parts.any(), parts.repeated(name));
    }
    put(arguments.hog, "--hog".to_owned());
    put(arguments.close_with_reset, "--close-with-reset".to_owned());
    put(arguments.think_timeout_s > 0.0, format!("--think-timeout={}", general(arguments.think_timeout_s)));
    put(arguments.timeout_s > 0.0, format!("--timeout={}", general(arguments.timeout_s)));
    arguments.runtime.iter().for_each(|time| put(true, format!("--runtime={}", general(time.as_secs_f64()))));
    put(true, format!("--client={}/{}", client.0, client.1));
    put(arguments.servers.is_none(), format!("--server={server}"));
    option("server_name", &arguments.server_name).into_iter().for_each(|text| put(true, text));
    option("servers", &arguments.servers).into_iter().for_each(|text| put(true, text));
    put(true, format!("--port={} --uri={uri}", setup::port(arguments)));
    arguments.failure_status.iter().for_each(|status| put(true, format!("--failure-status={status}")));
    put(arguments.http_version != "1.1", format!("--http-version={}", arguments.http_version));
    arguments.max_connections.iter().for_each(|most| put(true, format!("--max-connections={most}")));
    arguments.max_piped.iter().for_each(|most| put(true, format!("--max-piped-calls={most}")));
    arguments.period.repeated().into_iter().for_each(|text| put(true, text));
    put(true, format!("--send-buffer={}", arguments.send_buffer));
    put(arguments.retry, "--retry-on-failure".to_owned());
    put(true, format!("--recv-buffer={}", arguments.recv_buffer));
    put(arguments.cookies, "--session-cookies".to_owned());
    put(arguments.ssl, "--ssl".to_owned());
    put(!arguments.tls.ciphers.is_empty(), format!("--ssl-ciphers={}", arguments.tls.ciphers.join(":")));
    put(arguments.tls.no_reuse, "--ssl-no-reuse".to_owned());
    put(arguments.header.is_some(), format!("--add-header='{}'", arguments.header.as_deref().unwrap_or_default()));
    option("add-header-file", &arguments.header_file).into_iter().for_each(|text| put(true, text));
    option("method", &arguments.method).into_iter().for_each(|text| put(true, text));
    put(arguments.timer_cache, "--use-timer-cache".to_owned());
    match &arguments.work {
        Work::Listed(sessions, think, file) => put(true, format!("--wsesslog={sessions},{think:.3},{file}")),
        Work::Pages(sessions, pages, think) => put(true, format!("--wsesspage={sessions},{pages},{think:.3}")),
        work => {
            match work {
                Work::Bursts(sessions, calls, think) => put(true, format!("--wsess={sessions},{calls},{think:.3}")),
                _ => put(true, format!("--num-conns={} --num-calls={}", arguments.connections, arguments.calls)),
            }
            put(arguments.burst != 1, format!("--burst-length={}", arguments.burst));
            arguments.set.iter().for_each(|(files, rate)| put(true, format!("--wset={files},{rate:.3}")));
        }
    }
    put(arguments.periodic, "--periodic-stats".to_owned());
    line
}

/// Makes the run and prints what httperf prints.
fn measure(program: &str, arguments: &Arguments, options: Options, shared: &Shared) -> anyhow::Result<ExitCode> {
    print(&format!("{}\n", repeated(arguments)))?;
    if arguments.verbose > 0 {
        print(&format!("httperf: maximum number of open descriptors = {}\n", open_files_max()))?;
    }
    let stop = Stop::on_signals()?;
    let control = Arc::new(Control::default());
    let before = cpu();
    let has_sessions = arguments.work != Work::Connections;
    let mut told = 0;
    let tick = || {
        if arguments.verbose > 0 || arguments.periodic {
            let samples = whole_samples(shared, &mut told, has_sessions);
            // Where stdout fails now, the report fails, too, and that error is shown.
            let _ = print(&samples);
        }
    };
    let report = match limited(options, &control, &stop, arguments.runtime, tick) {
        Ok(report) => report,
        Err(error) => return Ok(failed(program, &error.to_string())),
    };
    let after = cpu();
    let mut inner = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let Inner { counts, .. } = &mut *inner;
    if let Some(runtime) = arguments.runtime {
        // It ends then, whether something was under way or not.
        let end_ns = counts.begin_ns.saturating_add(u64::try_from(runtime.as_nanos()).unwrap_or(u64::MAX));
        if monotonic_ns() >= end_ns {
            counts.last_ns = end_ns;
        }
    }
    let elapsed_s = counts.last_ns.saturating_sub(counts.begin_ns) as f64 / 1e9;
    let cpu = Cpu { user_s: after.user_s - before.user_s, system_s: after.system_s - before.system_s };
    let lifetimes = if arguments.verbose > 1 { report::lifetimes(counts) } else { String::new() };
    let sessions = if has_sessions { report::sessions(counts, elapsed_s) } else { String::new() };
    let text = report::report(counts, elapsed_s, cpu);
    print(&format!("Maximum connect burst length: {}\n{lifetimes}{text}{sessions}", counts.burst_max))?;
    if arguments.verbose > 0 {
        report.warnings.iter().for_each(|warning| eprintln!("weir: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of samples that are whole and were not told yet.
fn whole_samples(shared: &Shared, told: &mut usize, with_sessions: bool) -> String {
    let inner = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = &inner.counts;
    if counts.begin_ns == 0 {
        return String::new();
    }
    let whole = counts.whole_samples(monotonic_ns().saturating_sub(counts.begin_ns));
    let text = (*told..whole).map(|sample| report::sample(counts, sample, with_sessions)).collect();
    *told = whole;
    text
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
