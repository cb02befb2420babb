//! The `weir view` command: a whole run in a browser, from minutes to single events.

mod server;

use crate::object_rules;
use server::Site;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use weir_capture::BoundarySource;
use weir_endpoint::{Answer, Endpoint, Limits, Request};
use weir_explain::Joined;
use weir_report::{HostRun, nanoseconds};
use weir_tiles::{OpenError, RunTiles};

const EXAMPLES: &str = "\
Examples:
  weir view runs/a
      prints an address for your browser; Ctrl-C ends it
  weir view --port 8090 runs/a
      always at the same port
  weir view --decisions log.jsonl runs/a
      with what the rules of `weir serve --decisions log.jsonl` decided
  weir view --objects mine.toml runs/a
      objects by rules of your own in the chart of objects
  weir view runs/web runs/store
      two hosts, recorded at the same time: their lanes on one clock
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
    /// The run directory; those of several hosts, recorded at the same time, are shown on one clock
    #[arg(value_name = "RUN", required = true)]
    run: Vec<PathBuf>,

    /// Add the decisions that `weir serve --decisions FILE` made meanwhile to the run's time line, where they stay
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,

    /// More rules for the chart of objects, as `weir objects --objects` takes them
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

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
    let rules = match object_rules::with("view", args.objects.as_deref()) {
        Ok(rules) => rules,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(2));
        }
    };
    let runs = weir_explain::runs_of(&args.run)?;
    if let (Some(log), Some(run)) = (&args.decisions, runs.first()) {
        weir_explain::decisions::put(run, log)?.iter().for_each(|note| eprintln!("weir view: {note}"));
    }
    let mut line = weir_terminal::progress::Line::new();
    let mut go_on = |records: u64| {
        line.show(|| format!("reading {records} events, once"));
        !stop.asked()
    };
    let misses_arrivals = |rung: &str| BoundarySource::of_name(rung).is_some_and(BoundarySource::misses_arrivals);
    let Some(shown) = Shown::of(&runs, &mut go_on)? else { return Ok(ExitCode::from(130)) };
    let tiles = match RunTiles::open(&shown.run, misses_arrivals, &mut go_on) {
        Ok(tiles) => tiles.with_rules(rules),
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
    let page = Site::new(tiles, port, &shown.title, &shown.hosts)?;
    let address = format!("http://127.0.0.1:{port}{}", page.path());
    let _first = site.set(Mutex::new(page));
    weir_terminal::output::print(&format!("{} at {address} (Ctrl-C ends it)\n", shown.title))?;
    while !stop.asked() {
        std::thread::sleep(LOOK);
    }
    endpoint.stop(PATIENCE);
    Ok(ExitCode::SUCCESS)
}

/// What is shown: a run, or those of several hosts joined into one for as long as they are shown.
struct Shown {
    run: PathBuf,
    title: String,
    /// Names of the hosts, in the order of their numbers; none of a single run.
    hosts: Vec<String>,
    _joined: Option<TempDir>,
}

impl Shown {
    /// `None` if the user ended it.
    fn of(runs: &[PathBuf], go_on: &mut dyn FnMut(u64) -> bool) -> anyhow::Result<Option<Self>> {
        if let [run] = runs {
            let title = run.display().to_string();
            return Ok(Some(Self { run: run.clone(), title, hosts: Vec::new(), _joined: None }));
        }
        let Some(first) = runs.first() else { anyhow::bail!("no run is named") };
        let derived = first.join("derived");
        let _may_be_read_only = std::fs::create_dir(&derived);
        // A folder of this name that a killed viewer has left is removed a day later with what tiles have left.
        let folder =
            tempfile::Builder::new().prefix("view-part-").tempdir_in(&derived).or_else(|_| tempfile::tempdir())?;
        let run = folder.path().join("joined");
        let Some(Joined { hosts, warnings }) = weir_explain::joined(runs, &run, go_on)? else { return Ok(None) };
        warnings.iter().for_each(|warning| eprintln!("weir view: {warning}"));
        let title: Vec<String> = hosts.iter().map(of_host).collect();
        let names = hosts.into_iter().map(|host| host.name).collect();
        Ok(Some(Self { run, title: title.join(", "), hosts: names, _joined: Some(folder) }))
    }
}

/// A host, and how well its clock is known by that of the first one.
fn of_host(host: &HostRun) -> String {
    if host.clock_error_ns == 0.0 {
        return host.name.clone();
    }
    format!("{} (clock known to within {})", host.name, nanoseconds(host.clock_error_ns))
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
