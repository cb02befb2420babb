//! From the command line to the threads of a run, each with its script.

use super::address;
use super::arguments::Arguments;
use super::driver::{Driver, Ended, Plan};
use super::error::NoRun;
use super::pipeline;
use super::script::{Script, ScriptError, Source, Target};
use super::tally::{Manner, Shared, Watch};
use super::thread::Thread;
use super::watchdog::{Part, Watchdog};
use crate::system::{error_text, raise_open_files};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_load::directed::Directed;
use weir_load::reach::Place;
use weir_load::{Control, ListedRequest, LoadError, Options, Request, StopRule, Trust, Url};

/// Descriptors of a thread besides its connections, and of the process besides its threads.
const FILES_OF_A_THREAD: u64 = 16;
const OTHER_FILES: u64 = 128;
/// How long the engine waits for a response beyond the run and the time-out: late ones count as such when they come.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is ready to run.
pub(super) struct Prepared {
    /// The script that `setup` and `done` belong to.
    pub(super) main: Script,
    pub(super) workers: Vec<Worker>,
}

/// A thread that is ready to run, runs, or has run.
pub(super) struct Worker {
    options: Mutex<Option<Box<Options>>>,
    control: Arc<Control>,
    thread: Arc<Thread>,
    pub(super) shared: Shared,
    /// Its script; while it runs it may be with the driver.
    script: Ended,
}

/// What the first thread's script says of all.
#[derive(Debug, Clone, Copy)]
struct Asks {
    /// One request, always the same, and no look at responses: the engine needs no script.
    is_constant: bool,
    plan: Plan,
    manner: Manner,
}

/// Loads the scripts and calls what they have for the time before the run.
pub(super) fn prepare(program: &str, arguments: &Arguments) -> Result<Prepared, NoRun> {
    let url = Url::parse(&arguments.url)?;
    let target = target(arguments, &url);
    let source = Source::read(arguments.script.as_deref())?;
    let limit = Duration::from_secs(arguments.script_limit_s);
    let watchdog = Watchdog::begin(program, limit)
        .map_err(|cause| LoadError::System { what: "making a thread that looks after scripts", cause })?;
    let main = Script::load(&source, &target, &watchdog)?;
    let service = target.port.clone().unwrap_or_else(|| target.scheme.to_owned());
    let known = address::lookup(&target.host, &service)?;
    if !main.resolve(&target.host, &service)? {
        let cause = known.iter().find_map(|address| address::connect(*address).err());
        let cause = cause.map_or_else(|| "no address".to_owned(), |cause| error_text(&cause));
        return Err(NoRun::Unreachable { host: target.host, service, cause });
    }
    raise_files(arguments)?;
    let given = [std::slice::from_ref(&arguments.url), &arguments.rest].concat();
    let (mut asks, mut workers) = (None, Vec::new());
    for _ in 0..arguments.threads {
        let (script, thread) = (Script::load(&source, &target, &watchdog)?, Arc::new(Thread::default()));
        main.setup(&thread, &script)?;
        script.init(&thread, &given)?;
        let asks = match asks {
            Some(asks) => asks,
            None => *asks.insert(first_asks(&script)?),
        };
        workers.push(worker(arguments, &url, thread, script, asks)?);
    }
    Ok(Prepared { main, workers })
}

/// What is loaded, as scripts see it.
fn target(arguments: &Arguments, url: &Url) -> Target {
    let authority = arguments.url.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    let behind_host = authority.and_then(|authority| authority.rsplit_once(':'));
    // Colons within brackets are of the address.
    let has_port = behind_host.is_some_and(|(_, port)| !port.is_empty() && !port.contains(']'));
    Target {
        scheme: if url.encrypted { "https" } else { "http" },
        host: url.host.clone(),
        port: has_port.then(|| url.port.to_string()),
        path: url.target.clone(),
        headers: arguments.headers.clone(),
    }
}

fn raise_files(arguments: &Arguments) -> Result<(), LoadError> {
    let connections = arguments.connections;
    let needed = u64::from(connections) * 2 + u64::from(arguments.threads) * FILES_OF_A_THREAD + OTHER_FILES;
    raise_open_files(needed).map_err(|limit| LoadError::OpenFiles { connections, needed, limit })
}

/// Asks the first thread's script for a request, to see what it is.
fn first_asks(script: &Script) -> Result<Asks, ScriptError> {
    let mut text = Vec::new();
    script.request(&mut text)?;
    let requests =
        pipeline::split(&text).map_err(|wrong| ScriptError::NoRequest { place: script.place(Part::Request), wrong })?;
    let (delays, responds) = (script.defines(Part::Delay), script.defines(Part::Response));
    let is_pipeline = requests.len() > 1;
    let is_constant = !is_pipeline && !delays && !responds && !script.defines(Part::Request);
    let manner = match (is_constant, responds) {
        (true, _) => Manner::Counted,
        (false, true) => Manner::Kept,
        (false, false) => Manner::Driven,
    };
    Ok(Asks { is_constant, plan: Plan { delays, is_pipeline }, manner })
}

/// Makes a thread's run.
fn worker(
    arguments: &Arguments,
    url: &Url,
    thread: Arc<Thread>,
    script: Script,
    asks: Asks,
) -> Result<Worker, ScriptError> {
    let (duration, timeout) = (Duration::from_secs(arguments.duration_s), Duration::from_secs(arguments.timeout_s));
    let shared = Shared::new(asks.manner, duration, timeout);
    let control = Arc::new(Control::default());
    let mut options = Box::new(Options::new(url.clone()));
    options.connections = arguments.connections / arguments.threads;
    options.stop = StopRule::Duration(duration);
    options.timeout = duration.max(timeout) + PATIENCE;
    options.sockets.connect_timeout = Some(timeout);
    // As the original does: it never looks at certificates.
    options.trust = Trust::Anything;
    options.reach.connect_to = thread.address().map(place);
    options.observers = vec![Box::new(Watch(shared.clone()))];
    let ended: Ended = Arc::default();
    if asks.is_constant {
        let mut text = Vec::new();
        script.request(&mut text)?;
        if pipeline::is_head(&text) {
            options.request.method = "HEAD".to_owned();
        }
        options.verbatim = Some(text);
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Ok(script));
    } else {
        for method in ["GET", "HEAD"] {
            let request = Request { method: method.to_owned(), ..Request::default() };
            options.requests.list.push(ListedRequest { url: url.clone(), request, weight: 1 });
        }
        options.hang_up = true;
        let (shared, control, ended) = (shared.clone(), Arc::clone(&control), Arc::clone(&ended));
        let driver = Driver::new(script, asks.plan, Arc::clone(&thread), shared, control, ended);
        options.directed = Some(Directed {
            director: Box::new(driver),
            at_a_time: options.connections,
            links_of_a_user: 0,
            ways: None,
        });
    }
    Ok(Worker { options: Mutex::new(Some(options)), control, thread, shared, script: ended })
}

/// Where connections of a thread go.
fn place(address: SocketAddr) -> Place {
    let host = match address {
        SocketAddr::V6(address) if address.scope_id() > 0 => format!("{}%{}", address.ip(), address.scope_id()),
        other => other.ip().to_string(),
    };
    Place { host, port: address.port() }
}

impl Worker {
    /// Makes the run of this thread.
    pub(super) fn run(&self) -> Result<(), LoadError> {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(options) = options else { return Ok(()) };
        self.thread.set_running(true);
        let report = weir_load::run(*options, &self.control);
        self.thread.set_running(false);
        report.map(drop)
    }

    /// Ends its run.
    pub(super) fn stop(&self) {
        self.control.stop();
    }

    /// Whether its script cannot go on.
    pub(super) fn has_failed(&self) -> bool {
        matches!(&*self.script.lock().unwrap_or_else(PoisonError::into_inner), Some(Err(_)))
    }

    /// Its script, when it has run.
    pub(super) fn finish(&self) -> Result<Option<Script>, ScriptError> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).take().transpose()
    }
}
