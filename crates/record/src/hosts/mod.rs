//! Recordings of several hosts at once: one beginning, one end, and each host's run fetched to where they are asked for.
//!
//! `remote.rs` is one host seen from here, `sender.rs` what runs there; `weir_trace::sent` is what the two say to each other.

mod remote;
mod sender;

pub use remote::Asked;
pub use sender::send;

use remote::{Event, Remote, reason};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use weir_terminal::stop::Stop;

/// How long a host may take until its probes are loaded.
const READY: Duration = Duration::from_secs(60);
/// How long a host that is ready may take until it records.
const BEGUN: Duration = Duration::from_secs(20);
/// How long a host may send nothing while its run is fetched.
const SILENT: Duration = Duration::from_secs(60);
/// How often it is looked whether the user wants an end.
const LOOK: Duration = Duration::from_millis(50);
/// Events of hosts that wait to be taken in: of each some four.
const MOST_EVENTS: usize = 64;

/// What came of a host.
#[derive(Debug)]
pub struct OfHost {
    /// The host, as it was named.
    pub host: String,
    /// What is worth noting of it: what its `weir` said.
    pub said: Vec<String>,
    /// Its run, or why there is none.
    pub run: Result<Fetched, String>,
}

/// A run that was fetched.
#[derive(Debug)]
pub struct Fetched {
    /// Where it is.
    pub directory: PathBuf,
    /// Events that were recorded.
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
}

/// How far a host is.
#[derive(Debug)]
enum State {
    Starting,
    Ready,
    Recording,
    Done { events: u64, lost: u64 },
    Failed(String),
}

/// A host and how far it is.
struct Host<'a> {
    asked: &'a Asked,
    remote: Option<Remote>,
    state: State,
}

/// Records on these hosts until the time is over or the user says so. A host that fails is told of, and the others go on.
#[must_use]
pub fn record(asked: &[Asked], limit: Option<Duration>, stop: &Stop) -> Vec<OfHost> {
    let (tell, told) = sync_channel(MOST_EVENTS);
    let start = |(number, asked)| match Remote::start(asked, number, tell.clone()) {
        Ok(remote) => Host { asked, remote: Some(remote), state: State::Starting },
        Err(error) => Host { asked, remote: None, state: State::Failed(format!("{error:#}")) },
    };
    let hosts = asked.iter().enumerate().map(start).collect();
    drop(tell);
    let mut hosts = Several { hosts, told };
    let mut line = weir_terminal::progress::Line::new();
    line.show(|| format!("loading probes on {} hosts", asked.len()));
    let is_late = format!("its probes were not loaded within {} s", READY.as_secs());
    hosts.until(Some(READY), &is_late, |host| !matches!(host, State::Starting), || stop.asked());
    if !stop.asked() {
        hosts.each(|host| matches!(host, State::Ready), Remote::begin);
        let is_late = format!("it did not begin within {} s", BEGUN.as_secs());
        hosts.until(Some(BEGUN), &is_late, |host| !matches!(host, State::Ready), || false);
        let recording = hosts.hosts.iter().filter(|host| matches!(host.state, State::Recording)).count();
        drop(std::mem::take(&mut line));
        if recording > 0 {
            eprintln!("recording on {recording} of {} hosts", asked.len());
        }
        let begin = Instant::now();
        hosts.until(
            limit,
            "",
            |host| !matches!(host, State::Recording),
            || {
                line.show(|| format!("recording on several hosts for {:.0} s", begin.elapsed().as_secs_f64()));
                stop.asked()
            },
        );
    }
    hosts.each(|_| true, Remote::end);
    line.show(|| "fetching the runs".to_owned());
    hosts.fetched();
    drop(line);
    hosts.hosts.into_iter().map(Host::close).collect()
}

/// All hosts, and what is told of them.
struct Several<'a> {
    hosts: Vec<Host<'a>>,
    told: Receiver<(usize, Event)>,
}

impl Several<'_> {
    /// Takes in what happens until no host is before a state, the user wants an end, or the time is over, after which
    /// the hosts that are late have failed for the reason that is given, if there is one.
    fn until(
        &mut self,
        limit: Option<Duration>,
        why: &str,
        is_there: impl Fn(&State) -> bool,
        mut is_enough: impl FnMut() -> bool,
    ) {
        let begin = Instant::now();
        while !self.hosts.iter().all(|host| is_there(&host.state)) && !is_enough() {
            let left = limit.map_or(LOOK, |limit| limit.saturating_sub(begin.elapsed()).min(LOOK));
            if left.is_zero() {
                let late = self.hosts.iter_mut().filter(|host| !is_there(&host.state) && !why.is_empty());
                late.for_each(|host| host.state = State::Failed(why.to_owned()));
                return;
            }
            self.take(left);
        }
    }

    /// Waits for the runs, each for as long as something of it comes.
    fn fetched(&mut self) {
        let mut heard: Vec<(u64, Instant)> = vec![(0, Instant::now()); self.hosts.len()];
        while self.hosts.iter().any(|host| !host.has_ended()) {
            self.take(LOOK);
            for (host, (bytes, at)) in self.hosts.iter_mut().zip(&mut heard) {
                let came = host.remote.as_ref().map_or(0, |remote| remote.came.load(Ordering::Relaxed));
                if came != std::mem::replace(bytes, came) {
                    *at = Instant::now();
                } else if !host.has_ended() && at.elapsed() >= SILENT {
                    host.state = State::Failed(format!("it sent nothing of its run for {} s", SILENT.as_secs()));
                }
            }
        }
    }

    /// Takes in what happens within a time.
    fn take(&mut self, wait: Duration) {
        let (number, event) = match self.told.recv_timeout(wait) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => return,
            // All has been told: what is waited for now is the clock or the user.
            Err(RecvTimeoutError::Disconnected) => return std::thread::sleep(wait),
        };
        let Some(host) = self.hosts.get_mut(number).filter(|host| !host.has_ended()) else { return };
        host.state = match event {
            Event::Ready => State::Ready,
            Event::Recording => State::Recording,
            Event::Done { events, lost } => State::Done { events, lost },
            Event::Failed(why) => State::Failed(why),
        };
    }

    fn each(&mut self, is_meant: impl Fn(&State) -> bool, order: impl Fn(&mut Remote)) {
        self.hosts
            .iter_mut()
            .filter(|host| is_meant(&host.state))
            .filter_map(|host| host.remote.as_mut())
            .for_each(order);
    }
}

impl Host<'_> {
    fn has_ended(&self) -> bool {
        matches!(self.state, State::Done { .. } | State::Failed(_))
    }

    /// What came of it; ends its ssh.
    fn close(self) -> OfHost {
        let is_done = matches!(self.state, State::Done { .. });
        let (said, status) = self.remote.map(|remote| remote.close(is_done)).unwrap_or_default();
        let host = self.asked.host.clone();
        match self.state {
            State::Done { events, lost } => {
                OfHost { host, said, run: Ok(Fetched { directory: self.asked.directory.clone(), events, lost }) }
            }
            State::Failed(why) => OfHost { host, run: Err(reason(why, &said, status)), said: Vec::new() },
            State::Starting | State::Ready | State::Recording => {
                OfHost { host, run: Err("it was given up".to_owned()), said }
            }
        }
    }
}
