//! Which call a target is, and its answer.

use crate::cluster::{self, ClusterCalls};
use crate::filter::Filter;
use crate::live::{self, Live};
use crate::loads::Loads;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::refusal::{ConsoleError, Refusal};
use crate::replay::{self, ReplayCalls};
use crate::runs::{Listed, Listing, list};
use crate::transactions::{self, TransactionCalls};
use crate::{bundle, difference, questions, requests};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_endpoint::{Answer, Request};
use weir_measure::part::Part;

/// Runs that are open at a time; the one that was asked longest ago is closed for a further one.
const MOST_OPEN: usize = 16;
/// Runs that are compared.
const MOST_COMPARED: usize = 8;
/// The rooms that each console has.
const ROOMS: [&str; 8] = ["runs", "answer", "requests", "request", "chart", "compare", "sql", "load"];

/// The calls about runs.
const OF_RUNS: [&str; 15] = [
    "answer",
    "begin",
    "choices",
    "compare",
    "load",
    "loads",
    "open",
    "questions",
    "request",
    "requests",
    "runs",
    "sql",
    "state",
    "tile",
    "whole",
];

/// The page and the calls behind it.
#[derive(Debug)]
pub(crate) struct Site {
    /// None where runs are not shown.
    directories: Vec<PathBuf>,
    version: String,
    listing: Mutex<Listing>,
    loads: Loads,
    /// By the time of the last call, the latest at the end.
    open: Mutex<Vec<(String, Arc<Opened>)>>,
    turn: Arc<Mutex<()>>,
    stop: Arc<AtomicBool>,
    now: Now,
}

/// What tells of itself while it runs.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) live: Option<Live>,
    pub(crate) cluster: Option<ClusterCalls>,
    pub(crate) transactions: Option<TransactionCalls>,
    pub(crate) replay: Option<ReplayCalls>,
}

impl Site {
    pub(crate) fn new(
        directories: Vec<PathBuf>,
        version: String,
        now: Now,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, ConsoleError> {
        let listing = Mutex::new(list(&directories)?);
        let loads = Loads::new(directories.clone());
        Ok(Self { directories, version, listing, loads, open: Mutex::default(), turn: Arc::default(), stop, now })
    }

    /// A console that shows a running server alone.
    pub(crate) fn without_runs(version: String, live: Option<Live>) -> Self {
        let (directories, listing, open) = (Vec::new(), Mutex::default(), Mutex::default());
        let (loads, now) = (Loads::new(Vec::new()), Now { live, cluster: None, transactions: None, replay: None });
        Self { directories, version, listing, loads, open, turn: Arc::default(), stop: Arc::default(), now }
    }

    /// Runs of the list.
    pub(crate) fn count(&self) -> usize {
        locked(&self.listing).runs.len()
    }

    /// Answers a request by what stands behind the word.
    pub(crate) fn answer(&self, rest: &str, request: &Request) -> Result<Answer, Refusal> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let Some(call) = path.strip_prefix("api/1/") else {
            only_read(request)?;
            let (kind, bytes) = bundle::file(path).ok_or(Refusal::NoCall)?;
            return Ok(Answer::whole(200, kind, bytes));
        };
        if self.directories.is_empty() && OF_RUNS.contains(&call) {
            return Err(Refusal::NoRuns);
        }
        let parameters = Parameters::of(query)?;
        let asked = Call { parameters: &parameters, request };
        match call {
            "open" => self.begin(&asked),
            "sql" => self.sql(&asked),
            "replay" => self.replay(&asked),
            "stop" => {
                only_post(request)?;
                self.live()?.stop(&parameters)
            }
            call => {
                only_read(request)?;
                self.read(call, &asked)
            }
        }
    }

    /// A call that only reads.
    fn read(&self, call: &str, asked: &Call<'_>) -> Result<Answer, Refusal> {
        match call {
            "has" => asked.only(&[]).map(|()| self.has()),
            "runs" => asked.only(&[]).map(|()| self.runs()),
            "loads" => asked.only(&[]).map(|()| told(&self.loads.told())),
            "load" => asked.only(&["run"]).and_then(|()| Ok(told(&self.loads.load(asked.run()?)?))),
            "questions" => asked.only(&[]).map(|()| told(&questions::known())),
            "compare" => self.compare(asked),
            "requests" => {
                let filter = Filter::of(asked.parameters)?;
                let opened = self.opened(asked.run()?)?;
                Ok(told(&requests::page(&opened, &filter)?))
            }
            "state" => self.of_run(asked, &["run"], |opened| Ok(told(&opened.told()))),
            "answer" => self.of_run(asked, &["run"], |opened| Ok(bytes(opened.answer()?.json.clone()))),
            "begin" => self.of_run(asked, &["run"], |opened| Ok(told(&json!(opened.first()?)))),
            "choices" => self.of_run(asked, &["run"], |opened| Ok(told(&requests::choices(opened)?))),
            "whole" => self.of_run(asked, &["run"], |opened| Ok(bytes(opened.tiles()?.whole_json()))),
            "request" => {
                let id = asked.number("id")?;
                self.of_run(asked, &["run", "id"], |opened| Ok(told(&requests::single(opened, id)?)))
            }
            "tile" => {
                let (level, index) = (asked.number("level")?, asked.number("index")?);
                self.of_run(asked, &["run", "level", "index"], |opened| {
                    let tile = opened.tiles()?.tile(level, index).map_err(Refusal::NoTile)?;
                    Ok(bytes(&*tile))
                })
            }
            call if live::ROOMS.contains(&call) => self.live()?.read(call, asked.parameters),
            call if cluster::CALLS.contains(&call) => {
                self.now.cluster.as_ref().ok_or(Refusal::NoCluster)?.read(call, asked.parameters)
            }
            call if transactions::CALLS.contains(&call) => {
                self.now.transactions.as_ref().ok_or(Refusal::NoAgent)?.read(call, asked.parameters)
            }
            _ => Err(Refusal::NoCall),
        }
    }

    fn live(&self) -> Result<&Live, Refusal> {
        self.now.live.as_ref().ok_or(Refusal::NoServer)
    }

    fn of_run(
        &self,
        asked: &Call<'_>,
        known: &[&str],
        answer: impl FnOnce(&Opened) -> Result<Answer, Refusal>,
    ) -> Result<Answer, Refusal> {
        asked.only(known)?;
        let opened = self.opened(asked.run()?)?;
        answer(&opened)
    }

    fn has(&self) -> Answer {
        let directories: Vec<String> = self.directories.iter().map(|path| path.display().to_string()).collect();
        let parts = Part::ALL.iter().map(|part| json!({ "name": part.name(), "words": part.words() }));
        let parts: Vec<Value> = parts.collect();
        let version = self.version.as_str();
        let Now { live, cluster, transactions, replay } = &self.now;
        let of_runs = ROOMS.iter().filter(|_| !self.directories.is_empty());
        let rooms = of_runs.chain(live::ROOMS.iter().filter(|_| live.is_some()));
        let rooms = rooms.chain(cluster::ROOMS.iter().filter(|_| cluster.is_some()));
        let rooms = rooms.chain(transactions::ROOMS.iter().filter(|_| transactions.is_some()));
        let rooms = rooms.chain(replay::ROOMS.iter().filter(|_| replay.is_some()));
        let rooms: Vec<&str> = rooms.copied().collect();
        let servers = live.as_ref().map(Live::told).unwrap_or_default();
        told(&json!({
            "api": 1,
            "version": version,
            "rooms": rooms,
            "directories": directories,
            "parts": parts,
            "server": servers.first(),
            "servers": servers,
            "cluster": cluster.as_ref().map(ClusterCalls::told),
            "agent": transactions.as_ref().map(TransactionCalls::told),
            "replay": replay.as_ref().map(ReplayCalls::told),
        }))
    }

    /// The list, read anew: a run may have come.
    fn runs(&self) -> Answer {
        // A directory that went shows as one without runs.
        let now = list(&self.directories).unwrap_or_default();
        *locked(&self.listing) = now.clone();
        let open = locked(&self.open);
        let state = |listed: &Listed| {
            let mut one = serde_json::to_value(listed).unwrap_or_default();
            let known = open.iter().find(|(name, _)| *name == listed.run);
            one["opened"] = known.map_or(Value::Null, |(_, opened)| opened.told());
            one
        };
        let runs: Vec<Value> = now.runs.iter().map(state).collect();
        told(&json!({ "runs": runs, "is_cut": now.is_cut }))
    }

    fn listed(&self, run: &str) -> Result<Listed, Refusal> {
        let found = |listing: &Listing| listing.runs.iter().find(|listed| listed.run == run).cloned();
        let known = found(&locked(&self.listing));
        // A run may have come since the list was read.
        let known = known.or_else(|| {
            let now = list(&self.directories).ok()?;
            found(&now).inspect(|_| *locked(&self.listing) = now)
        });
        known.ok_or_else(|| Refusal::NoRun(run.chars().take(200).collect()))
    }

    fn opened(&self, run: &str) -> Result<Arc<Opened>, Refusal> {
        let mut open = locked(&self.open);
        match open.iter().position(|(name, _)| name == run) {
            Some(index) => {
                let found = open.remove(index);
                let opened = Arc::clone(&found.1);
                open.push(found);
                Ok(opened)
            }
            None => {
                drop(open);
                self.listed(run)?;
                Err(Refusal::NotOpen)
            }
        }
    }

    /// Begins to read a run, and says how far that is.
    fn begin(&self, asked: &Call<'_>) -> Result<Answer, Refusal> {
        only_post(asked.request)?;
        asked.only(&["run", "again"])?;
        let run = asked.run()?;
        let is_again = asked.parameters.text("again").is_some();
        let listed = self.listed(run)?;
        if let Some(refused) = &listed.refused {
            return Err(Refusal::Failed(refused.clone()));
        }
        let mut open = locked(&self.open);
        let known = open.iter().position(|(name, _)| name == run);
        if let Some(index) = known {
            let opened = Arc::clone(&open[index].1);
            // What was read while a load wrote to it is not the whole run.
            let is_old = || opened.is_outdated() && !Loads::runs_in(&listed.directory);
            if opened.is_at_work() || !(is_again || is_old()) {
                return Ok(told(&opened.told()));
            }
            open.remove(index);
        }
        if open.len() >= MOST_OPEN {
            let idle = open.iter().position(|(_, opened)| !opened.is_at_work());
            open.remove(idle.ok_or(Refusal::Busy { most: MOST_OPEN })?);
        }
        let opened = Opened::begin(&listed, &self.turn, &self.stop);
        let answer = told(&opened.told());
        open.push((run.to_owned(), opened));
        Ok(answer)
    }

    /// It may make tables, so it is no GET.
    fn sql(&self, asked: &Call<'_>) -> Result<Answer, Refusal> {
        only_post(asked.request)?;
        asked.only(&["run"])?;
        let body = asked.request.body.as_ref().map_err(|_| Refusal::Body)?;
        let sql = std::str::from_utf8(body).map_err(|_| Refusal::Body)?;
        let opened = self.opened(asked.run()?)?;
        Ok(told(&questions::asked(&opened, sql)?))
    }

    /// It takes CPU time, and what it asks for stands in its body, so it is no GET.
    fn replay(&self, asked: &Call<'_>) -> Result<Answer, Refusal> {
        only_post(asked.request)?;
        asked.only(&[])?;
        let policy = asked.request.body.as_ref().map_err(|_| Refusal::Body)?;
        self.now.replay.as_ref().ok_or(Refusal::NoReplay)?.replayed(policy)
    }

    fn compare(&self, asked: &Call<'_>) -> Result<Answer, Refusal> {
        const NAMES: [&str; MOST_COMPARED] = ["run1", "run2", "run3", "run4", "run5", "run6", "run7", "run8"];
        asked.only(&NAMES)?;
        let names: Vec<&str> = NAMES.iter().filter_map(|name| asked.parameters.text(name)).collect();
        let opened = names.iter().map(|run| self.opened(run)).collect::<Result<Vec<_>, _>>()?;
        let figures = opened.iter().map(|one| Ok(&one.answer()?.figures)).collect::<Result<Vec<_>, Refusal>>()?;
        let runs: Vec<_> = names.into_iter().zip(figures).collect();
        Ok(told(&json!({ "runs": difference::sides(&runs) })))
    }
}

/// A call with its parameters.
struct Call<'a> {
    parameters: &'a Parameters,
    request: &'a Request,
}

impl<'a> Call<'a> {
    fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        Ok(self.parameters.only(known)?)
    }

    fn run(&self) -> Result<&'a str, Refusal> {
        Ok(self.parameters.required("run")?)
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Result<N, Refusal> {
        self.parameters.required(name)?;
        self.parameters.number(name)?.ok_or(Refusal::NoCall)
    }
}

fn only_read(request: &Request) -> Result<(), Refusal> {
    if ["GET", "HEAD"].contains(&request.method.as_str()) {
        Ok(())
    } else {
        Err(Refusal::Method { allowed: "GET, HEAD" })
    }
}

/// A browser sends this header from the console's own page alone: for others it asks first, and gets no leave.
fn only_post(request: &Request) -> Result<(), Refusal> {
    if request.method != "POST" {
        return Err(Refusal::Method { allowed: "POST" });
    }
    if request.header("x-weir-console").is_some() { Ok(()) } else { Err(Refusal::Origin) }
}

fn told(value: &Value) -> Answer {
    bytes(value.to_string())
}

fn bytes(json: impl Into<Vec<u8>>) -> Answer {
    Answer::whole(200, "application/json", json)
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is held is whole after each step.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
