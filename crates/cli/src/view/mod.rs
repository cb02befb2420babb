//! The `weir view` command: a whole run in a browser, from minutes to single events.

mod server;

use anyhow::Context;
use server::{Answer, Site};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir_capture::Rung;
use weir_tiles::{OpenError, RunTiles};

const EXAMPLES: &str = "\
Examples:
  weir view runs/a
      prints an address for your browser; Ctrl-C ends it
  weir view --port 8090 runs/a
      always at the same port
  weir view --decisions log.jsonl runs/a
      with what the rules of `weir serve --decisions log.jsonl` decided
  ssh -L 8090:127.0.0.1:8090 host weir view --port 8090 runs/a
      a run on another host, in the browser here

In the page, ? shows its keys: + and - zoom, arrows move, n goes to the next
slowest request, / searches.
The first view of a run reads it once and keeps levels of detail in RUN/derived,
about 1 % of its bytes; the folder may be removed at any time.
Only this host can reach the page, and only with the random word in its address.

Exit status: 0 if it was asked to stop, 1 if the run cannot be read or shown, 2
for wrong usage, 130 if it was stopped before the run was read.";

/// Show a whole run in the browser, from minutes down to single events.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run directory
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Put what `weir serve --decisions FILE` decided meanwhile on the run's time line, where it stays
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,

    /// The port on 127.0.0.1 [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// How long a look for a request lasts before it is looked at whether to end.
const LOOK: Duration = Duration::from_millis(100);

/// Serves the page until a signal says stop.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = crate::stop::Stop::on_signals()?;
    if let Some(log) = &args.decisions {
        crate::decisions::put(&args.run, log)?.iter().for_each(|note| eprintln!("weir view: {note}"));
    }
    let mut line = crate::progress::Line::new();
    let mut go_on = |records: u64| {
        line.show(|| format!("reading {records} events, once"));
        !stop.asked()
    };
    let misses_arrivals = |rung: &str| Rung::of_name(rung).is_some_and(Rung::misses_arrivals);
    let tiles = match RunTiles::open(&args.run, misses_arrivals, &mut go_on) {
        Ok(tiles) => tiles,
        Err(OpenError::Stopped) => return Ok(ExitCode::from(130)),
        Err(error) => return Err(error.into()),
    };
    drop(line);
    let listener = tiny_http::Server::http(("127.0.0.1", args.port))
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("cannot listen on 127.0.0.1:{}; --port names another one", args.port))?;
    let port = listener.server_addr().to_ip().map_or(args.port, |address| address.port());
    let mut site = Site::new(tiles, port, &args.run.display().to_string())?;
    crate::output::print(&format!(
        "{} at http://127.0.0.1:{port}{} (Ctrl-C ends it)\n",
        args.run.display(),
        site.path()
    ))?;
    while !stop.asked() {
        let Some(request) = listener.recv_timeout(LOOK).context("taking a request")? else { continue };
        let header = |name: &'static str| {
            let found = request.headers().iter().find(|header| header.field.equiv(name));
            found.map(|header| header.value.as_str().to_owned())
        };
        let answer = site.answer(request.method().as_str(), request.url(), header("Host").as_deref());
        // A browser that went away is no reason to end.
        let _gone = request.respond(response(answer));
    }
    Ok(ExitCode::SUCCESS)
}

fn response(answer: Answer) -> tiny_http::Response<std::io::Cursor<Vec<u8>>> {
    let mut response = tiny_http::Response::from_data(answer.body).with_status_code(answer.status);
    let fixed = [
        ("Content-Type", answer.content_type),
        // What a page may load is itself; nobody else may frame or read it.
        ("Content-Security-Policy", server::POLICY),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
    ];
    for (name, value) in fixed {
        // Names and values are ours, in plain letters.
        if let Ok(header) = tiny_http::Header::from_bytes(name, value) {
            response.add_header(header);
        }
    }
    response
}
