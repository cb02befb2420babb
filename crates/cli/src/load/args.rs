//! The arguments of `weir load`.

use super::baseline::BaselineArgs;
use super::find_max::FindMaxArgs;
use super::gate_files::GateArgs;
use super::grpc::GrpcArgs;
use super::judge::JudgeArgs;
use super::load_args::LoadArgs;
use super::outputs::OutputArgs;
use super::websocket::MessageArgs;
use super::workers::WorkersArgs;
use crate::described::DescribedArgs;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
  weir load --http3 --streams 20 https://localhost:8443/
      HTTP/3, 20 requests at a time on each connection
  weir load --http3 --no-keepalive --resume --early-data https://localhost:8443/
      HTTP/3, sessions resumed, requests in 0-RTT
  weir load --http3 --migrate-every 2s https://localhost:8443/
      HTTP/3, each connection moving to another port every 2 s
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
  weir load --stream --slo 'first-event p95<300ms' --slo 'between p99<50ms' URL
      streamed answers: server-sent events, NDJSON, tokens of a language model
  weir load --stream --between-at-most 2s --stream-for 20s -c 500 URL
      event streams without end: each is left after 20 s, and fails if it stalls
  weir load --rate 500 -c 100 --message-size 1KB ws://localhost:8080/chat
      500 messages a second over 100 WebSockets, each answered by one
  weir load --streams 25 --message @m.json grpc://HOST:50051/greet.Greeter/Hello
      calls of gRPC, 250 at a time; the server's reflection tells the method
  weir load --proto t.proto --message @m.ndjson grpcs://HOST:50051/talk.T/Talk
      both sides stream: each line goes out when the one before was answered
  weir load --json http://localhost:8080/ | jq .latency_ns.p99
      figures for a program
  weir load --traceparent http://localhost:8080/
      each request says its trace (W3C); the report lists the slowest ten
  weir load --hgrm latency.hgrm --hdr-log latency.hlog http://localhost:8080/
      files that the tools of HdrHistogram read
  weir load --ndjson - -d 10m http://localhost:8080/ | jq .latency_ns.p99
      figures of each interval as it ends
  weir load -d 10m --csv times.csv --html report.html http://localhost:8080/
      rate, errors and percentiles of each second, as a table and as a page
  weir load --rate 500 --slo 'p99<50ms' --ok 200-399,404 URL
      judge the run, 404 being a success: exit status 3 if it misses
  weir load --urls mix.txt --slo 'errors<1%' --slo 'GET /cart: p95<200ms' URL
      several objectives, one of them of some of the requests
  weir load --check 'header content-type~json' --check 'json .ok=true' URL
      responses that are not so are no successes; exit status 3 if any is not
  weir load --slo 'p99<50ms' --junit load.xml --markdown load.md --github URL
      the same for a build: test results, a comment, annotations
  weir load -d 60s --baseline main.json --fail-on 'p99 worse than 10%' URL
      fail if it is surely worse than an earlier --json report
  weir load --find-max --slo 'p99<50ms' http://localhost:8080/
      the highest rate that holds the objective
  weir load --from openapi.yaml http://localhost:8080/
      the safe operations of a description; also of a collection of Postman,
      lines of curl, a plan of JMeter, an HTTP Archive (weir scenario --from)
  weir load --workers host1,host2,local:2 -c 400 --rate 20000 URL
      two hosts (by ssh) and two processes here make one run, with one report
  weir load --compare './server old.conf' './server new.conf' -d 1m URL
      which of two servers is cheaper, by turns; more in weir compare

Latency counts from the time at which a request was intended (with --rate: by
the schedule), so a server that stalls cannot hide it by holding the generator
back. `uncorrected` counts from when the request was really sent, or from the
connect call where it opened its connection.

A success is a whole response of status 2xx or 3xx, or of those that --ok names,
which is as each --check asks. Latencies and percentiles are of successes; those
of other responses and of failed requests stand apart. Checks look at the first
1 MiB of a body, as it came; nothing looks at it without them.

Exit status: 0 if any request succeeded, 1 if none did, the server cannot be
reached or a worker was lost, 2 for wrong usage, 3 if the run missed an
objective of --slo or failed a --check; the first line says which.";

/// Load a web server over HTTP/1.1, HTTP/2, HTTP/3, WebSockets or gRPC and report what its users feel.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to load: http:// or https://, host, port, path; ws:// or wss:// for a WebSocket; grpc:// or grpcs:// with
    /// /package.Service/Method for calls of gRPC
    #[arg(required_unless_present_any = ["urls", "sessions", "make_fileset", "compare", "from"])]
    pub(super) url: Option<String>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) described: DescribedArgs,
    #[command(flatten)]
    pub(super) messages: MessageArgs,
    #[command(flatten)]
    pub(super) grpc: GrpcArgs,
    /// Load nothing: write the files of a workload (specweb96, surge) to a directory, as many as --directories or
    /// --files says, or as SPECweb96 prescribes for --rate
    #[arg(long, num_args = 2, value_names = ["NAME", "DIR"], help_heading = "Workload")]
    pub(super) make_fileset: Vec<String>,
    /// Load two servers by turns and judge B against A, as weir compare does: each is a command, or the name of a
    /// ready-made server; the URL is where they answer; -d is the time of it all
    #[arg(long, num_args = 2, value_names = ["A", "B"], help_heading = "Load")]
    pub(super) compare: Vec<String>,
    /// Write the events of every connection and request to this run directory, for `weir explain`, and each second what
    /// the load does now, for `weir console`; with --workers those of all workers
    #[arg(long, value_name = "DIR")]
    pub(super) run: Option<PathBuf>,
    #[command(flatten)]
    pub(super) outputs: OutputArgs,
    #[command(flatten)]
    pub(super) find_max: FindMaxArgs,
    #[command(flatten)]
    pub(super) judge: JudgeArgs,
    #[command(flatten)]
    pub(super) baseline: BaselineArgs,
    #[command(flatten)]
    pub(super) gate: GateArgs,
    #[command(flatten)]
    pub(super) workers: WorkersArgs,
    /// Report as JSON (times in nanoseconds)
    #[arg(long)]
    pub(super) json: bool,
    /// No progress
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// A line of progress every 5 s even where stderr is no terminal; system calls in the report
    #[arg(short, long)]
    pub(super) verbose: bool,
}

/// What a load of a scenario has of the options of other loads.
#[derive(Debug)]
pub(crate) struct Plain<'a> {
    /// What relative addresses begin with.
    pub(crate) url: Option<&'a str>,
    pub(crate) users: Option<u32>,
    pub(crate) requests: Option<u64>,
    pub(crate) duration: Option<Duration>,
    /// Iterations a second.
    pub(crate) rate: Option<f64>,
    pub(crate) slos: Vec<String>,
    pub(crate) is_insecure: bool,
    pub(crate) ca: Option<&'a Path>,
    pub(crate) cpu: Option<usize>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl Args {
    /// The options that say of what a scenario is made.
    pub(crate) fn described(&self) -> &DescribedArgs {
        &self.described
    }

    /// What a scenario is loaded with.
    pub(crate) fn plain(&self) -> Plain<'_> {
        let load = &self.load;
        let is_given = |name: &str| load.given().iter().any(|given| given == name);
        let (is_insecure, ca) = load.trusted();
        Plain {
            url: self.url.as_deref(),
            users: is_given("--connections").then(|| load.connections()),
            requests: load.requests(),
            duration: load.duration(),
            rate: load.rate,
            slos: self.judge.slos().iter().map(ToString::to_string).collect(),
            is_insecure,
            ca,
            cpu: load.cpu(),
            json: self.json,
            quiet: self.quiet,
        }
    }
}
