//! The `weir requests` command: the last requests of a server, searched.

use crate::admin_client::{AdminAddress, encoded};
use crate::table::Table;
use chrono::DateTime;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_report::{clean, nanoseconds};
use weir_terminal::output;

const EXAMPLES: &str = "\
Examples:
  weir requests unix:admin.sock
      the last 100 requests, the latest first, of a server that was started
      with --admin unix:admin.sock
  weir requests unix:admin.sock status=5xx 'duration>100ms'
      those that failed slowly
  weir requests unix:admin.sock client=10.0.0.0/8 'path=/api/**' method=POST
      by client, path and method
  weir requests unix:admin.sock 'status!=200' googlebot
      a word alone is looked for in host, path and user agent
  weir requests -n 4096 --json unix:admin.sock | jq .requests[].path
      all that are kept, for a program

Words are those of `weir watch`: client (address or network), host, path (* is
within a segment, ** anything), method, protocol and agent with = or !=; status
also, bytes and duration only, with <, <=, > and >=. Words with = and the same
key are alternatives, all others have to hold.
Values in queries are left out: the server tells the names of parameters only.

Exit status: 0 if it was read, 1 if the server could not be read or refused,
2 for wrong usage.";

/// Search the last requests of a server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server's --admin address: unix:PATH or ADDRESS:PORT
    #[arg(value_name = "ADDR")]
    source: String,

    /// Words such as status=5xx or path=/api/**
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,

    /// File with the token that an address of TCP requires
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,

    /// Show at most so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a server answers.
#[derive(Debug, Deserialize)]
struct Answer {
    requests: Vec<Past>,
    matching: u64,
    kept: u64,
    missed: u64,
}

#[derive(Debug, Deserialize)]
struct Past {
    began_unix_ms: u64,
    client: String,
    host: String,
    method: String,
    path: String,
    query: String,
    protocol: String,
    status: u16,
    sent_bytes: u64,
    duration_us: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let address = AdminAddress::required(&args.source, args.token.as_deref())?;
    let target = format!("/requests.json?limit={}&filter={}", args.limit, encoded(&args.filter.join(" ")));
    let text = if args.json {
        let mut told = address.json::<serde_json::Value>("GET", &target)?;
        told["schema"] = "weir-requests/1".into();
        format!("{told}\n")
    } else {
        in_words(&address.json("GET", &target)?)
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn in_words(answer: &Answer) -> String {
    let mut table = Table::new(["request", "status", "took", "bytes", "client", "at (UTC)", "protocol"]);
    for past in &answer.requests {
        let query = if past.query.is_empty() { String::new() } else { format!("?{}", past.query) };
        let request = if past.method.is_empty() {
            "(no request that can be read)".to_owned()
        } else {
            format!("{} {}{}{query}", past.method, past.host, past.path)
        };
        table.push([
            clean(&request),
            past.status.to_string(),
            nanoseconds(past.duration_us as f64 * 1e3),
            past.sent_bytes.to_string(),
            past.client.clone(),
            at(past.began_unix_ms),
            past.protocol.clone(),
        ]);
    }
    let mut text = if table.is_empty() {
        format!("none of the {} requests that are kept\n", answer.kept)
    } else {
        table.lines(output::table_columns()).join("\n") + "\n"
    };
    let shown = answer.requests.len() as u64;
    if answer.matching > shown {
        text += &format!("{shown} of {} of the {} that are kept; -n N shows more\n", answer.matching, answer.kept);
    }
    if answer.missed > 0 {
        text += &format!("{} requests were not noted, as the history was being read\n", answer.missed);
    }
    text
}

/// The time (UTC), with milliseconds.
fn at(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(DateTime::from_timestamp_millis);
    time.map_or_else(String::new, |time| time.format("%H:%M:%S%.3f").to_string())
}
