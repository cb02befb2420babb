//! The options of a load.

use super::files::Files;
use super::reach::{OF_REACHING, ReachArgs};
use super::slow::{OF_SLOW, SlowArgs};
use super::streaming::{OF_STREAMING, StreamArgs};
use super::usage::Usage;
use super::{asked, protocol, workload};
use anyhow::Context;
use clap::parser::ValueSource;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_load::{Io, Options, Request, Schedule, StopRule, Trust, Url};
use weir_terminal::units::duration;

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
    pub(super) rate: Option<f64>,
    /// Exponentially distributed times between arrivals
    #[arg(long, help_heading = "Load")]
    poisson: bool,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Load")]
    seed: u64,
    /// Arrivals that may wait in the generator for a connection; more are dropped
    #[arg(long, default_value_t = 100_000, value_name = "N", help_heading = "Load")]
    queue: usize,
    /// A new connection for each request; over HTTP/2 and HTTP/3 with one stream
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
    pub(super) workload: workload::Workload,
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
    #[command(flatten)]
    streaming: StreamArgs,
}

/// Which of a load's options were given on the command line, all but the duration, which a recording has, too.
#[derive(Debug, Clone, Default)]
struct Given(Vec<String>);

/// The names of the fields of [`LoadArgs`] that say how to load, and nothing else.
const OF_LOADING: [&str; 21] = [
    "connections",
    "requests",
    "rate",
    "poisson",
    "seed",
    "queue",
    "no_keepalive",
    "pipeline",
    "http2",
    "http3",
    "streams",
    "early_data",
    "migrate_every",
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
        let names = names.chain(workload::OF_WORKLOAD).chain(OF_SLOW).chain(OF_STREAMING);
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

impl LoadArgs {
    /// Connections open at a time, at most.
    pub(super) fn connections(&self) -> u32 {
        self.connections
    }

    /// The requests after which it ends, if that was said.
    pub(super) fn requests(&self) -> Option<u64> {
        self.requests
    }

    /// The CPU of the generator, if that was said.
    pub(super) fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// Whether any certificate is accepted, and the file of authorities that are trusted.
    pub(super) fn trusted(&self) -> (bool, Option<&Path>) {
        (self.insecure, self.ca.as_deref())
    }

    /// Seed of the random numbers.
    pub(super) fn seed(&self) -> u64 {
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
        self.options_of(url, &Files::Here)
    }

    /// The same, whose files are where `files` says.
    pub(super) fn options_of(&self, url: Option<&str>, files: &Files) -> Result<Options, Usage> {
        let base = self.asked.base(url)?;
        // Where there is none, the first of the list takes this one's place.
        let mut options = Options::new(base.clone().map_or_else(|| Url::parse("http://localhost/"), Ok)?);
        options.connections = self.connections;
        options.threads = self.threads;
        options.protocol = self.protocol.protocol()?;
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
            Some(file) => {
                Trust::File(files.place(file).with_context(|| format!("--ca: cannot read {}", file.display()))?)
            }
            None => Trust::System,
        };
        options.reach = self.reach.reach(files)?;
        options.slow = self.slow.slow(self.seed);
        options.streaming = self.streaming.streaming();
        options.request = Request {
            method: self.method.clone(),
            headers: self.headers.iter().map(|header| Request::header(header)).collect::<Result<_, _>>()?,
            body: match self.body.as_deref() {
                None => Vec::new(),
                Some(text) => match text.strip_prefix('@') {
                    Some(file) => files.read(Path::new(file)).with_context(|| format!("--body: cannot read {file}"))?,
                    None => text.as_bytes().to_vec(),
                },
            },
            ..Request::default()
        };
        self.asked.apply(&mut options, base.as_ref(), self.seed, files)?;
        self.workload.apply(&mut options, base.as_ref(), self.seed)?;
        let has_end = self.requests.is_some() || self.duration.is_some();
        let when = asked::When { poisson: self.poisson, seed: self.seed, has_end };
        self.asked.schedule(&mut options, base.as_ref(), when, files)?;
        self.workload.schedule(&mut options, when, self.given())?;
        options.check()?;
        Ok(options)
    }
}

/// A method without a letter, such as the `-m 100` of other load generators.
#[derive(Debug, thiserror::Error)]
#[error("a method is a word such as GET or POST; requests at a time on a connection of HTTP/2 are --streams N")]
struct NoMethod;

/// A method; one of digits would be the streams of another tool (h2load -m).
fn method(word: &str) -> Result<String, NoMethod> {
    if word.bytes().any(|byte| byte.is_ascii_alphabetic()) { Ok(word.to_owned()) } else { Err(NoMethod) }
}

fn io(word: &str) -> anyhow::Result<Io> {
    let found = [Io::Auto, Io::Epoll, Io::Uring].into_iter().find(|io| io.name() == word);
    found.context("it is auto, epoll or io_uring")
}
