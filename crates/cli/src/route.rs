//! The `weir route` command: explains how a configuration routes a request, without a server.

use crate::schemas::Named;
use anyhow::Context;
use chrono::DateTime;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_server::{
    RouteExplanation, RouteQuestion, RouteScript, RouteServer, RouteStep, RouteTable, RouteUpstream, explain_route,
    read_configuration,
};
use weir_terminal::output;

const EXAMPLES: &str = "\
Examples:
  weir route weir.toml http://example.org/blog/1
      which host, routes and tables hold, and what answers
  weir route weir.toml /
      a path of the first host
  weir route weir.toml https://a.org/b --from 10.0.0.7 --at 2026-11-26T08:30:00Z
      for a client, at a time
  weir route weir.toml / -H 'Accept-Language: de' --method POST
      with a field, by another method
  weir route weir.toml / --json | jq .answer
      for a program

The first line is the answer. Nothing is sent and no server needs to run: the
files are looked for, rates are not used up, and passwords are not checked.

Exit status: 0 if the request is answered with content or a redirect, by an
application or by an upstream; 1 if with an error (400 to 599); 2 if the file
or the question cannot be used.";

/// Explain how a configuration routes a request
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration of weir serve
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// http://HOST/PATH, https://HOST/PATH or /PATH
    #[arg(value_name = "URL")]
    url: String,

    /// A field of the request; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// The method
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    method: String,

    /// The client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    from: IpAddr,

    /// When the request comes, such as 2026-11-26T08:30:00Z; without it, now
    #[arg(long, value_name = "TIME", value_parser = unix_s)]
    at: Option<u64>,

    /// Print the explanation as JSON
    #[arg(long)]
    json: bool,
}

fn unix_s(text: &str) -> anyhow::Result<u64> {
    let time = DateTime::parse_from_rfc3339(text);
    let time = time.ok().context("write the time as 2026-11-26T08:30:00Z, or with an offset such as +01:00")?;
    u64::try_from(time.timestamp()).context("give a time after 1970")
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = match read_configuration(&args.file) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(2));
        }
    };
    let fields = args.header.iter().map(|field| {
        let (name, value) = field.split_once(':').unwrap_or((field, ""));
        (name.to_owned(), value.trim().to_owned())
    });
    let mut question = RouteQuestion::new(&args.url);
    question.fields = fields.collect();
    question.method.clone_from(&args.method);
    question.client = args.from;
    question.unix_s = args.at;
    let told = match explain_route(&options, &question) {
        Ok(told) => told,
        Err(error) => {
            eprintln!("weir route: {error}");
            return Ok(ExitCode::from(2));
        }
    };
    if args.json {
        output::print(&(serde_json::to_string_pretty(&Named::new("weir-route/1", &told))? + "\n"))?;
    } else {
        output::print(&text(&told, std::io::stdout().is_terminal()))?;
    }
    let is_error = told.answer.status.is_some_and(|status| status >= 400);
    Ok(ExitCode::from(u8::from(is_error)))
}

/// The explanation for people; the first line is the answer.
fn text(told: &RouteExplanation, has_colours: bool) -> String {
    let paint = |code: &str, text: &str| {
        if has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let colour = match told.answer.status {
        None | Some(..300) => "32",
        Some(300..400) => "36",
        Some(400..) => "31",
    };
    let mut out = paint(colour, &told.answer.in_words()) + "\n";
    if let Some(host) = &told.host {
        let _ = writeln!(out, "\nhost {}: \"{}\" is found by {}", host.name, host.asked, host.found_by);
    }
    if let Some(path) = &told.path {
        let _ = writeln!(out, "path {path}");
    }
    if let Some(client) = told.client {
        let _ = writeln!(out, "client {client}, as a trusted proxy tells");
    }
    section(&mut out, "routes", told.routes.iter().map(|step| step_line(step, &paint)));
    if let Some(mapped) = &told.mapped {
        let _ = writeln!(out, "\nthe tables are asked for {mapped}");
    }
    section(&mut out, "tables", told.tables.iter().map(table_line));
    section(&mut out, "upstream", told.answer.upstream.iter().flat_map(upstream_lines));
    section(&mut out, "limits", told.limits.iter().cloned());
    section(&mut out, "fields", told.fields.iter().cloned());
    out
}

fn section(out: &mut String, name: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{name}");
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
}

fn step_line(step: &RouteStep, paint: &impl Fn(&str, &str) -> String) -> String {
    let RouteStep { number, line, act, holds, condition, actual, did } = step;
    let mut text = format!("{number} {act} (line {line}): ");
    if *holds {
        text.push_str(&paint("1", "holds"));
    } else {
        let (condition, actual) = (condition.as_deref().unwrap_or(""), actual.as_deref().unwrap_or(""));
        let _ = write!(text, "no, {condition}; it is {actual}");
    }
    for what in did {
        let _ = write!(text, "; {what}");
    }
    text
}

fn table_line(table: &RouteTable) -> String {
    let RouteTable { table, line, of, says } = table;
    let says = if says.is_empty() { "nothing".to_owned() } else { says.join("; ") };
    format!("{table} (line {line}), for {of}: {says}")
}

/// The servers that are asked, and for what.
fn upstream_lines(upstream: &RouteUpstream) -> Vec<String> {
    let RouteUpstream { speaks, servers, connections_max, is_measured, queue_max, target, script, .. } = upstream;
    let server = |server: &RouteServer| {
        let weight = if server.weight == 1 { String::new() } else { format!(" (weight {})", server.weight) };
        format!("{}{}{weight}", server.place, if server.is_secure { " by TLS" } else { "" })
    };
    let servers: Vec<String> = servers.iter().map(server).collect();
    let measured = if *is_measured { ", as is measured" } else { "" };
    let mut lines = vec![
        format!("{speaks} with {}", servers.join(", ")),
        format!("asked for {target}"),
        format!("at most {connections_max} requests under way with each server{measured}; at most {queue_max} wait"),
    ];
    if let Some(RouteScript { name, path_info, file, exists }) = script {
        let there = match (file, exists) {
            (Some(_), Some(true)) => "is there",
            (Some(_), Some(false)) => "is not there",
            (Some(_), None) => "is looked for by the program, as its root is not on this machine",
            (None, _) => "all paths are for one program",
        };
        let file = file.as_ref().map_or_else(|| "no file: ".to_owned(), |file| format!("script {file}: "));
        lines.push(format!("{file}{there}"));
        if exists != &Some(false) {
            lines.push(format!("SCRIPT_NAME \"{name}\", PATH_INFO \"{path_info}\""));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals() {
        let mut told = RouteExplanation::default();
        told.answer.status = Some(404);
        told.answer.what = "there is no such file".to_owned();
        assert_eq!(text(&told, false), "404: there is no such file\n");
        assert_eq!(text(&told, true), "\x1b[31m404: there is no such file\x1b[0m\n");
    }

    #[test]
    fn times_are_read() {
        assert_eq!(unix_s("1970-01-02T00:00:00Z").expect("a time"), 86_400);
        assert_eq!(unix_s("1970-01-02T01:00:00+01:00").expect("a time"), 86_400);
        assert!(unix_s("08:30").is_err() && unix_s("1969-01-01T00:00:00Z").is_err());
    }
}
