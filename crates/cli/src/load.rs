//! The `weir load` command.

mod asked;
mod blocks;
mod find_max;
mod find_max_words;
mod heading;
mod json;
mod judge;
mod live;
mod outputs;
mod page;
mod prometheus;
mod protocol;
pub(crate) mod reach;
mod replayed;
mod screen;
mod slow;
mod workload;

pub(crate) use asked::number_names;

use self::reach::{OF_REACHING, ReachArgs};
use self::slow::{OF_SLOW, SlowArgs};
use crate::load_run::into_run;
use crate::stop::Stop;
use crate::units::duration;
use anyhow::Context;
use clap::parser::ValueSource;
use find_max::FindMaxArgs;
use heading::Heading;
use json::as_json;
use judge::JudgeArgs;
use outputs::OutputArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir_load::{Io, LoadError, Options, Request, Schedule, StopRule, Trust, Url};
use weir_trace::Run;

pub(crate) use live::{Watch, watched};

const EXAMPLES: &str = "\
Examples:
  weir load http://localhost:8080/
      10 connections for 10 s, as fast as the server answers
  weir load -c 100 -d 30s http://localhost:8080/
      more connections, longer
  weir load --rate 500 http://localhost:8080/
      500 arrivals a second, whether the server keeps up or not
  weir load --rate 500 --poisson --seed 7 http://localhost:8080/
      the same with random gaps, repeatable
  weir load -n 1000 -m POST -H 'Content-Type: text/plain' --body @FILE URL
      1000 requests with a body
  weir load --steps 100/10s,200/10s http://localhost:8080/
      more arrivals step by step; --ramp 100..1000/60s: evenly
  weir load --replay access.log --speed 2 http://localhost:8080/
      what a server's log holds, at its times, twice as fast
  weir load --urls mix.txt http://localhost:8080/
      the requests of a file, by their weights; a line is: 3 GET /index.html
  weir load --sessions users.txt --rate 5 http://localhost:8080/
      five users a second, who click, think and click again
  weir load --make-fileset specweb96 site --directories 10
  weir load --mix specweb96 --directories 10 http://localhost:8080/
      the files of SPECweb96 and its mix
  weir load --mix surge --files 2000 -c 200 -d 60s http://localhost:8080/
      200 users of SURGE, who open pages, wait and open others
  weir load --mix surge --files 2000 --flash-crowd '20*10/9s,5s,30s,30s' URL
      a flash crowd: ten times as many clients for a while
  weir load --no-keepalive http://localhost:8080/
      a new connection for each request
  weir load --http2 --streams 20 https://localhost:8443/
      HTTP/2, 20 requests at a time on each connection
  weir load --http2 --no-keepalive https://localhost:8443/
      HTTP/2, a new connection and handshake for each request
  weir load --ca test-ca.pem https://localhost:8443/
      trust a certificate authority of your own
  weir load --cert me.pem --resume --no-keepalive https://localhost:8443/
      with a client certificate, sessions resumed
  weir load --proxy socks5://user:password@localhost:1080 http://example.org/
  weir load --unix /run/app.sock http://localhost/
      through a proxy; over a Unix socket
  weir load --client 3g -c 200 http://localhost:8080/
      200 users whose lines have the rates and the latency of 3G
  weir load --limit-read 4KB/s --patience exp:8s http://localhost:8080/
      users who read 4000 bytes a second, and stop loading after 8 s on average
  weir load --json http://localhost:8080/ | jq .latency_ns.p99
      figures for a program
  weir load -d 10m --csv times.csv --html report.html http://localhost:8080/
      rate, errors and percentiles of each second, as a table and as a page
  weir load --rate 500 --slo 'p99<50ms' --ok 200-399,404 URL
      judge the run, 404 being a success: exit status 3 if it misses
  weir load --find-max --slo 'p99<50ms' http://localhost:8080/
      the highest rate that holds the objective

Latency counts from the time at which a request was intended (with --rate: by
the schedule), so a server that stalls cannot hide it by holding the generator
back. `uncorrected` counts from when the request was really sent, or from the
connect call where it opened its connection.

A success is a whole response of status 2xx or 3xx, or of those that --ok names.
Latencies and percentiles are of successes; those of other statuses and of
failed requests stand apart.

Exit status: 0 if any request succeeded, 1 if none did or the server cannot be
reached, 2 for wrong usage, 3 if the run missed the objective of --slo.";

/// Load a web server over HTTP/1.1 or HTTP/2 and report what its users feel.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to load: http:// or https://, host, port, path
    #[arg(required_unless_present_any = ["urls", "sessions", "make_fileset"])]
    url: Option<String>,
    #[command(flatten)]
    load: LoadArgs,
    /// Load nothing: write the files of a workload (specweb96, surge) to a directory, as many as --directories or
    /// --files says, or as SPECweb96 prescribes for --rate
    #[arg(long, num_args = 2, value_names = ["NAME", "DIR"], help_heading = "Workload")]
    make_fileset: Vec<String>,
    /// Write the events of every connection and request to this run directory, for `weir explain`
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    find_max: FindMaxArgs,
    #[command(flatten)]
    judge: JudgeArgs,
    /// Report as JSON (times in nanoseconds)
    #[arg(long)]
    json: bool,
    /// No progress
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// A line of progress every 5 s even where stderr is no terminal; system calls in the report
    #[arg(short, long)]
    verbose: bool,
}

/// The options of a load, for every command that makes one.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    // First, as those after it take their values away.
    #[command(flatten)]
    given: Given,
    /// Connections open at a time, at most
    #[arg(short, long, aliases = ["concurrency", "clients"], default_value_t = 10, value_name = "N", help_heading = "Load")]
    connections: u32,
    /// Stop after this many requests; with -d after the time, if that comes first
    #[arg(short = 'n', long, aliases = ["num-requests", "iterations"], value_name = "N", help_heading = "Load")]
    requests: Option<u64>,
    /// Stop after this time: 500ms, 10s, 1m30s [default: 10s]
    #[arg(short, long, short_alias = 'z', value_name = "TIME", value_parser = duration, help_heading = "Load")]
    duration: Option<Duration>,
    /// Open loop: this many arrivals a second, which never wait for completions
    #[arg(long, short_alias = 'R', aliases = ["qps", "rps"], value_name = "R", help_heading = "Load")]
    rate: Option<f64>,
    /// Exponentially distributed times between arrivals
    #[arg(long, help_heading = "Load")]
    poisson: bool,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Load")]
    seed: u64,
    /// Arrivals that may wait in the generator for a connection; more are dropped
    #[arg(long, default_value_t = 100_000, value_name = "N", help_heading = "Load")]
    queue: usize,
    /// A new connection for each request; over HTTP/2 with one stream
    #[arg(long, alias = "disable-keepalive", help_heading = "Load")]
    no_keepalive: bool,
    /// Requests that are sent together on a connection, before their responses (closed loop)
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Load")]
    pipeline: u32,
    #[command(flatten)]
    protocol: protocol::Args,
    /// Threads, each with its own loop
    #[arg(short, long, default_value_t = 1, value_name = "N", help_heading = "Load")]
    threads: u32,
    /// Pin the generator to this CPU (further threads to the next ones)
    #[arg(long, value_name = "N", help_heading = "Load")]
    cpu: Option<usize>,
    /// Interface for network I/O: auto, epoll or io_uring
    #[arg(long, default_value = "auto", value_name = "HOW", value_parser = io, help_heading = "Load")]
    io: Io,
    /// Give up on a connection or a response after this time
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration, help_heading = "Load")]
    timeout: Duration,
    /// Method
    #[arg(
        short, long, short_alias = 'X', default_value = "GET", value_name = "METHOD", value_parser = method,
        help_heading = "Request"
    )]
    method: String,
    /// Header, `Name: value`; may be repeated
    #[arg(short = 'H', long = "header", alias = "headers", value_name = "HEADER", help_heading = "Request")]
    headers: Vec<String>,
    /// Body: the text itself, or @FILE
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "Request")]
    body: Option<String>,
    #[command(flatten)]
    asked: asked::Asked,
    #[command(flatten)]
    workload: workload::Workload,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca", help_heading = "TLS")]
    insecure: bool,
    /// Trust the certificate authorities of this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    reach: ReachArgs,
    #[command(flatten)]
    slow: SlowArgs,
}

/// Which of a load's options were given on the command line, all but the duration, which a recording has, too.
#[derive(Debug, Clone, Default)]
struct Given(Vec<String>);

/// The names of the fields of [`LoadArgs`] that say how to load, and nothing else.
const OF_LOADING: [&str; 18] = [
    "connections",
    "requests",
    "rate",
    "poisson",
    "seed",
    "queue",
    "no_keepalive",
    "pipeline",
    "http2",
    "streams",
    "threads",
    "cpu",
    "timeout",
    "method",
    "headers",
    "body",
    "insecure",
    "ca",
];

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let was_given = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let option = |name: &str| match name {
            "headers" => "--header".to_owned(),
            "http1_0" => "--http1.0".to_owned(),
            name => format!("--{}", name.replace('_', "-")),
        };
        let names = OF_LOADING.into_iter().chain(asked::OF_ASKING).chain(OF_REACHING);
        let names = names.chain(workload::OF_WORKLOAD).chain(OF_SLOW);
        Ok(Self(names.filter(was_given).map(option).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Given {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

/// A mistake in how the command was called: exit status 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Usage {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl LoadArgs {
    /// Seed of the random numbers.
    fn seed(&self) -> u64 {
        self.seed
    }

    /// How long, if that was said.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// The options that were given and mean nothing unless something is loaded.
    pub(crate) fn given(&self) -> &[String] {
        &self.given.0
    }

    /// The options that these arguments mean for a URL; none is needed where they name their URLs themselves.
    pub(crate) fn options(&self, url: Option<&str>) -> Result<Options, Usage> {
        let base = self.asked.base(url)?;
        // Where there is none, the first of the list takes this one's place.
        let mut options = Options::new(base.clone().map_or_else(|| Url::parse("http://localhost/"), Ok)?);
        options.connections = self.connections;
        options.threads = self.threads;
        options.protocol = self.protocol.protocol();
        options.pipeline = self.pipeline;
        options.queue = self.queue;
        options.keep_alive = !self.no_keepalive;
        options.timeout = self.timeout;
        options.cpu = self.cpu;
        options.io = self.io;
        options.schedule = match self.rate {
            None => Schedule::Closed,
            Some(rate_per_s) if self.poisson => Schedule::Poisson { rate_per_s, seed: self.seed },
            Some(rate_per_s) => Schedule::Fixed { rate_per_s },
        };
        options.stop = match (self.requests, self.duration) {
            (Some(requests), Some(time)) => StopRule::Either { requests, time },
            (Some(requests), None) => StopRule::Requests(requests),
            (None, Some(time)) => StopRule::Duration(time),
            (None, None) => options.stop,
        };
        options.trust = match &self.ca {
            _ if self.insecure => Trust::Anything,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        options.reach = self.reach.reach();
        options.slow = self.slow.slow(self.seed);
        options.request = Request {
            method: self.method.clone(),
            headers: self.headers.iter().map(|header| Request::header(header)).collect::<Result<_, _>>()?,
            body: match self.body.as_deref() {
                None => Vec::new(),
                Some(text) => match text.strip_prefix('@') {
                    Some(file) => std::fs::read(file).with_context(|| format!("--body: cannot read {file}"))?,
                    None => text.as_bytes().to_vec(),
                },
            },
            ..Request::default()
        };
        self.asked.apply(&mut options, base.as_ref(), self.seed)?;
        self.workload.apply(&mut options, base.as_ref(), self.seed)?;
        let has_end = self.requests.is_some() || self.duration.is_some();
        let when = asked::When { poisson: self.poisson, seed: self.seed, has_end };
        self.asked.schedule(&mut options, base.as_ref(), when)?;
        self.workload.schedule(&mut options, when, self.given())?;
        options.check()?;
        Ok(options)
    }
}

/// Runs the command.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments whole")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let done = load(&args);
    if let (true, Err(error)) = (args.json, &done)
        && let Some(cause) = error.chain().find_map(|cause| cause.downcast_ref::<LoadError>())
    {
        crate::output::print(&format!("{:#}\n", json::not_made(cause, args.url.as_deref())))?;
    }
    done
}

fn load(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.make_fileset.is_empty() {
        return workload::make(args);
    }
    if args.find_max.wanted() {
        let url = args.url.as_deref();
        return find_max::run(&args.find_max, &args.judge, &args.load, url, &args.outputs, args.json, args.quiet);
    }
    let options = args.load.options(args.url.as_deref()).and_then(|mut options| {
        args.outputs.apply(&mut options);
        args.judge.apply(&mut options);
        options.check()?;
        args.outputs.check()?;
        Ok(options)
    });
    let options = match options {
        Ok(options) => options,
        Err(Usage(error)) => {
            eprintln!("weir load: {}", crate::output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    let heading = Heading::of(&options);
    let stop = Stop::on_signals()?;
    let title = format!("{}  {}", heading.url, heading.manner);
    let exporter = args.outputs.exporter(&heading.url)?;
    let watch = Watch { quiet: args.quiet, verbose: args.verbose, title, exporter };
    let report = match &args.run {
        Some(directory) => into_run(options, &Run::create(directory)?, &stop, &watch)?,
        None => watched(options, &stop, &watch)?,
    };
    if let Some(exporter) = &watch.exporter {
        exporter.finish(&report)?;
    }
    let verdict = args.judge.verdict(&report);
    args.outputs.write(&report, &heading, verdict.as_ref())?;
    if args.json {
        crate::output::print(&format!("{:#}\n", as_json(&report, &heading, verdict.as_ref())))?;
    } else {
        let colours = screen::Colours::of_stdout();
        crate::output::print(&screen::text(&report, &heading, verdict.as_ref(), args.verbose, colours))?;
    }
    Ok(judge::exit_code(&report, verdict.as_ref()))
}

/// A method; one of digits would be the streams of another tool (h2load -m).
/// A method without a letter, such as the `-m 100` of other load generators.
#[derive(Debug, thiserror::Error)]
#[error("a method is a word such as GET or POST; requests at a time on a connection of HTTP/2 are --streams N")]
struct NoMethod;

fn method(word: &str) -> Result<String, NoMethod> {
    if word.bytes().any(|byte| byte.is_ascii_alphabetic()) { Ok(word.to_owned()) } else { Err(NoMethod) }
}

fn io(word: &str) -> Result<Io, String> {
    let found = [Io::Auto, Io::Epoll, Io::Uring].into_iter().find(|io| io.name() == word);
    found.ok_or_else(|| "it is auto, epoll or io_uring".to_owned())
}

#[cfg(test)]
mod tests {
    use super::json::summary;
    use super::*;
    use clap::Parser;
    use serde_json::{Value, json};
    use std::io::{Read, Write};
    use weir_load::Control;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn options(arguments: &[&str]) -> Result<Options, String> {
        let cli = Cli::try_parse_from([&["load"], arguments].concat()).map_err(|error| error.to_string())?;
        cli.args.load.options(cli.args.url.as_deref()).map_err(|Usage(error)| format!("{error:#}"))
    }

    #[test]
    fn arguments_become_options() {
        let plain = options(&["http://h/"]).expect("the least that is needed");
        assert_eq!((plain.connections, plain.stop), (10, StopRule::Duration(Duration::from_secs(10))));
        assert_eq!(plain.schedule, Schedule::Closed);
        let line = "-c 3 -n 7 --rate 2.5 --poisson --seed 9 -m POST -H X:y --body text --no-keepalive --insecure https://h:1/p";
        let full = options(&line.split(' ').collect::<Vec<_>>()).expect("all that there is");
        assert_eq!((full.connections, full.stop, full.keep_alive), (3, StopRule::Requests(7), false));
        assert_eq!(full.schedule, Schedule::Poisson { rate_per_s: 2.5, seed: 9 });
        assert_eq!((full.request.body.as_slice(), full.trust), (&b"text"[..], Trust::Anything));
        let both =
            options(&["-n", "7", "-d", "1m30s", "--cookie", "a=b; c=d;", "http://h/"]).expect("both ends of a run");
        assert_eq!(both.stop, StopRule::Either { requests: 7, time: Duration::from_secs(90) });
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(both.requests.cookies, [pair("a", "b"), pair("c", "d")]);
    }

    #[test]
    fn mistakes_are_explained() {
        let mistake = |line: &str| options(&line.split(' ').collect::<Vec<_>>()).expect_err(line);
        assert!(mistake("localhost:80/x").contains("did you mean http://localhost:80/x?"));
        assert!(mistake("--cookie sid http://h/").contains("NAME=VALUE"));
        assert!(mistake("-m 10 http://h/").contains("a method is a word"));
        assert!(mistake("--poisson http://h/").contains("--rate"));
        assert!(mistake("--pipeline 2 --rate 1 http://h/").contains("closed loop"));
        assert!(mistake("-H nothing http://h/").contains("Name: value"));
        assert!(mistake("--body @/no/such/file http://h/").contains("/no/such/file"));
    }

    #[test]
    fn the_json_has_its_keys() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("its address"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("one connection");
            assert!(stream.read(&mut [0; 1000]).expect("a request") > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("an answer");
            // Until the generator has gone, so that the second request is never an error of the connection.
            stream.read_to_end(&mut Vec::new()).expect("the end");
        });
        let mut options = options(&["-c", "1", "-n", "2", "--timeout", "200ms", &url]).expect("valid");
        options.timeout = Duration::from_millis(200);
        let heading = Heading::of(&options);
        let report = weir_load::run(options, &Control::default()).expect("a run");
        server.join().expect("no panic");
        let value = as_json(&report, &heading, None);
        let keys: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
        let mut expected = vec![
            "ok",
            "success_rate",
            "successes",
            "successes_per_s",
            "successes_in_time",
            "unexpected",
            "objective",
            "requests_in_time",
            "abandoned",
            "interrupted",
            "took_s",
            "bytes_in_time",
            "bytes_per_s",
            "latency_unexpected_ns",
            "latency_failed_ns",
            "resent",
            "requests",
            "dropped",
            "errors",
            "stopped",
            "duration_s",
            "rate_per_s",
            "bytes",
            "status",
            "latency_ns",
            "latency_curve_ns",
            "latency_uncorrected_ns",
            "first_byte_ns",
            "connect_ns",
            "generator",
            "fairness",
            "reconnects",
            "series",
            "sessions",
            "handshakes",
            "reasons",
            "tolerated",
            "goaways",
            "mix",
            "warnings",
            "url",
            "connections",
            "http_version",
            "streams",
            "rate_wanted_per_s",
            "version",
        ];
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(
            (&value["requests"], &value["errors"], &value["status"]),
            (&json!(1), &json!({"timeout": 1}), &json!({"200": 1}))
        );
        let latency = value["latency_ns"].as_object().expect("an object");
        assert_eq!(latency.len(), 8);
        assert_eq!(value["latency_curve_ns"][0], json!([0.0, latency["min"]]));
        assert!(latency["p99_9"].is_u64() && latency["mean"].is_number());
        assert_eq!(summary(&weir_load::Histogram::new(3).expect("three digits")), Value::Null);
        let screen = screen::text(&report, &heading, None, true, screen::Colours::of_stdout());
        assert!(screen.contains("errors     timeout: 1") && screen.contains("closed loop"), "{screen}");
    }
}
