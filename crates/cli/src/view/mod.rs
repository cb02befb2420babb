//! The `weir view` command: a whole run in a browser, from minutes to single events.

mod server;

use server::Site;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use weir_capture::BoundarySource;
use weir_endpoint::{Answer, Endpoint, Limits, Request};
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

    /// Add the decisions that `weir serve --decisions FILE` made meanwhile to the run's time line, where they stay
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,

    /// The port on 127.0.0.1 [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// How often we check whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long an answer that is under way may take at the end.
const PATIENCE: Duration = Duration::from_millis(500);

/// Serves the page until a signal says stop.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = weir_terminal::stop::Stop::on_signals()?;
    if let Some(log) = &args.decisions {
        weir_explain::decisions::put(&args.run, log)?.iter().for_each(|note| eprintln!("weir view: {note}"));
    }
    let mut line = weir_terminal::progress::Line::new();
    let mut go_on = |records: u64| {
        line.show(|| format!("reading {records} events, once"));
        !stop.asked()
    };
    let misses_arrivals = |rung: &str| BoundarySource::of_name(rung).is_some_and(BoundarySource::misses_arrivals);
    let tiles = match RunTiles::open(&args.run, misses_arrivals, &mut go_on) {
        Ok(tiles) => tiles,
        Err(OpenError::Stopped) => return Ok(ExitCode::from(130)),
        Err(error) => return Err(error.into()),
    };
    drop(line);
    // The page contains its own address, which is known once the endpoint listens: until then requests get 503.
    let site: Arc<OnceLock<Mutex<Site<RunTiles>>>> = Arc::default();
    let shared = Arc::clone(&site);
    let handler = move |request: Request| {
        let Some(site) = shared.get() else { return Answer::line(503, "weir view is about to begin") };
        // A request that failed has changed nothing that the next one needs.
        let mut site = site.lock().unwrap_or_else(PoisonError::into_inner);
        with_policy(site.answer(&request.method, &request.target, request.header("host")))
    };
    let mut endpoint = Endpoint::start(&format!("127.0.0.1:{}", args.port), Limits::default(), Arc::new(handler))
        .map_err(|error| anyhow::anyhow!("{error}; --port names another one"))?;
    let port = endpoint.address().port();
    let page = Site::new(tiles, port, &args.run.display().to_string())?;
    let address = format!("http://127.0.0.1:{port}{}", page.path());
    let _first = site.set(Mutex::new(page));
    weir_terminal::output::print(&format!("{} at {address} (Ctrl-C ends it)\n", args.run.display()))?;
    while !stop.asked() {
        std::thread::sleep(LOOK);
    }
    endpoint.stop(PATIENCE);
    Ok(ExitCode::SUCCESS)
}

fn with_policy(mut answer: Answer) -> Answer {
    let fixed = [
        // The page may load only itself, and no other site may frame or read it.
        ("Content-Security-Policy", server::POLICY),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
    ];
    answer.headers.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    answer
}
