//! The operations of a request, made of its visits.

use crate::trace::{Request, Service, Trace, Visit, Work};

/// What is taken and given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// A worker of a pool.
    Pool(u16),
    /// A lock.
    Lock(u16),
    /// A connection of the client.
    Connection,
    /// A thread of the client.
    Client,
    /// A disk.
    Disk(u16),
    /// A CPU of those that the server is kept to.
    Core,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Operation {
    /// Waits for a token and takes it.
    Take(Token),
    /// Gives it back.
    Give(Token),
    /// Has a CPU for so long, nanoseconds.
    Cpu(f64),
    /// Lets time pass, nanoseconds.
    Delay(f64),
    /// Begins the program behind a pool's response, which gives the worker back.
    After(u16),
    /// The response is at the client.
    Done,
}

/// The operations of all requests and of what pools do behind a response.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    all: Vec<Operation>,
    requests: Vec<(u32, u32)>,
    after: Vec<(u32, u32)>,
}

impl Programs {
    /// Of a trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut programs = Self::default();
        for request in &trace.requests {
            let range = programs.range(|all| request_operations(trace, request, all));
            programs.requests.push(range);
        }
        for (number, pool) in trace.pools.iter().enumerate() {
            let range = programs.range(|all| {
                let token = Token::Pool(number as u16);
                match pool.service {
                    Service::Looping => {
                        all.push(Operation::Take(token));
                        run(trace, pool.after_ns, all);
                        all.push(Operation::Give(token));
                    }
                    Service::Holding => {
                        all.extend((pool.held_ns > 0.0).then_some(Operation::Delay(pool.held_ns)));
                        run(trace, pool.after_ns, all);
                        all.extend(pool.is_limit.then_some(Operation::Give(token)));
                    }
                }
            });
            programs.after.push(range);
        }
        programs
    }

    fn range(&mut self, write: impl FnOnce(&mut Vec<Operation>)) -> (u32, u32) {
        let from = self.all.len() as u32;
        write(&mut self.all);
        (from, self.all.len() as u32)
    }

    pub(crate) fn at(&self, place: u32) -> Operation {
        self.all[place as usize]
    }

    pub(crate) fn request(&self, number: usize) -> (u32, u32) {
        self.requests[number]
    }

    pub(crate) fn after(&self, pool: u16) -> (u32, u32) {
        self.after[usize::from(pool)]
    }
}

fn request_operations(trace: &Trace, request: &Request, all: &mut Vec<Operation>) {
    let client = |all: &mut Vec<Operation>| {
        if trace.client_ns > 0.0 {
            let half = Operation::Cpu(trace.client_ns / 2.0);
            all.extend([Operation::Take(Token::Client), half, Operation::Give(Token::Client)]);
        }
    };
    let has_connections = trace.clients.is_none() && trace.connections.is_some();
    all.extend(has_connections.then_some(Operation::Take(Token::Connection)));
    client(all);
    let mut inside: Vec<u16> = Vec::new();
    let mut locked = None;
    let mut visits = request.visits.iter().peekable();
    while let Some(visit) = visits.next() {
        let stack = trace.stacks.get(usize::from(visit.stack)).map_or(&[][..], Vec::as_slice);
        if locked != visit.lock {
            all.extend(locked.map(|lock| Operation::Give(Token::Lock(lock))));
        }
        go_to(trace, &mut inside, stack, all);
        if locked != visit.lock {
            all.extend(visit.lock.map(|lock| Operation::Take(Token::Lock(lock))));
            locked = visit.lock;
        }
        let looping = stack.last().filter(|pool| is_looping(trace, **pool));
        // A loop whose task waits for another program is not kept: its connection may not be what the task has in hand.
        if matches!(visit.work, Work::Delay | Work::Others) {
            all.push(Operation::Delay(visit.ns));
            continue;
        }
        // A task works on from one phase to the next, and serves no other request while it waits for a disk.
        all.extend(looping.map(|pool| Operation::Take(Token::Pool(*pool))));
        let begun = all.len();
        operate(trace, visit, begun, all);
        let goes_on = |next: &&Visit| {
            matches!(next.work, Work::Cpu | Work::Disk(_)) && (next.stack, next.lock) == (visit.stack, visit.lock)
        };
        while let Some(next) = visits.next_if(goes_on) {
            operate(trace, next, begun, all);
        }
        all.extend(looping.map(|pool| Operation::Give(Token::Pool(*pool))));
    }
    all.extend(locked.map(|lock| Operation::Give(Token::Lock(lock))));
    go_to(trace, &mut inside, &[], all);
    all.push(Operation::Done);
    client(all);
    all.extend(has_connections.then_some(Operation::Give(Token::Connection)));
}

/// A task, which began with the operation of this number, runs, or waits for a disk or another program.
fn operate(trace: &Trace, visit: &Visit, begun: usize, all: &mut Vec<Operation>) {
    let before = all.get_mut(begun..).and_then(<[Operation]>::last_mut);
    match (visit.work, before) {
        (Work::Cpu, Some(Operation::Cpu(before))) => *before += visit.ns,
        (Work::Cpu, _) => run(trace, visit.ns, all),
        (Work::Disk(disk), _) => {
            let disk = Token::Disk(disk);
            all.extend([Operation::Take(disk), Operation::Delay(visit.ns), Operation::Give(disk)]);
        }
        (Work::Others | Work::Delay, _) => all.push(Operation::Delay(visit.ns)),
    }
}

/// The server runs: where it is kept to some CPUs, on one of these.
fn run(trace: &Trace, ns: f64, all: &mut Vec<Operation>) {
    if trace.server_cpus.is_some() {
        all.extend([Operation::Take(Token::Core), Operation::Cpu(ns), Operation::Give(Token::Core)]);
    } else {
        all.push(Operation::Cpu(ns));
    }
}

/// Leaves and enters pools.
fn go_to(trace: &Trace, inside: &mut Vec<u16>, stack: &[u16], all: &mut Vec<Operation>) {
    let common = inside.iter().zip(stack).take_while(|(one, other)| one == other).count();
    while inside.len() > common
        && let Some(left) = inside.pop()
    {
        all.push(Operation::After(left));
    }
    for pool in &stack[common..] {
        inside.push(*pool);
        let is_held =
            trace.pools.get(usize::from(*pool)).is_some_and(|pool| pool.service == Service::Holding && pool.is_limit);
        all.extend(is_held.then_some(Operation::Take(Token::Pool(*pool))));
    }
}

fn is_looping(trace: &Trace, pool: u16) -> bool {
    trace.pools.get(usize::from(pool)).is_some_and(|pool| pool.service == Service::Looping)
}
