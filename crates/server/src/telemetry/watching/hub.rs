//! What loops and the admin thread share: the filters that are in use, and the queues.

use super::seen::Network;
use super::sink::Sink;
use super::underway::{Beginning, Underway};
use crate::http::request::Request;
use crate::http::target;
use crate::policy::control::Controls;
use crate::telemetry::request_filter::{RequestFacts, RequestFilter};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What watchers want.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) filters: Vec<RequestFilter>,
    /// Whether one of them is told bodies.
    pub(super) takes_bodies: bool,
}

/// What loops and the admin thread share.
#[derive(Debug)]
pub(crate) struct Hub {
    controls: Arc<Controls>,
    sinks: Vec<Arc<Sink>>,
    wanted: Mutex<Wanted>,
    generation: AtomicU64,
}

impl Hub {
    /// For so many loops, which are woken by `controls`.
    pub(crate) fn new(loops: usize, controls: Arc<Controls>) -> Self {
        Self {
            controls,
            sinks: (0..loops).map(|_| Arc::default()).collect(),
            wanted: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    /// Has all loops look for requests that any of these filters may be for.
    pub(super) fn look_for(&self, mut wanted: Wanted) {
        wanted.filters.sort_by_cached_key(ToString::to_string);
        wanted.filters.dedup();
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
        self.generation.fetch_add(1, Ordering::Release);
        (0..self.sinks.len()).for_each(|index| self.controls.wake(index));
    }

    /// What a loop does from now on, if that is other than at `generation`: it watches, or it does not.
    pub(crate) fn newer(&self, generation: &mut u64, index: usize) -> Option<Option<Box<Watch>>> {
        let now = self.generation.load(Ordering::Acquire);
        if std::mem::replace(generation, now) == now {
            return None;
        }
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sink = self.sinks.get(index).map(Arc::clone)?;
        let asks_path = wanted.filters.iter().any(RequestFilter::asks_path);
        let decoded = Vec::new();
        Some((!wanted.filters.is_empty()).then(|| Box::new(Watch { wanted, sink, asks_path, index, decoded })))
    }

    pub(super) fn sinks(&self) -> &[Arc<Sink>] {
        &self.sinks
    }
}

/// A loop's part while there are watchers.
#[derive(Debug)]
pub(crate) struct Watch {
    wanted: Wanted,
    sink: Arc<Sink>,
    asks_path: bool,
    index: usize,
    decoded: Vec<u8>,
}

/// A request that began before a watcher came, with what is known of it still.
#[derive(Debug)]
pub(crate) struct BegunBefore {
    pub(crate) network: Network,
    /// Method and path, where a history or a log has noted them.
    pub(crate) asked: Option<String>,
}

impl Watch {
    /// Begins to take down what becomes of a request; none if no watcher can want it, or if there is no allowance left.
    pub(crate) fn begin(
        &mut self,
        request: Option<&Request<'_>>,
        (name, client, session): (&[u8], IpAddr, u64),
        beginning: impl FnOnce(usize) -> Beginning,
    ) -> Option<Box<Underway>> {
        if !may_look(&self.wanted.filters, &self.sink) {
            return None;
        }
        let (text, method) = request.map_or(("", ""), |request| (request.target, request.method_text));
        let found = match request.filter(|_| self.asks_path) {
            Some(_) => target::resolve(text, true, &mut self.decoded).ok(),
            None => None,
        };
        let path = found.map(|found| found.path);
        let raw = text.split('?').next().unwrap_or_default().as_bytes();
        let known = RequestFacts {
            client: Some(client),
            host: Some(name),
            path: Some(path.unwrap_or(raw)),
            method: Some(method),
            session: Some(session),
            ..RequestFacts::default()
        };
        if !may_take(&self.wanted.filters, &self.sink, &known) {
            return None;
        }
        let mut underway = Underway::begin(beginning(self.index), (request, name, path), Arc::clone(&self.sink));
        if self.wanted.takes_bodies {
            underway.take_bodies();
        }
        Some(underway)
    }

    /// The same for one that began before a watcher came.
    pub(crate) fn adopt(&mut self, mut before: BegunBefore) -> Option<Box<Underway>> {
        before.network.loop_index = self.index;
        let (method, target) = before.asked.as_deref().and_then(|asked| asked.split_once(' ')).unzip();
        let known = RequestFacts {
            client: Some(before.network.client),
            path: target.and_then(|target| target.split('?').next()).map(str::as_bytes),
            method,
            protocol: Some(before.network.protocol),
            session: Some(before.network.session),
            ..RequestFacts::default()
        };
        let is_taken = may_look(&self.wanted.filters, &self.sink) && may_take(&self.wanted.filters, &self.sink, &known);
        is_taken.then(|| Underway::adopt(before.network, (method, target), Arc::clone(&self.sink)))
    }
}

/// Whether there is allowance to compare a request with all filters.
fn may_look(filters: &[RequestFilter], sink: &Sink) -> bool {
    let may = sink.allowance.take_looks(u32::try_from(filters.len()).unwrap_or(u32::MAX));
    if !may {
        sink.drop_one();
    }
    may
}

/// Whether a watcher may want a request by what is known of it so far, and there is allowance to take it down.
fn may_take(filters: &[RequestFilter], sink: &Sink, known: &RequestFacts<'_>) -> bool {
    if !filters.iter().any(|filter| filter.may_be_for(known)) {
        return false;
    }
    let may = sink.allowance.take_request();
    if !may {
        sink.drop_one();
    }
    may
}
