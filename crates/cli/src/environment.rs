//! The `weir env` command: readings of now, forecasts, rules in force and the latest decisions of a server that adapts.

use crate::admin_client::AdminAddress;
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_policy_runtime::{ServerNow, persister};
use weir_store::{Reader, Select};
use weir_terminal::stop::Stop;
use weir_terminal::units::counted;
use weir_terminal::{output, units};

const EXAMPLES: &str = "\
Examples:
  weir env unix:admin.sock
      from a server that was started with --admin unix:admin.sock
  weir env --token token 127.0.0.1:9100
      over TCP, with the file of the token
  weir env environment.db
      from one that was started with --environment environment.db, also after
      its end
  weir env --follow environment.db
      updated each second
  weir env --decisions 200 environment.db
      more of the decisions that were kept
  weir env --json unix:admin.sock | jq .forecasts
      for a program

Exit status: 0 if it was read, 1 if the server or file could not be read.";

/// Show the readings, forecasts, rules in force and decisions of a server that adapts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server's --admin address, unix:PATH or ADDRESS:PORT, or its --environment file
    #[arg(value_name = "ADDR|FILE")]
    source: String,

    /// File with the token that an address of TCP requires
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,

    /// Update it until stopped
    #[arg(long)]
    follow: bool,

    /// Time between updates
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration, requires = "follow")]
    every: Duration,

    /// Show this many decisions; more than 50 only from a file
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    decisions: u32,

    /// Print JSON, with --follow a line for each update
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    loop {
        let mut environment = read(args)?;
        environment["schema"] = "weir-env/1".into();
        let text = if args.json { format!("{environment}\n") } else { in_words(&environment, args.decisions as usize) };
        if !output::print_while_read(&text)? || !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(args.every);
        if stop.asked() {
            return Ok(ExitCode::SUCCESS);
        }
        if !args.json {
            output::print("\n")?;
        }
    }
}

fn read(args: &Args) -> anyhow::Result<Value> {
    let source = &args.source;
    let environment = match AdminAddress::of(source, args.token.as_deref())? {
        Some(address) => match address.ask("GET", "/environment.json")? {
            (200, body) => {
                serde_json::from_str::<Value>(&body).with_context(|| format!("{source}: the answer cannot be read"))?
            }
            (404, _) => bail!("{source}: the server there has no rules; start it with weir serve --policy FILE"),
            (status, _) => bail!("{source}: it answered with status {status}"),
        },
        None => kept(Path::new(source), args.decisions as usize)?,
    };
    ensure!(environment.is_object(), "{source}: nothing is known yet; ask again after the first tick");
    Ok(environment)
}

/// What a server has kept in a file, with as many decisions as are wanted.
fn kept(path: &Path, decisions: usize) -> anyhow::Result<Value> {
    let name = || {
        format!("{}: no environment of a server; weir serve --policy FILE --environment FILE keeps one", path.display())
    };
    let reader = Reader::open(path).with_context(name)?;
    let text = reader.setting(persister::NOW)?.with_context(name)?;
    let mut environment: Value = serde_json::from_str(&text).with_context(name)?;
    let select = Select { class: Some(persister::DECISIONS.to_owned()), ..Select::default() };
    let records = reader.records(&select, decisions)?;
    let kept: Vec<Value> = records.iter().filter_map(|record| serde_json::from_str(&record.body).ok()).collect();
    if !kept.is_empty() {
        environment["decisions"] = kept.into();
    }
    let server: ServerNow = serde_json::from_value(environment["server"].clone()).unwrap_or_default();
    environment["server"]["is_running"] = server.is_running().into();
    let written_ms = environment["at_unix_ms"].as_u64().unwrap_or(0);
    environment["age_ms"] = now_ms().saturating_sub(written_ms).into();
    Ok(environment)
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// As people read it.
fn in_words(environment: &Value, decisions: usize) -> String {
    let text = |value: &Value, at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or("").to_owned();
    let number = |value: &Value, at: &str| value.pointer(at).and_then(Value::as_u64).unwrap_or(0);
    let list = |at: &str| environment.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
    // A server that answers has the clock; what a file has is as old as it is.
    let age_ms = environment["age_ms"].as_u64();
    let now_ms = number(environment, "/at_unix_ms") + age_ms.unwrap_or(0);
    let ago = |ms: u64| weir_adapt::show_ms(now_ms.saturating_sub(ms) / 1000 * 1000);
    let mut out = format!(
        "{} of {}, a tick each {}, {} so far\n",
        counted(number(environment, "/policy/rules"), "rule"),
        text(environment, "/policy/file"),
        weir_adapt::show_ms(number(environment, "/work/tick_ms")),
        number(environment, "/work/ticks"),
    );
    if let Some(age_ms) = age_ms {
        let age = weir_adapt::show_ms(age_ms / 1000 * 1000);
        let pid = number(environment, "/server/pid");
        let server = match environment.pointer("/server/is_running").and_then(Value::as_bool) {
            Some(true) => format!("the server, process {pid}, runs"),
            _ => format!("the server, process {pid}, has ended: none of this holds now"),
        };
        let _ = writeln!(out, "read {age} ago; {server}");
    }
    if let Some(why) = environment.pointer("/policy/refused").and_then(Value::as_str) {
        // Writing to memory does not fail, here and below.
        let _ = writeln!(out, "another policy was refused: {why}");
    }
    out += "\nreadings\n";
    for reading in list("/readings") {
        let (of, resource) = (text(&reading, "/of"), text(&reading, "/resource"));
        let _ = writeln!(out, "  {resource:<10} {:<14} {of}", text(&reading, "/shown"));
    }
    section(
        &mut out,
        "waits",
        list("/waits").iter().map(|wait| {
            let (part, shown, words) = (text(wait, "/part"), text(wait, "/shown"), text(wait, "/words"));
            format!("{part:<14} {shown:<24} {words}")
        }),
    );
    section(
        &mut out,
        "forecasts",
        list("/forecasts").iter().map(|forecast| {
            let of = forecast["atom"].as_str().map_or_else(String::new, |atom| format!(" of {atom}"));
            let methods = forecast["methods"].as_array().into_iter().flatten().map(|method| {
                let mark = if method["is_chosen"] == true { '*' } else { ' ' };
                format!("\n    {mark} {:<13} {}", text(method, "/method"), text(method, "/shown"))
            });
            let methods: String = methods.collect();
            format!("{}{of}: {}{methods}", text(forecast, "/metric"), text(forecast, "/shown"))
        }),
    );
    section(
        &mut out,
        "in force",
        list("/in_force").iter().map(|rule| {
            let since = ago(number(rule, "/since_unix_ms"));
            format!(
                "{} (line {}) for {}, since {since}{}",
                text(rule, "/rule"),
                number(rule, "/line"),
                text(rule, "/subject"),
                rule["readings"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .fold(String::new(), |all, cited| format!("{all}\n      {cited}"))
            )
        }),
    );
    let shown = list("/decisions");
    section(
        &mut out,
        "decisions, the latest first",
        shown.iter().take(decisions).map(|decision| {
            let Ok(decision) = serde_json::from_value::<weir_adapt::Decision>(decision.clone()) else {
                return "one of another version of weir".to_owned();
            };
            let orders = decision.orders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let colon = if orders.is_empty() { "" } else { ": " };
            let readings = decision.readings.iter().map(|cited| format!("\n      {cited}")).collect::<String>();
            let ago = ago(decision.at_ms);
            format!(
                "{ago} ago {} for {} {}{colon}{orders}{readings}",
                decision.rule, decision.subject, decision.outcome
            )
        }),
    );
    let crowd = text(environment, "/crowd/shown");
    section(&mut out, "requests of late", (!crowd.is_empty()).then_some(crowd).into_iter());
    section(
        &mut out,
        "most asked",
        list("/popular").iter().take(10).map(|popular| {
            let (count, error) = (number(popular, "/count"), number(popular, "/error"));
            let bytes = popular["bytes"].as_u64().map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
            let file = bytes + &popular["sha256"].as_str().map_or_else(String::new, |digest| format!(", {digest}"));
            let rate = popular["rate_per_s"].as_f64().map_or_else(String::new, |rate| format!(", {rate:.0} a second"));
            format!(
                "{count:>8}{}{rate} {}{file}",
                if error > 0 { format!(" (at most {error} less)") } else { String::new() },
                text(popular, "/text")
            )
        }),
    );
    let links = ["addresses", "networks"].into_iter().flat_map(|kind| list(&format!("/links/{kind}/freshest")));
    section(
        &mut out,
        "expected of clients",
        links.map(|link| format!("{:<22} {}", text(&link, "/place"), text(&link, "/shown"))),
    );
    let dropped = [
        ("books/paths", "requests for paths that are not followed one by one"),
        ("books/connections", "connections that are not followed"),
        ("books/clients", "requests whose client was not looked at"),
        ("books/undecided", "requests that were answered without advice"),
        ("lines", "lines of the recording"),
        ("records", "looks and decisions for the environment database"),
        ("alerts", "alerts for the webhook"),
        ("errands", "looks, decisions and alerts on their way to the persister"),
        ("decisions", "decisions that were too many to be carried out"),
        ("evicted", "clients that asked for less than others and are not followed"),
    ];
    let dropped = dropped.iter().filter_map(|(what, words)| {
        let count = number(environment, &format!("/dropped/{what}"));
        (count > 0).then(|| format!("{count} {words}"))
    });
    section(&mut out, "dropped or lost", dropped);
    let failing = list("/dropped/failing");
    section(
        &mut out,
        "not kept or told at the moment",
        failing.iter().map(|failing| format!("{}: {}", text(failing, "/what"), text(failing, "/why"))),
    );
    let refused = number(environment, "/refused");
    if refused > 0 {
        let _ = writeln!(out, "\n{refused} requests were refused because rules said so");
    }
    out
}

/// Decisions that a page shows.
const DECISIONS_ON_A_PAGE: usize = 50;

/// The same as people read it, cut into sections: a title, empty for the first, and lines.
pub(crate) fn sections(environment: &Value) -> Vec<(String, Vec<String>)> {
    if !environment.is_object() {
        return vec![(String::new(), vec!["nothing is known yet; that changes with the first tick".to_owned()])];
    }
    let words = in_words(environment, DECISIONS_ON_A_PAGE);
    let titled = words.split("\n\n").enumerate().map(|(at, section)| {
        let mut lines = section.lines().map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned());
        let title = if at == 0 { String::new() } else { lines.next().unwrap_or_default() };
        (title, lines.collect())
    });
    titled.collect()
}

fn section(out: &mut String, name: &str, lines: impl Iterator<Item = String>) {
    for (at, line) in lines.enumerate() {
        if at == 0 {
            let _ = writeln!(out, "\n{name}");
        }
        let _ = writeln!(out, "  {line}");
    }
}
