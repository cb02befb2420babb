//! The events of one loop, into a ring that never makes it wait.

use crate::connect::kernel::monotonic_ns;
use crate::{Observer, Secured};
use weir_wire::client::{ClientConnection, ClientRequest};
use weir_wire::{Kind, Producer, Record};

/// Where a loop's events go, if anywhere.
#[derive(Debug)]
pub(crate) struct Events {
    ring: Option<Producer>,
    observer: Option<Box<dyn Observer>>,
    lane: u32,
    /// Events that found the ring full.
    pub(crate) lost: u64,
}

impl Events {
    /// The events of the calling thread, loop `index`; its first event says which task that is.
    ///
    /// The lane is unique on the host, so that several generators may write to one run: the process's number (22 bits at
    /// most) and the loop's.
    pub(crate) fn new(ring: Option<Producer>, observer: Option<Box<dyn Observer>>, index: u32) -> Self {
        // SAFETY: neither call takes anything or can fail.
        let (task, process) = unsafe { (libc::gettid(), libc::getpid()) };
        let lane = (process as u32) << 8 | index & 0xff;
        let mut events = Self { ring, observer, lane, lost: 0 };
        events.push(Record {
            time_ns: monotonic_ns(),
            kind: Kind::ClientLane as u16,
            lane,
            a: u64::from(task as u32) | u64::from(process as u32) << 32,
            ..Record::default()
        });
        events
    }

    /// Whether anybody wants to know of connections, for which the kernel is asked.
    pub(crate) fn recorded(&self) -> bool {
        self.ring.is_some()
    }

    /// Whether anybody listens: what only events need is not worked out otherwise.
    #[inline]
    pub(crate) fn wanted(&self) -> bool {
        self.ring.is_some() || self.observer.is_some()
    }

    /// The run begins.
    pub(crate) fn begins(&mut self, at_ns: u64) {
        if let Some(observer) = &mut self.observer {
            observer.begins(at_ns);
        }
    }

    /// A connection is about to be made.
    #[inline]
    pub(crate) fn opens(&mut self, connection: u64) {
        if let Some(observer) = &mut self.observer {
            observer.opens(connection);
        }
    }

    /// The other end of a connection took it; what is agreed on before requests follows.
    pub(crate) fn reached(&mut self, connection: u64) {
        if let Some(observer) = &mut self.observer {
            observer.reached(connection, monotonic_ns());
        }
    }

    /// A connection can carry requests from now on.
    #[inline]
    pub(crate) fn connected(&mut self, connection: u64, begin_ns: u64, ready_ns: u64) {
        if let Some(observer) = &mut self.observer {
            observer.connected(connection, begin_ns, ready_ns);
        }
    }

    /// A connection is encrypted from now on.
    pub(crate) fn secured(&mut self, session: Option<&rustls::ClientConnection>) {
        if let (Some(observer), Some(session)) = (&mut self.observer, session) {
            observer.secured(&Secured::new(session));
        }
    }

    /// A connection carries no more requests.
    #[inline]
    pub(crate) fn closes(&mut self, connection: u64) {
        if let Some(observer) = &mut self.observer {
            observer.closes(connection);
        }
    }

    /// Bytes of the response that is awaited on a connection came; they are asked for only where they are observed.
    #[inline]
    pub(crate) fn received<'b>(&mut self, connection: u64, bytes: impl FnOnce() -> &'b [u8]) {
        if let Some(observer) = &mut self.observer {
            observer.received(connection, bytes());
        }
    }

    /// A connection was made, or could not be.
    pub(crate) fn connection(&mut self, connection: ClientConnection) {
        if let Some(ring) = &mut self.ring {
            let (record, slots) = connection.write(self.lane);
            self.lost += u64::from(!ring.push(record, &slots));
        }
    }

    /// A request is over.
    #[inline]
    pub(crate) fn request(&mut self, request: ClientRequest) {
        if let Some(observer) = &mut self.observer {
            observer.request(&request);
        }
        if let Some(ring) = &mut self.ring {
            let (record, slots) = request.write(self.lane);
            self.lost += u64::from(!ring.push(record, &slots));
        }
    }

    /// Arrivals found no room, the first of them intended at `intended_ns`.
    pub(crate) fn dropped(&mut self, now_ns: u64, arrivals: u64, intended_ns: u64) {
        let record = Record {
            time_ns: now_ns,
            kind: Kind::ClientDropped as u16,
            lane: self.lane,
            a: arrivals,
            b: intended_ns,
            ..Record::default()
        };
        self.push(record);
    }

    fn push(&mut self, record: Record) {
        if let Some(ring) = &mut self.ring {
            self.lost += u64::from(!ring.push(record, &[]));
        }
    }
}
