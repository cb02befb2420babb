//! The `weir connections` command: who is connected to a server now, and the end of some of that.

use crate::admin_client::{AdminAddress, encoded};
use crate::table::Table;
use serde::Deserialize;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_report::{clean, nanoseconds};
use weir_terminal::output;
use weir_terminal::units::counted;

const EXAMPLES: &str = "\
Examples:
  weir connections unix:admin.sock
      who is connected to a server that was started with --admin
      unix:admin.sock: the busy ones first, then the oldest
  weir connections --client 192.0.2.7 unix:admin.sock
      the connections of one address
  weir connections --stop 0-17 unix:admin.sock
      end a connection, by the id that stands in its row
  weir connections --stop 0-17/5 unix:admin.sock
      end one request of it, by the number of its stream (HTTP/2, HTTP/3)
  weir connections --stop-client 192.0.2.7 unix:admin.sock
      end all connections of an address; it may connect again
  weir connections --json unix:admin.sock | jq '.connections[].client'
      for a program

To end something the server must be started with --admin-may stop.
A response that is cut off ends with a reset, so that no client takes it for
whole.

Exit status: 0 if it was read or ended, 1 if the server could not be read or
refused, or there is no such connection, 2 for wrong usage.";

/// Show who is connected to a server, and end connections or requests.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server's --admin address: unix:PATH or ADDRESS:PORT
    #[arg(value_name = "ADDR")]
    source: String,

    /// File with the token that an address of TCP requires
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,

    /// Show the connections of this address
    #[arg(long, value_name = "ADDRESS")]
    client: Option<IpAddr>,

    /// End this connection, or with /STREAM one request of it
    #[arg(long, value_name = "ID", conflicts_with = "stop_client")]
    stop: Option<String>,

    /// End all connections of this address
    #[arg(long, value_name = "ADDRESS")]
    stop_client: Option<IpAddr>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a server answers.
#[derive(Debug, Deserialize)]
struct Answer {
    connections: Vec<Connection>,
    left_out: u64,
    silent_loops: u64,
}

#[derive(Debug, Deserialize)]
struct Connection {
    id: String,
    client: String,
    protocol: String,
    is_secure: bool,
    age_ms: u64,
    state: String,
    requests: Option<u64>,
    received_bytes: Option<u64>,
    sent_bytes: Option<u64>,
    under_way: Vec<UnderWay>,
}

#[derive(Debug, Deserialize)]
struct UnderWay {
    stream: Option<u64>,
    request: Option<String>,
    sent_bytes: u64,
}

/// What became of an order.
#[derive(Debug, Deserialize)]
struct Stopped {
    connections: u64,
    requests: u64,
    silent_loops: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let address = AdminAddress::required(&args.source, args.token.as_deref())?;
    let order = match (&args.stop, args.stop_client) {
        (Some(id), _) if id.contains('/') => Some(format!("/stop?request={}", encoded(id))),
        (Some(id), _) => Some(format!("/stop?connection={}", encoded(id))),
        (None, Some(client)) => Some(format!("/stop?client={}", encoded(&client.to_string()))),
        (None, None) => None,
    };
    let of = args.client.map_or_else(String::new, |client| format!("?client={}", encoded(&client.to_string())));
    let target = format!("/connections.json{of}");
    let text = match order {
        Some(order) => ended(&address.json("POST", &order)?),
        None if args.json => {
            let mut told = address.json::<serde_json::Value>("GET", &target)?;
            told["schema"] = "weir-connections/1".into();
            format!("{told}\n")
        }
        None => in_words(&address.json("GET", &target)?),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn ended(stopped: &Stopped) -> String {
    let mut parts = Vec::new();
    if stopped.connections > 0 {
        parts.push(counted(stopped.connections, "connection"));
    }
    if stopped.requests > 0 {
        parts.push(counted(stopped.requests, "request"));
    }
    let mut text = if parts.is_empty() { String::new() } else { format!("ended {}\n", parts.join(", ")) };
    text += &silent(stopped.silent_loops);
    text
}

fn silent(loops: u64) -> String {
    if loops == 0 { String::new() } else { format!("{} did not answer within a second\n", counted(loops, "loop")) }
}

fn in_words(answer: &Answer) -> String {
    let mut table =
        Table::new(["client", "id", "protocol", "since", "requests", "received", "sent", "state", "under way"]);
    for connection in &answer.connections {
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let protocol = if connection.is_secure { "+TLS" } else { "" };
        table.push([
            connection.client.clone(),
            connection.id.clone(),
            format!("{}{protocol}", connection.protocol),
            nanoseconds(connection.age_ms as f64 * 1e6),
            number(connection.requests),
            number(connection.received_bytes),
            number(connection.sent_bytes),
            connection.state.clone(),
            clean(&under_way(&connection.under_way)),
        ]);
    }
    let mut text = if table.is_empty() {
        "no client is connected\n".to_owned()
    } else {
        table.lines(output::table_columns()).join("\n") + "\n"
    };
    if answer.left_out > 0 {
        text += &format!("and {}; --client ADDRESS shows fewer\n", counted(answer.left_out, "more connection"));
    }
    text + &silent(answer.silent_loops)
}

/// The first request under way, and how many more.
fn under_way(all: &[UnderWay]) -> String {
    let Some(first) = all.first() else { return String::new() };
    let stream = first.stream.map_or_else(String::new, |stream| format!("/{stream} "));
    let request = first.request.as_deref().unwrap_or("a request");
    let more = if all.len() > 1 { format!(" and {} more", all.len() - 1) } else { String::new() };
    format!("{stream}{request}, {} bytes sent{more}", first.sent_bytes)
}
