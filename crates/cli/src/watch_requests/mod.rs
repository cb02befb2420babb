//! The `weir watch` command: requests of a running `weir serve` step by step, or of any server as its sockets show them.

mod connection;
mod found;
mod page;
mod sockets;
mod text;

use crate::admin_client::AdminAddress;
use crate::record::TargetArgs;
use crate::rung::RungArgs;
use anyhow::{Context, bail};
pub(crate) use connection::USUAL_CATEGORIES;
use connection::{Lines, Next, USUAL_BUDGET, target};
pub(crate) use page::of_page;
use serde_json::Value;
use sockets::Sockets;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_server::{FilterKey, RequestFilter, WatchCategories};
use weir_terminal::output;
use weir_terminal::stop::Stop;
use weir_terminal::units::counted;

const EXAMPLES: &str = "\
Examples:
  weir watch
      every request of the only server of this host that has --admin unix:PATH
  weir watch --admin unix:admin.sock status=5xx
      those that fail
  weir watch --admin unix:admin.sock 'path=/api/**' 'duration>100ms'
      slow ones below a path; quotes keep the shell from reading the signs
  weir watch --admin 127.0.0.1:9100 --token token client=10.0.0.0/8
      over TCP, of the clients of a network
  weir watch --show all -n 1 host=example.org
      one request with all that is known of it
  weir watch --show head,bodies method=POST path=/login
      with what clients send and get, if the server was started with
      --admin-may bodies: passwords, too
  weir watch --json upstream=app | jq .upstream.steps
      for a program
  weir watch --show rules rule=flash
      those about which the rule flash of the policy decided
  sudo weir watch --port 80 'duration>100ms'
      slow requests of any other server, and what each waited for

A filter has words KEY=VALUE and KEY!=VALUE; of status, bytes and duration also
with <, <=, > and >=. Keys: client (address or network), host, path (* is within
a segment, ** anything), method, protocol, agent, status (404, 5xx, 400-499),
bytes, duration, upstream, rule (route:3, /api/, policy, or a rule of the policy
by its name) and session (a connection). Words with = and the same key are
alternatives, all others have to hold; a word alone is looked for in host, path
and user agent.
A request is shown when it is over, also one that was under way before, of which
only what comes is told; weir connections lists those under way. Credentials,
cookies, queries and values of unknown fields are never shown; bodies, as they
are, only by --show bodies of a server that was started with --admin-may bodies.

Exit status: 0 if it was ended by Ctrl-C or after -n requests, 1 if there is no
server or it went away, 2 if the filter or an option cannot be used.";

/// Show requests of a running server as they are answered: step by step those of weir serve, by its sockets those of any
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which requests; without words all of them
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,

    /// The server's --admin address, unix:PATH or ADDRESS:PORT; without it, that of the only server of this host
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,

    /// File with the token that the address requires: over TCP always
    #[arg(long, value_name = "FILE", requires = "admin")]
    token: Option<PathBuf>,

    /// What is shown, a list: network, head, routes, cache, file, script, upstream, rules, arm, response, timing, or all;
    /// bodies only by name, and by a right of the server
    #[arg(long, value_name = "LIST", default_value = USUAL_CATEGORIES)]
    show: WatchCategories,

    /// Bytes a second that the server writes at most; what has no room is left out and counted
    #[arg(long, value_name = "BYTES", default_value_t = USUAL_BUDGET, value_parser = clap::value_parser!(u32).range(1024..=1_048_576))]
    budget: u32,

    /// End after this many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// Print JSON, a line for each request (docs/reference/watch-stream.md)
    #[arg(long)]
    json: bool,

    /// A port that speaks TLS, beside 443 and 8443; with --port and the like
    #[arg(long, value_name = "N")]
    tls_port: Vec<u16>,

    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    rung: RungArgs,
}

/// How much was shown and how much was not.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    shown: u64,
    left_out: u64,
    dropped: u64,
}

impl Seen {
    /// Takes note of a line that counts.
    fn count(&mut self, line: &Value) {
        let number = |key: &str| line.get(key).and_then(Value::as_u64);
        (self.left_out, self.dropped) =
            (number("left_out").unwrap_or(self.left_out), number("dropped").unwrap_or(self.dropped));
    }

    fn in_words(self) -> String {
        format!(
            "{} shown, {} left out as the budget had no room (--budget), {} not looked at as too many came",
            counted(self.shown, "request"),
            self.left_out,
            self.dropped
        )
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let filter: RequestFilter = match args.filter.join(" ").parse() {
        Ok(filter) => filter,
        Err(error) => {
            eprintln!("weir watch: {error}");
            return Ok(ExitCode::from(2));
        }
    };
    let stop = Stop::on_signals()?;
    if !args.target.is_empty() {
        if let Some(key) = filter.key_beside(&sockets::KEYS).map(FilterKey::name) {
            eprintln!(
                "weir watch: sockets do not tell the {key} of a request: leave {key} out, or watch a weir serve by --admin"
            );
            return Ok(ExitCode::from(2));
        }
        let named = args.target.named();
        let mut sockets = Sockets::start(&args.rung.ladder(), &named, &args.tls_port, filter, args.requests)?;
        return watch(args, &mut || sockets.next(&stop));
    }
    let admin = match &args.admin {
        Some(admin) => admin.clone(),
        None => found::only_server()?,
    };
    let admin = AdminAddress::required(&admin, args.token.as_deref())?;
    let requests = args.requests.map_or_else(String::new, |requests| format!("&requests={requests}"));
    let target = target(&filter, args.show, args.budget) + &requests;
    let mut lines = Lines::open(&admin, &target, &|| stop.asked())?;
    watch(args, &mut || lines.next(&|| stop.asked())).with_context(|| admin.text().to_owned())
}

/// Shows what comes until it ends.
fn watch(args: &Args, next: &mut dyn FnMut() -> anyhow::Result<Next>) -> anyhow::Result<ExitCode> {
    let has_colours = output::colours();
    let mut seen = Seen::default();
    let of_sockets = !args.target.is_empty();
    loop {
        let line = match next()? {
            Next::Line(line) => line,
            Next::Stopped => {
                eprintln!("weir watch: {}", seen.in_words());
                return Ok(ExitCode::SUCCESS);
            }
            Next::Gone => {
                eprintln!("weir watch: {}", seen.in_words());
                bail!("the server went away");
            }
        };
        let value: Value = serde_json::from_str(&line).context("the server sent what is no line of a watch")?;
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        let text = match kind {
            "request" => {
                seen.shown += 1;
                text::request(&value, has_colours)
            }
            "left" => {
                seen.count(&value);
                text::left(seen.left_out, seen.dropped, has_colours)
            }
            "begin" => {
                let version = value.get("version").and_then(Value::as_u64);
                if version != Some(1) {
                    bail!("its stream is of another version; use the weir that the server is of");
                }
                String::new()
            }
            "end" => {
                seen.count(&value);
                String::new()
            }
            // A later server may tell more.
            _ => String::new(),
        };
        let shown = if args.json { line + "\n" } else { text };
        if !shown.is_empty() && !output::print_while_read(&shown)? {
            return Ok(ExitCode::SUCCESS);
        }
        if kind == "end" {
            eprintln!("weir watch: {}", if of_sockets { sockets::in_words(&value) } else { seen.in_words() });
            return match value.get("why").and_then(Value::as_str) {
                Some("requests" | "stopped") => Ok(ExitCode::SUCCESS),
                Some("server_ended") => bail!("every process of the server has ended"),
                _ => bail!("the server ends"),
            };
        }
    }
}
