//! The traces that requests name themselves: each told with the call that took the head, on its socket.
//!
//! A request has the trace of the call that picked it up: of those that were told on its socket, the last one before that
//! time. Each call is told of, also one without a trace, so that no request gets another one's.

use std::collections::{HashMap, VecDeque};
use weir_timeline::AtServer;
use weir_wire::trace_context::{SPAN, TRACE, TraceContext, TraceOf};
use weir_wire::{Kind, Record};

/// Calls of a socket that are kept until their requests are told.
const MOST_OF_SOCKET: usize = 1 << 10;
/// Sockets of which calls are kept; beyond, all are forgotten.
const MOST_SOCKETS: usize = 1 << 14;
/// CPUs that are told apart.
const MOST_LANES: usize = 1 << 13;

/// What was told.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    /// First halves, by their CPU.
    halves: HashMap<u32, Record>,
    sockets: HashMap<u32, VecDeque<(u64, Option<TraceContext>)>>,
    /// Calls that there was no room for.
    pub(crate) dropped: u64,
}

impl Contexts {
    /// Takes a record of any kind.
    pub(crate) fn push(&mut self, record: &Record) {
        if record.kind != Kind::TraceContext as u16 {
            return;
        }
        if record.flags == TRACE {
            if self.halves.len() < MOST_LANES || self.halves.contains_key(&record.lane) {
                self.halves.insert(record.lane, *record);
            }
            return;
        }
        let first = self.halves.remove(&record.lane).filter(|first| first.time_ns == record.time_ns);
        // The others come with their requests.
        let TraceOf::Socket(socket) = TraceOf::read(record) else { return };
        let context = first.filter(|_| record.flags & SPAN != 0).and_then(|first| TraceContext::read(&first, record));
        if self.sockets.len() >= MOST_SOCKETS && !self.sockets.contains_key(&socket) {
            self.dropped += self.sockets.drain().map(|(_, calls)| calls.len() as u64).sum::<u64>();
        }
        let calls = self.sockets.entry(socket).or_default();
        if calls.len() >= MOST_OF_SOCKET {
            calls.pop_front();
            self.dropped += 1;
        }
        calls.push_back((record.time_ns, context));
    }

    /// The trace of a request; each is asked for once, those of a socket in their order.
    pub(crate) fn take(&mut self, server: Option<AtServer>) -> Option<TraceContext> {
        let AtServer { socket, picked_ns, .. } = server?;
        let calls = self.sockets.get_mut(&socket)?;
        let mut last = None;
        while calls.front().is_some_and(|(at_ns, _)| *at_ns <= picked_ns) {
            last = calls.pop_front().and_then(|(_, context)| context);
        }
        if calls.is_empty() {
            self.sockets.remove(&socket);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(number: u64) -> TraceContext {
        TraceContext { trace: u128::from(number), span: number, sampled: true }
    }

    fn call(contexts: &mut Contexts, socket: u32, at_ns: u64, told: Option<TraceContext>) {
        let of = TraceOf::Socket(socket);
        contexts.push(&of.none(at_ns, 0));
        told.into_iter().flat_map(|told| told.write(of, at_ns, 0)).for_each(|record| contexts.push(&record));
    }

    fn taken(contexts: &mut Contexts, socket: u32, picked_ns: u64) -> Option<TraceContext> {
        contexts.take(Some(AtServer { socket, arrived_ns: 0, picked_ns, sent_ns: picked_ns }))
    }

    #[test]
    fn a_request_has_the_trace_of_its_own_call_or_none() {
        let mut contexts = Contexts::default();
        call(&mut contexts, 1, 100, Some(context(7)));
        call(&mut contexts, 2, 101, Some(context(8)));
        // The next call took what another request says, which names no trace.
        call(&mut contexts, 1, 200, None);
        call(&mut contexts, 1, 300, Some(context(9)));
        assert_eq!(taken(&mut contexts, 1, 105), Some(context(7)));
        assert_eq!(taken(&mut contexts, 1, 106), None, "pipelined behind it");
        assert_eq!(taken(&mut contexts, 1, 205), None);
        assert_eq!(taken(&mut contexts, 1, 305), Some(context(9)));
        assert_eq!(taken(&mut contexts, 2, 90), None, "it was picked up before the call");
        assert_eq!(taken(&mut contexts, 2, 110), Some(context(8)));
        assert!(contexts.sockets.is_empty() && contexts.take(None).is_none());
    }

    #[test]
    fn halves_that_do_not_fit_are_no_trace_and_the_room_is_bounded() {
        let mut contexts = Contexts::default();
        let [first, _] = context(7).write(TraceOf::Socket(1), 100, 0);
        let [_, second] = context(8).write(TraceOf::Socket(1), 101, 0);
        contexts.push(&first);
        contexts.push(&second);
        assert_eq!(taken(&mut contexts, 1, 110), None);
        for number in 0..(MOST_OF_SOCKET + 5) as u64 {
            call(&mut contexts, 3, number, None);
        }
        assert_eq!((contexts.dropped, contexts.sockets[&3].len()), (5, MOST_OF_SOCKET));
        for socket in 0..MOST_SOCKETS as u32 + 10 {
            call(&mut contexts, socket, 1, None);
        }
        assert!(contexts.sockets.len() <= MOST_SOCKETS && contexts.dropped > MOST_OF_SOCKET as u64);
    }
}
