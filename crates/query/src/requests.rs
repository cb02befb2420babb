//! Requests and what their time went into.

use crate::cell::{flag, since, text, whole};
use crate::hosts::Hosts;
use crate::names::name_of;
use crate::writer::TableWriter;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use std::sync::Arc;
use weir_measure::class::{Classes, Grouping};
use weir_timeline::{Joiner, Labels, Response, Step, Unjoinable};
use weir_trace::Sourced;

/// Transaction classes that are told apart.
const MOST_CLASSES: usize = 1000;
const SECOND_NS: i64 = 1_000_000_000;

/// Fills the tables `requests` and `parts`.
pub(crate) struct Requests<'c> {
    joiner: Joiner,
    rows: Rows<'c>,
}

struct Rows<'c> {
    requests: TableWriter<'c>,
    parts: TableWriter<'c>,
    labels: Labels,
    hosts: Arc<Hosts>,
    classes: Classes,
    origin_ns: u64,
    /// Half of the run's time, from the origin.
    middle_ns: i64,
    count: i64,
    /// The first row that could not be written.
    outcome: Result<()>,
}

impl<'c> Requests<'c> {
    /// Makes the tables; `span_ns` is the time that the run spans.
    pub(crate) fn new(
        connection: &'c Connection,
        joiner: Joiner,
        span_ns: (u64, u64),
        hosts: &Arc<Hosts>,
    ) -> Result<Self> {
        let (origin_ns, end_ns) = span_ns;
        let rows = Rows {
            requests: TableWriter::new(connection, "requests")?,
            parts: TableWriter::new(connection, "parts")?,
            labels: Labels::new(),
            hosts: Arc::clone(hosts),
            classes: Classes::new(Grouping::default(), MOST_CLASSES),
            origin_ns,
            middle_ns: since(end_ns, origin_ns) / 2,
            count: 0,
            outcome: Ok(()),
        };
        Ok(Self { joiner, rows })
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, sourced: &Sourced<'_>) -> Result<()> {
        let Self { joiner, rows } = self;
        let name = name_of(sourced);
        joiner.push(&sourced.record, sourced.payload, name, &mut |joiner, response| rows.take(joiner, response));
        // What has ended meanwhile is of no use here, and would be kept else.
        if rows.count & 1023 == 0 {
            drop((joiner.take_ended(), joiner.take_questions()));
        }
        std::mem::replace(&mut rows.outcome, Ok(()))
    }

    /// Tells of what is still open.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Self { joiner, rows } = &mut self;
        joiner.finish(&mut |joiner, response| rows.take(joiner, response));
        self.rows.outcome
    }
}

impl Rows<'_> {
    fn take(&mut self, joiner: &Joiner, response: &Response<'_>) {
        // Of those that an edge cuts only the least time is known.
        if response.unjoinable != Some(Unjoinable::Edge) && self.outcome.is_ok() {
            self.outcome = self.write(joiner, response);
        }
    }

    fn write(&mut self, joiner: &Joiner, response: &Response<'_>) -> Result<()> {
        self.count += 1;
        let request = response.request;
        let at_ns = since(request.intended_ns, self.origin_ns);
        let class = self.classes.number(response.name) as usize;
        let class = self.classes.names().get(class).map_or("", String::as_str);
        let at_server = |at: fn(weir_timeline::AtServer) -> u64| {
            let ns = response.server.map(at);
            ns.map_or(ValueRef::Null, |ns| ValueRef::Integer(since(ns, self.origin_ns)))
        };
        let client = response.client.map(|client| client.to_string());
        let some = |number: u64| if number == 0 { ValueRef::Null } else { whole(number) };
        let first = response.steps.iter().find_map(|step| self.hosts.of_task(step.pid));
        let host = self.hosts.only().or(first);
        self.requests.push([
            ValueRef::Integer(self.count),
            ValueRef::Integer(at_ns),
            ValueRef::Integer(at_ns.div_euclid(SECOND_NS)),
            ValueRef::Integer(if at_ns < self.middle_ns { 1 } else { 2 }),
            whole(response.time_ns()),
            text(without_query(response.name)),
            text(class),
            some(request.status.into()),
            text(request.outcome.name()),
            flag(response.server.is_some()),
            response.unjoinable.map_or(ValueRef::Null, |why| text(why.name())),
            at_server(|server| server.arrived_ns),
            at_server(|server| server.picked_ns),
            at_server(|server| server.sent_ns),
            whole(request.request_bytes.into()),
            whole(request.response_bytes),
            some(request.http_version.into()),
            whole(request.connection),
            some(request.stream.into()),
            flag(request.opened_connection),
            flag(request.retried),
            client.as_deref().map_or(ValueRef::Null, text),
            self.hosts.name(host),
        ])?;
        response.steps.iter().try_for_each(|step| self.step(joiner, step))
    }

    fn step(&mut self, joiner: &Joiner, step: &Step) -> Result<()> {
        let label = self.labels.of(joiner, step.detail, step.from_ns) as usize;
        let some = |pid: u32| if pid == 0 { ValueRef::Null } else { ValueRef::Integer(pid.into()) };
        let process = joiner.task_name_at(step.pid, step.from_ns).filter(|_| step.pid != 0);
        let of = |pid: u32| if pid == 0 { None } else { self.hosts.of_task(pid) };
        let host = self.hosts.only().or_else(|| of(step.pid)).or_else(|| of(step.waiter));
        self.parts.push([
            ValueRef::Integer(self.count),
            ValueRef::Integer(since(step.from_ns, self.origin_ns)),
            whole(step.to_ns - step.from_ns),
            text(step.part.name()),
            some(step.pid),
            process.map_or(ValueRef::Null, |process| text(&process.name)),
            some(step.waiter),
            text(self.labels.texts().get(label).map_or("", String::as_str)),
            self.hosts.name(host),
        ])
    }
}

/// A request's name without what stands behind `?`, which may be secret.
pub(crate) fn without_query(name: &str) -> &str {
    name.split(['?', '#']).next().unwrap_or_default()
}
