//! What can go wrong, an enum for each operation, with the remedy in the message.
use std::io;
use std::process::ExitStatus;

use crate::load_output::LoadOutputError;

/// A plan that cannot be carried out as it stands.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// There is nothing to measure under.
    #[error("the plan has no cases; at least one is needed")]
    NoCases,
    /// A number out of its range.
    #[error("{name} is {value}; it must lie within {low} and {high}")]
    Range {
        /// Which.
        name: &'static str,
        /// What it is.
        value: f64,
        /// The least.
        low: f64,
        /// The most.
        high: f64,
    },
    /// Two things of one name: a report could not tell them apart.
    #[error("two {what} are named {name:?}; give each a name of its own")]
    Twice {
        /// `subjects` or `cases`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A subject on a server that is not there.
    #[error("the subject {subject:?} has no server")]
    NoServer {
        /// Whose.
        subject: String,
    },
    /// A file that would be written elsewhere than into the server's own folder.
    #[error("{server} is to have the file {file:?}; its name must be a path within the server's own folder")]
    Outside {
        /// Which server.
        server: String,
        /// The name.
        file: String,
    },
    /// A case in which no subject takes part, or that does not say where each subject is reached.
    #[error(
        "the case {case:?} does not say where its subjects are reached; give each a URL, or name those that take part"
    )]
    NoSubjects {
        /// Which.
        case: String,
    },
    /// A CPU that this process may not use.
    #[error(
        "the {role} is to run on CPU {cpu}, but this process may use only {available}; choose another with --{role}-cpu"
    )]
    Cpu {
        /// `server`, `load` or `beside`.
        role: &'static str,
        /// The CPU's number.
        cpu: usize,
        /// Those that there are.
        available: String,
    },
}

/// A server that did not start, or did not stay.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It could not be run at all.
    #[error("{name} could not be started: {command}: {source}; check the name, the path and the permission to execute")]
    Spawn {
        /// Which.
        name: String,
        /// Its command.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The host's name is unknown.
    #[error("the address {address} of {name} cannot be resolved: {source}")]
    Resolve {
        /// Which server.
        name: String,
        /// `host:port`.
        address: String,
        /// The resolver's reason.
        source: io::Error,
    },
    /// Something else listens where it is to listen, and would be measured in its place.
    #[error(
        "{} already answers at {address} before {name} was started; stop it, or choose another port in the command and the URL",
        if holders.is_empty() { "something".to_owned() } else { holders.join(", ") }
    )]
    AddressInUse {
        /// Which server.
        name: String,
        /// `host:port`.
        address: String,
        /// Who listens there, as far as that can be seen.
        holders: Vec<String>,
    },
    /// Its files could not be written.
    #[error("the files of a server could not be written in {}: {source}; TMPDIR chooses another place", .place.display())]
    Workplace {
        /// The folder.
        place: std::path::PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no certificate for TLS.
    #[error("a certificate for the servers with TLS could not be made: {0}")]
    Certificate(io::Error),
    /// What is to be served is not there.
    #[error("the plan's site {} cannot be served: {source}; `site` is a folder, seen from the plan", .place.display())]
    Site {
        /// The folder.
        place: std::path::PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// What is to be served may not be read by the user that it runs as.
    #[error(
        "{name}, started by root, runs as the user nobody, which may not read {}; chmod o+rx opens it, or serve another folder", .path.display()
    )]
    ClosedSite {
        /// Which server.
        name: String,
        /// What is closed.
        path: std::path::PathBuf,
    },
    /// A folder whose name would mean something else in a configuration.
    #[error(
        "{name} cannot be told to serve {}: the name has characters other than letters, digits and /-_.,+=@~; use a link to it", .site.display()
    )]
    OddSite {
        /// Which server.
        name: String,
        /// The folder.
        site: std::path::PathBuf,
    },
    /// It ended, when starting or later.
    #[error("{name} ended by itself ({status}): {command}{output}\n{}", remedy_of_end(*.status))]
    Ended {
        /// Which.
        name: String,
        /// Its command.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it printed, each on a line of its own.
        output: String,
    },
    /// Nothing answers at its address.
    #[error(
        "{name} did not answer at {address} within {waited_s} s: {command}{output}\nCheck that the command listens where the URL points, or allow more time with --start-timeout"
    )]
    Silent {
        /// Which.
        name: String,
        /// `host:port`.
        address: String,
        /// Its command.
        command: String,
        /// How long we waited, in seconds.
        waited_s: f64,
        /// The last lines that it printed.
        output: String,
    },
    /// Its CPU time could not be read.
    #[error("the CPU time of {name} could not be read: {source}")]
    CpuTime {
        /// Which.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// A load command, or one beside the server, that did not do its part.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It could not be run at all.
    #[error("{command} could not be started: {source}; check the name, the path and the permission to execute")]
    Spawn {
        /// The command.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// It failed.
    #[error("the load command failed ({status}): {command}{output}")]
    Failed {
        /// The command.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it printed.
        output: String,
    },
    /// It did not end when it should have.
    #[error(
        "the load command still ran after {limit_s:.1} s: {command}; give it {{seconds}} as its duration, or more time to end with --load-timeout (load_timeout of a plan)"
    )]
    Overran {
        /// The command.
        command: String,
        /// How long we waited, in seconds.
        limit_s: f64,
    },
    /// Its output tells no count of requests.
    #[error("the number of requests cannot be read from the output of {command}: {source}{output}")]
    Output {
        /// The command.
        command: String,
        /// Why not.
        source: LoadOutputError,
        /// The last lines that it printed.
        output: String,
    },
    /// Not one request was answered.
    #[error("no request was answered ({errors} errors): {command}{output}\nCheck that the URL is served")]
    NoRequests {
        /// The command.
        command: String,
        /// Failures that it counted.
        errors: u64,
        /// The last lines that it printed.
        output: String,
    },
    /// What was to run beside the server ended before the slice did.
    #[error(
        "the command beside the server ended by itself ({status}): {command}{output}\nIt must run until it gets SIGINT"
    )]
    BesideEnded {
        /// The command.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it printed.
        output: String,
    },
    /// Its CPU time could not be read.
    #[error("the CPU time of the load command could not be read: {0}")]
    CpuTime(io::Error),
}

/// Programs that are not there, looked for before anything is started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing was started: {}; install what is missing, or give its whole path", .0.join("; "))]
pub struct MissingPrograms(pub Vec<String>);

/// Why an experiment has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A command's program is not there.
    #[error(transparent)]
    Missing(#[from] MissingPrograms),
    /// A server is at fault.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A load is at fault.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The system refuses something that every experiment needs.
    #[error("{what}: {source}")]
    System {
        /// What we were about to do.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// It was told to stop at once, or before a block was complete.
    #[error("interrupted before there was anything to report")]
    Interrupted,
}

/// Why no slice, or not as many as were asked for, could be observed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObserveError {
    /// Not the servers are compared.
    #[error("load generators are compared, not the parts of a server's responses")]
    OfGenerators,
    /// The user does not want it.
    #[error("it was not wanted (--no-parts)")]
    NotWanted,
    /// It would take a large part of the time of the blocks.
    #[error("observing would take long beside so few blocks; --parts asks for it")]
    TooLong,
    /// The experiment was told to stop.
    #[error("it was interrupted")]
    Interrupted,
    /// A server or a load is at fault, or the system refuses.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The command beside the server is at fault.
    #[error(transparent)]
    Beside(#[from] LoadError),
    /// An observed slice could not be kept.
    #[error("keeping an observed slice: {0}")]
    Keep(io::Error),
    /// The observer could not be run at all.
    #[error("starting {command}: {source}")]
    Spawn {
        /// The command.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The observer failed.
    #[error("{command} ended with {status}{output}")]
    Failed {
        /// The command.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it printed.
        output: String,
    },
    /// The observer did not end when it should have.
    #[error("{command} took longer than {limit_s} s")]
    Overran {
        /// The command.
        command: String,
        /// How long we waited, in seconds.
        limit_s: u64,
    },
    /// What the observer printed is no JSON.
    #[error("what the observer printed: {0}")]
    NoJson(serde_json::Error),
    /// What the observer printed lacks something.
    #[error("what the observer printed has no {key}")]
    Absent {
        /// What it lacks.
        key: &'static str,
    },
    /// There is nothing to report.
    #[error("no response was observed from begin to end")]
    NoResponse,
}

/// What to do about a server that ended.
fn remedy_of_end(status: ExitStatus) -> &'static str {
    if status.success() {
        "A server must stay in the foreground (nginx -g 'daemon off;', apache2 -DFOREGROUND)"
    } else {
        "Try the command by itself; no shell runs it, so variables and pipes need sh -c '...'"
    }
}
