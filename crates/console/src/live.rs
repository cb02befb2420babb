//! The calls of the live rooms: what a running server tells of itself, and the end of some of that.

use crate::parameters::{ParameterError, Parameters};
use crate::refusal::Refusal;
use crate::server::{Ended, LiveServer, Question};
use serde_json::{Value, json};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_endpoint::{Answer, Content};

/// Rooms that a console has besides, if it was given a server, and the calls behind them.
pub(crate) const ROOMS: [&str; 6] = ["activity", "connections", "watch", "last", "rules", "now"];
/// Servers of a console. A page asks each of them at the same time.
pub(crate) const MOST_SERVERS: usize = 8;
/// Streams at a time: each holds a handler of the endpoint as long as it lasts.
pub(crate) const MOST_WATCHES: usize = 4;
/// Hours of activity that the room shows: four weeks.
const MOST_HOURS: u32 = 672;
/// Steps of activity that a page is wide enough for.
const MOST_STEPS: u32 = 1000;
/// Requests of the history that are told at a time.
const MOST_LAST: u32 = 1000;
/// Requests that are looked through for those of a time: as many as a history may keep.
const MOST_KEPT: usize = 1_000_000;
/// The same in the process of the server itself, whose memory they take: more than a history has that was not made longer.
const MOST_KEPT_WITHIN: usize = 5000;

/// The calls of the live rooms.
#[derive(Debug)]
pub(crate) struct Live {
    /// Not empty.
    servers: Vec<Arc<dyn LiveServer>>,
    watches: Arc<AtomicUsize>,
    looked_through: usize,
}

impl Live {
    /// None without a server.
    pub(crate) fn new(servers: Vec<Arc<dyn LiveServer>>) -> Option<Self> {
        (!servers.is_empty()).then(|| Self { servers, watches: Arc::default(), looked_through: MOST_KEPT })
    }

    /// Of the server that this process is.
    pub(crate) fn within(server: Arc<dyn LiveServer>) -> Self {
        Self { servers: vec![server], watches: Arc::default(), looked_through: MOST_KEPT_WITHIN }
    }

    /// All servers, for `has`.
    pub(crate) fn told(&self) -> Vec<Value> {
        let one = |server: &Arc<dyn LiveServer>| {
            let (all, usual) = server.categories();
            json!({ "address": server.address(), "categories": all, "usual_categories": usual })
        };
        self.servers.iter().map(one).collect()
    }

    /// That of a call; the first where it says nothing.
    fn server(&self, given: &Parameters) -> Result<&dyn LiveServer, Refusal> {
        let number = given.number::<u32>("server")?.unwrap_or(1);
        let found = (number as usize).checked_sub(1).and_then(|index| self.servers.get(index));
        found.map(|server| &**server).ok_or(Refusal::NoSuchServer { number, last: self.servers.len() })
    }

    /// A call that only reads.
    pub(crate) fn read(&self, call: &str, given: &Parameters) -> Result<Answer, Refusal> {
        let server = self.server(given)?;
        let told = match call {
            "activity" => {
                given.only(&["hours", "steps", "server"])?;
                let hours = within(given, "hours", 24, MOST_HOURS)?;
                server.ask(&Question::Activity { hours, steps: within(given, "steps", 120, MOST_STEPS)? })?
            }
            "connections" => {
                given.only(&["client", "server"])?;
                server.ask(&Question::Connections { client: given.text("client").unwrap_or_default() })?
            }
            "rules" => {
                given.only(&["server"])?;
                server.ask(&Question::Rules)?
            }
            "now" => {
                given.only(&["server"])?;
                server.ask(&Question::Now)?
            }
            "last" => last(server, given, self.looked_through)?,
            "watch" => return self.watch(server, given),
            _ => return Err(Refusal::NoCall),
        };
        Ok(Answer::whole(200, "application/json", told.to_string()))
    }

    fn watch(&self, server: &dyn LiveServer, given: &Parameters) -> Result<Answer, Refusal> {
        given.only(&["filter", "show", "server"])?;
        let place = Place::take(&self.watches)?;
        let show = given.text("show").unwrap_or("all");
        let lines = server.watch(given.text("filter").unwrap_or_default(), show)?;
        let reader = Box::new(Watch { lines, _place: place });
        // Who goes ends the watch: there is no one to tell of it.
        let content = Content::Stream { reader, length: None, done: Box::new(|_| ()) };
        let headers = vec![("Content-Type".to_owned(), "application/x-ndjson".to_owned())];
        Ok(Answer { status: 200, headers, content })
    }

    /// Ends connections or requests. The caller has made sure that the page asks, by POST.
    pub(crate) fn stop(&self, given: &Parameters) -> Result<Answer, Refusal> {
        given.only(&["connection", "request", "client", "server"])?;
        let server = self.server(given)?;
        let what = match ["connection", "request", "client"].map(|name| given.text(name)) {
            [Some(id), None, None] => Ended::Connection(id),
            [None, Some(id), None] => Ended::Request(id),
            [None, None, Some(client)] => Ended::Client(client),
            _ => return Err(ParameterError::new("connection", "or request or client is given, one of them").into()),
        };
        Ok(Answer::whole(200, "application/json", server.stop(what)?.to_string()))
    }
}

/// The last requests; of a time, if one is given.
fn last(server: &dyn LiveServer, given: &Parameters, looked_through: usize) -> Result<Value, Refusal> {
    given.only(&["filter", "limit", "from_unix_s", "to_unix_s", "server"])?;
    let filter = given.text("filter").unwrap_or_default();
    let limit = within(given, "limit", 100, MOST_LAST)? as usize;
    let (from_s, to_s) = (given.number::<u32>("from_unix_s")?, given.number::<u32>("to_unix_s")?);
    if from_s.is_none() && to_s.is_none() {
        return Ok(server.ask(&Question::Requests { filter, limit })?);
    }
    let mut told = server.ask(&Question::Requests { filter, limit: looked_through })?;
    if told["matching"].as_u64() > Some(looked_through as u64) {
        told["looked_through"] = looked_through.into();
    }
    keep_of_time(&mut told, u64::from(from_s.unwrap_or(0))..u64::from(to_s.unwrap_or(u32::MAX)), limit);
    Ok(told)
}

/// A number from 1 on.
fn within(given: &Parameters, name: &str, usual: u32, most: u32) -> Result<u32, ParameterError> {
    let number = given.number(name)?.unwrap_or(usual);
    if (1..=most).contains(&number) { Ok(number) } else { Err(ParameterError::new(name, "is out of its range")) }
}

/// Keeps the requests that began within a time, the last ones of them, and counts these as those that match.
fn keep_of_time(told: &mut Value, seconds: std::ops::Range<u64>, limit: usize) {
    let Some(requests) = told["requests"].as_array_mut() else { return };
    requests.retain(|one| one["began_unix_ms"].as_u64().is_some_and(|ms| seconds.contains(&(ms / 1000))));
    let matching = requests.len();
    requests.truncate(limit);
    told["matching"] = matching.into();
}

/// A place among the watches, free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(watches: &Arc<AtomicUsize>) -> Result<Self, Refusal> {
        // The place is there before it is counted whether it is one too many: so it is given back on any way out.
        let place = Self(Arc::clone(watches));
        let before = watches.fetch_add(1, Ordering::Relaxed);
        if before < MOST_WATCHES { Ok(place) } else { Err(Refusal::Watched { most: MOST_WATCHES }) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The lines of a watch, with its place.
struct Watch {
    lines: Box<dyn Read + Send>,
    _place: Place,
}

impl Read for Watch {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.lines.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_of_watches_are_bounded_and_given_back() {
        let watches = Arc::default();
        let places: Vec<Place> = (0..MOST_WATCHES).map(|_| Place::take(&watches).expect("a place")).collect();
        assert!(matches!(Place::take(&watches), Err(Refusal::Watched { .. })));
        drop(places);
        assert_eq!(watches.load(Ordering::Relaxed), 0);
        assert!(Place::take(&watches).is_ok());
    }

    #[test]
    fn numbers_have_a_range() {
        let hours = |query: &str| within(&Parameters::of(query).expect("parameters"), "hours", 24, MOST_HOURS);
        assert_eq!((hours(""), hours("hours=1"), hours("hours=672")), (Ok(24), Ok(1), Ok(672)));
        for query in ["hours=0", "hours=673", "hours=-1", "hours=x"] {
            assert!(hours(query).is_err(), "{query}");
        }
    }

    proptest! {
        #[test]
        fn requests_of_a_time_are_kept_in_their_order(began_s in proptest::collection::vec(0_u64..20, 0..40), limit in 1_usize..30) {
            let all: Vec<Value> = began_s.iter().map(|second| json!({ "began_unix_ms": second * 1000 + 7 })).collect();
            let mut told = json!({ "requests": all, "matching": 0 });
            keep_of_time(&mut told, 5..10, limit);
            let kept: Vec<u64> = began_s.into_iter().filter(|second| (5..10).contains(second)).collect();
            prop_assert_eq!(told["matching"].as_u64(), Some(kept.len() as u64));
            let shown: Vec<u64> = told["requests"].as_array().expect("a list").iter().map(|one| one["began_unix_ms"].as_u64().expect("a number") / 1000).collect();
            prop_assert_eq!(shown, kept.into_iter().take(limit).collect::<Vec<_>>());
        }
    }
}
