//! `weir top`: the servers of this host, what each does and what its responses wait for.

mod json;
mod keyboard;
mod live;
mod order;
mod rhythm;
mod screen;

use crate::known_programs::may_serve;
use crate::rung::RungArgs;
use order::Sort;
use rhythm::Rhythm;
use std::io::IsTerminal;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;
use weir_record::live::Live;
use weir_terminal::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  weir top
      all servers of this host, updated every 2 s; q or Ctrl-C ends it
  weir top --sort p99 --interval 10s
      the slowest first; requests of up to some seconds are seen whole
  weir top --once | head
      one table of text
  weir top --json -n 30 | jq -c '.servers[0] | {name, rate_per_s, p99_ns}'
      a line of JSON for each of 30 intervals

On a terminal: q ends it; r, p, e, c, n sort by rate, p99, errors, the largest
cause, the name; up and down (or k and j) choose a server, whose causes stand
below the table, and Escape chooses none.

A response counts from the arrival of its request's first byte at the server's
socket to its last send. CAUSE is the largest part of the mean response, as
`weir explain` has it. UNANSWERED counts requests whose connection closed
without an answer, 5XX those with such a status where it is known: over HTTP/2
and 3; of HTTP/1.1 no socket shows it (-). CUT counts requests that were under
way at an edge of the interval and are in no other figure.

The last line says what observing costs: the CPU time of this program, and what
the probes take of the servers at most. A busy host is recorded for a part of
each interval only: until 262,144 events have come.

Needs what `weir explain --port` needs: see `weir doctor explain`.

Exit status: 0, 1 if nothing can be recorded, 2 for wrong usage.";

/// Show what the servers of this host do and what their responses wait for, live.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How often to update the table, 500ms or longer
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,

    /// Print so many tables, then end
    #[arg(short = 'n', long = "count", value_name = "N")]
    count: Option<NonZeroU32>,

    /// Print one table, then end
    #[arg(long, conflicts_with = "count")]
    once: bool,

    /// Print a line of JSON for each interval
    #[arg(long)]
    json: bool,

    /// Order of the servers
    #[arg(long, value_enum, default_value_t = Sort::Rate)]
    sort: Sort,

    /// A port that speaks TLS, beside 443 and 8443
    #[arg(long, value_name = "N")]
    tls_port: Vec<u16>,

    #[command(flatten)]
    rung: RungArgs,
}

/// The shortest interval: attaching probes takes up to 0.3 s.
const INTERVAL_MIN: Duration = Duration::from_millis(500);

fn interval(text: &str) -> anyhow::Result<Duration> {
    let time = weir_terminal::units::duration(text)?;
    anyhow::ensure!(time >= INTERVAL_MIN, "an interval is 500ms or longer: probes are attached anew for each");
    Ok(time)
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let live = Live::start(&args.rung.ladder(), may_serve, &args.tls_port)?;
    let count = if args.once { NonZeroU32::new(1) } else { args.count };
    let is_live = std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && count.is_none() && !args.json;
    let last = if is_live {
        live::show(live, args.interval, args.sort, &stop)?
    } else {
        print_each(live, args, count, &stop)?;
        return Ok(ExitCode::SUCCESS);
    };
    if let Some((window, order)) = last {
        let columns = weir_terminal::output::table_columns();
        weir_terminal::output::print(&(screen::lines(&window, &order, columns).join("\n") + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a table, or a line of JSON, for each interval.
fn print_each(mut live: Live, args: &Args, count: Option<NonZeroU32>, stop: &Stop) -> anyhow::Result<()> {
    let (mut printed, order) = (0, order::Order { sort: args.sort, ..order::Order::default() });
    let mut rhythm = Rhythm::new(args.interval);
    while !stop.asked() && count.is_none_or(|count| printed < count.get()) {
        let window = rhythm.window(&mut live, stop);
        if live.has_failed() {
            break;
        }
        let window = window?;
        // The table before says more than what the wish for an end has cut short.
        if stop.asked() && printed > 0 {
            break;
        }
        let text = if args.json {
            json::line(&window, &order, args.interval)
        } else {
            let gap = if printed > 0 { "\n" } else { "" };
            let lines = screen::lines(&window, &order, weir_terminal::output::table_columns());
            format!("{gap}{}\n", lines.join("\n"))
        };
        // A reader that has seen enough, such as `head`, is no failure.
        if !weir_terminal::output::print_while_read(&text)? {
            break;
        }
        printed += 1;
    }
    Ok(live.finish()?)
}
