//! The server's tasks: processes, a listener with threads, or one event loop; and what they do for a request.

use super::engine::{Happening, Op, Program, Tid, Want, World};
use super::network::Socket;
use super::plan::{Model, Plan};
use std::collections::VecDeque;
use std::net::SocketAddr;
use weir_wire::Kind;
use weir_wire::socket::SocketOpen;

/// A step of the work for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Run(u64),
    Acquire(usize),
    Release(usize),
    Sleep(u64),
    /// Give the request to an idle thread, if there is one.
    HandOver,
    /// Send a question to the downstream.
    Ask(u64),
    /// Wait for its answer.
    Await,
    /// Take the answer.
    Hear,
    Send(u64),
}

impl Step {
    /// Bytes of the response that it gives.
    pub fn sends(self) -> u64 {
        if let Self::Send(bytes) = self { bytes } else { 0 }
    }
}

/// The work for a request, drawn at random.
pub fn steps_of(plan: &mut Plan) -> Vec<Step> {
    let mut steps = vec![Step::Run(plan.between(1_000, 40_000))];
    if plan.offload && plan.chance(40) {
        steps.extend([Step::HandOver, Step::Run(plan.between(100, 5_000))]);
    }
    if plan.locks && plan.chance(50) {
        let lock = plan.choice.below(2) as usize;
        steps.extend([Step::Acquire(lock), Step::Run(plan.between(5_000, 60_000)), Step::Release(lock)]);
        steps.push(Step::Run(plan.between(100, 5_000)));
    }
    if plan.sleeps && plan.chance(30) {
        steps.extend([Step::Sleep(plan.between(10_000, 300_000)), Step::Run(plan.between(100, 5_000))]);
    }
    if plan.downstream && plan.chance(50) {
        for _ in 0..plan.between(1, 2) {
            steps.extend([Step::Ask(plan.between(5_000, 300_000)), Step::Run(plan.between(100, 2_000)), Step::Await]);
            steps.extend([Step::Run(plan.between(100, 2_000)), Step::Hear, Step::Run(plan.between(100, 5_000))]);
        }
    }
    for _ in 0..plan.between(1, 3) {
        steps.extend([Step::Send(plan.between(1, 5_000)), Step::Run(plan.between(100, 3_000))]);
    }
    steps.pop(); // the send is the last step
    steps
}

#[derive(Default)]
struct Lock {
    owner: Option<Tid>,
    queue: VecDeque<Tid>,
}

/// What happens to an event loop.
#[derive(Debug, Clone, Copy)]
pub enum Ready {
    Accept(usize),
    Data(usize),
    Answer(usize),
}

#[derive(Default)]
pub struct Server {
    pub workers: Vec<Tid>,
    /// The listener or the event loop.
    pub poller: Option<Tid>,
    pub ready: VecDeque<Ready>,
    /// Connections that wait for a thread.
    work: VecDeque<usize>,
    locks: [Lock; 2],
    /// By task: the answer it waits for has come, or its sleep is over.
    answered: Vec<Tid>,
    rested: Vec<Tid>,
    /// Requests on their way to other threads.
    handed: Vec<(Tid, Handling)>,
    backends: Vec<(usize, Socket, u64, u64)>,
}

/// A request that is being worked on.
#[derive(Debug, Clone)]
pub struct Handling {
    request: usize,
    at: usize,
}

enum Outcome {
    Op(Op),
    /// It waits for its downstream; an event loop turns to others.
    Parked,
    /// Another thread has it now.
    Handed,
    Done,
}

impl World {
    /// Does the next step of a request; `alone`: the task waits for nothing else meanwhile.
    fn handle(&mut self, handling: &mut Handling, me: Tid, alone: bool) -> Outcome {
        let (request, connection) = (handling.request, self.network.requests[handling.request].connection);
        loop {
            let Some(step) = self.network.requests[request].steps.get(handling.at).copied() else {
                return Outcome::Done;
            };
            handling.at += 1;
            match step {
                Step::Run(ns) => return Outcome::Op(Op::Compute(ns)),
                Step::Acquire(lock) => match self.server.locks[lock].owner {
                    None => self.server.locks[lock].owner = Some(me),
                    Some(owner) if owner == me => {}
                    Some(_) => {
                        self.server.locks[lock].queue.push_back(me);
                        return Outcome::Op(Op::Wait(Want::Lock(lock)));
                    }
                },
                Step::Release(lock) => {
                    let next = self.server.locks[lock].queue.pop_front();
                    self.server.locks[lock].owner = next;
                    if let Some(next) = next {
                        self.wake(next, Want::Lock(lock), Some(me));
                    }
                }
                Step::Sleep(ns) => {
                    self.after(ns, Happening::Timer { task: me });
                    return Outcome::Op(Op::Wait(Want::Timer));
                }
                Step::HandOver => {
                    let idle = |task: &&Tid| self.tasks[**task].doing == super::engine::Doing::Blocked(Want::Work);
                    // Only onwards: given back to the one that took it up, it looks as if that one had waited for a lock.
                    let onwards = self.network.requests[request].picker == me;
                    if let Some(thread) = self.server.workers.iter().find(idle).copied().filter(|_| onwards) {
                        self.network.requests[request].handed = Some(self.now);
                        self.network.connections[connection].owner = Some(thread);
                        self.server.handed.push((thread, handling.clone()));
                        self.turn_away(me);
                        self.wake(thread, Want::Work, Some(me));
                        return Outcome::Handed;
                    }
                }
                Step::Ask(delay) => {
                    self.ask(connection, me, true);
                    let now = self.now;
                    self.network.requests[request].asked.push((now, 0));
                    self.after(delay, Happening::Answer { task: me, connection });
                }
                Step::Await if alone => {
                    if let Some(at) = self.server.answered.iter().position(|task| *task == me) {
                        self.server.answered.remove(at);
                    } else {
                        handling.at -= 1;
                        return Outcome::Op(Op::Wait(Want::Answer));
                    }
                }
                Step::Await => return Outcome::Parked,
                Step::Hear => {
                    self.ask(connection, me, false);
                    let now = self.now;
                    if let Some(asked) = self.network.requests[request].asked.last_mut() {
                        asked.1 = now;
                    }
                }
                Step::Send(bytes) => {
                    self.turn(me, Some(connection));
                    self.send(connection, me, bytes);
                    let now = self.now;
                    let told = &mut self.network.requests[request];
                    (told.answered, told.answerer) = (now, me);
                }
            }
        }
    }

    /// Sends to the connection's downstream, or takes from it.
    fn ask(&mut self, connection: usize, me: Tid, question: bool) {
        let lane = self.lane(me);
        let at = self.server.backends.iter().position(|(of, ..)| *of == connection).unwrap_or_else(|| {
            let (socket, cookie) = self.new_socket();
            let remote: [u8; 4] = if self.plan.far { [10, 9, 9, 9] } else { [127, 0, 0, 1] };
            let open = SocketOpen {
                socket: socket.id,
                receive_base: socket.receive_base,
                send_base: socket.send_base,
                cookie,
                netns: 1,
                local: SocketAddr::from((if self.plan.far { [10, 0, 0, 1] } else { [127, 0, 0, 1] }, 50_000)),
                remote: SocketAddr::from((remote, 5432)),
            };
            let (record, slots) = open.write(self.now, lane);
            self.events.push((record, slots.to_vec()));
            self.server.backends.push((connection, socket, 0, 0));
            self.server.backends.len() - 1
        });
        let (_, socket, sent, heard) = &mut self.server.backends[at];
        let socket = *socket;
        self.tasks[me].connection = Some(connection);
        if question {
            *sent += 100;
            let sequence = socket.send_base.wrapping_add(*sent as u32);
            self.emit_socket(lane, Kind::SocketSend, 0, socket, sequence);
            // Its last dealing with the request for now.
            self.turn(me, None);
        } else {
            *heard += 100;
            let sequence = socket.receive_base.wrapping_add(*heard as u32);
            self.turn(me, Some(connection));
            self.emit_socket(lane, Kind::SocketRecv, 0, socket, sequence);
        }
    }

    /// The downstream has answered.
    pub fn answered(&mut self, task: Tid, connection: usize) {
        if self.plan.model == Model::Events {
            self.server.ready.push_back(Ready::Answer(connection));
            return self.wake(task, Want::Poll, None);
        }
        self.server.answered.push(task);
        self.wake(task, Want::Answer, None);
    }

    /// A connection waits to be accepted.
    pub fn connection_waits(&mut self, number: usize) {
        match self.server.poller {
            Some(poller) => {
                self.server.ready.push_back(Ready::Accept(number));
                self.wake(poller, Want::Poll, None);
            }
            None => {
                let blocked = |task: &&Tid| self.tasks[**task].doing == super::engine::Doing::Blocked(Want::Accept);
                if let Some(task) = self.server.workers.iter().find(blocked).copied() {
                    self.wake(task, Want::Accept, None);
                }
            }
        }
    }

    /// Data, or the end, waits on an accepted connection.
    pub fn data_waits(&mut self, number: usize, owner: Option<Tid>) {
        match (owner, self.server.poller) {
            (Some(owner), _) => self.wake(owner, Want::Data(number), None),
            (None, Some(poller)) => {
                if !std::mem::replace(&mut self.network.connections[number].queued, true) {
                    self.server.ready.push_back(Ready::Data(number));
                }
                self.wake(poller, Want::Poll, None);
            }
            (None, None) => {}
        }
    }

    fn has_data(&self, number: usize) -> bool {
        let connection = &self.network.connections[number];
        connection.arrived > connection.taken || connection.closed && !connection.ended
    }

    fn take_up(&mut self, number: usize) -> Option<Handling> {
        let request = self.network.connections[number].taken_up.pop_front()?;
        Some(Handling { request, at: 0 })
    }

    /// The server's end of a connection: its record.
    fn close(&mut self, number: usize, me: Tid) {
        let (socket, lane) = (self.network.connections[number].socket, self.lane(me));
        self.network.connections[number].ended = true;
        self.turn(me, None);
        self.emit_socket(lane, Kind::SocketState, 0, socket, 0);
    }
}

/// A task that has one connection at a time and waits for it.
#[derive(Default)]
struct OneByOne {
    handling: Option<Handling>,
    /// The CPU time before the next call is spent.
    paid: bool,
    tail: bool,
}

enum Next {
    Op(Op),
    /// Nothing of this connection is there to be done; it is where it was, or at its end.
    Idle,
    Handed,
    Ended,
}

impl OneByOne {
    fn next(&mut self, world: &mut World, me: Tid, number: usize) -> Next {
        if let Some(handling) = &mut self.handling {
            match world.handle(handling, me, true) {
                Outcome::Op(op) => return Next::Op(op),
                Outcome::Parked => {}
                Outcome::Handed => {
                    self.handling = None;
                    return Next::Handed;
                }
                Outcome::Done => {
                    self.handling = None;
                    self.tail = world.plan.tail_ns > 0;
                    let next = world.network.connections[number].taken_up.front().copied();
                    world.turn(me, next.map(|_| number));
                }
            }
        }
        if std::mem::take(&mut self.tail) {
            return Next::Op(Op::Compute(world.plan.tail_ns));
        }
        self.handling = world.take_up(number);
        if self.handling.is_some() {
            return Next::Op(Op::Compute(1));
        }
        if !world.has_data(number) {
            return Next::Idle;
        }
        self.paid = !self.paid;
        if self.paid {
            return Next::Op(Op::Compute(world.plan.between(200, 3_000)));
        }
        if world.receive(number, me) == 0 {
            world.close(number, me);
            return Next::Ended;
        }
        Next::Op(Op::Compute(1))
    }
}

/// A process of its own for each connection, from accept to close.
#[derive(Default)]
pub struct Process {
    connection: Option<usize>,
    work: OneByOne,
    paid: bool,
}

impl Program for Process {
    fn next(&mut self, world: &mut World, me: Tid) -> Op {
        let Some(number) = self.connection else {
            if world.network.backlog.is_empty() {
                return Op::Wait(Want::Accept);
            }
            self.paid = !self.paid;
            if self.paid {
                return Op::Compute(world.plan.between(500, 5_000));
            }
            let number = world.network.backlog.pop_front().expect("looked at above");
            world.network.connections[number].accepted = true;
            world.network.connections[number].owner = Some(me);
            self.connection = Some(number);
            return Op::Compute(1);
        };
        match self.work.next(world, me, number) {
            Next::Op(op) => op,
            Next::Idle => Op::Wait(Want::Data(number)),
            Next::Ended | Next::Handed => {
                self.connection = None;
                Op::Compute(1)
            }
        }
    }
}

/// Accepts and watches connections, and hands those that are ready to threads.
pub struct Listener;

impl Program for Listener {
    fn next(&mut self, world: &mut World, me: Tid) -> Op {
        match world.server.ready.pop_front() {
            None => return Op::Wait(Want::Poll),
            Some(Ready::Accept(number)) => {
                world.network.backlog.retain(|other| *other != number);
                world.network.connections[number].accepted = true;
                if world.has_data(number) {
                    world.data_waits(number, None);
                }
            }
            Some(Ready::Data(number)) => {
                world.server.work.push_back(number);
                let idle = |task: &&Tid| world.tasks[**task].doing == super::engine::Doing::Blocked(Want::Work);
                if let Some(thread) = world.server.workers.iter().find(idle).copied() {
                    // It is this thread's from now on, though another one may be faster on a CPU.
                    world.server.work.pop_back();
                    world.network.connections[number].owner = Some(thread);
                    world.wake(thread, Want::Work, Some(me));
                }
            }
            Some(Ready::Answer(_)) => {}
        }
        Op::Compute(world.plan.between(300, 4_000))
    }
}

/// A thread of the pool.
#[derive(Default)]
pub struct Thread {
    connection: Option<usize>,
    work: OneByOne,
}

impl Program for Thread {
    fn next(&mut self, world: &mut World, me: Tid) -> Op {
        let Some(number) = self.connection else {
            let handed = world.network.connections.iter().position(|open| open.owner == Some(me));
            self.connection = handed.or_else(|| world.server.work.pop_front());
            if let Some(number) = self.connection {
                world.network.connections[number].owner = Some(me);
                world.network.connections[number].queued = false;
                if let Some(at) = world.server.handed.iter().position(|(thread, _)| *thread == me) {
                    self.work.handling = Some(world.server.handed.remove(at).1);
                }
            }
            return if self.connection.is_some() { Op::Compute(200) } else { Op::Wait(Want::Work) };
        };
        match self.work.next(world, me, number) {
            Next::Op(op) => op,
            // A request that has come in part is waited for; a connection without any goes back to the listener.
            Next::Idle if world.half_taken(number) => Op::Wait(Want::Data(number)),
            Next::Handed => {
                self.connection = None;
                Op::Compute(50)
            }
            Next::Idle => {
                self.connection = None;
                world.network.connections[number].owner = None;
                Op::Compute(50)
            }
            Next::Ended => {
                self.connection = None;
                world.network.connections[number].owner = None;
                Op::Compute(50)
            }
        }
    }
}

impl World {
    fn half_taken(&self, number: usize) -> bool {
        let connection = &self.network.connections[number];
        connection.coming.front().is_some_and(|request| self.network.requests[*request].offset < connection.taken)
    }
}

/// One task for all connections.
#[derive(Default)]
pub struct Worker {
    current: Option<(usize, Handling)>,
    parked: Vec<(usize, Handling)>,
    chosen: Option<Ready>,
}

impl Program for Worker {
    fn next(&mut self, world: &mut World, me: Tid) -> Op {
        if let Some((number, mut handling)) = self.current.take() {
            match world.handle(&mut handling, me, false) {
                Outcome::Op(op) => {
                    self.current = Some((number, handling));
                    return op;
                }
                Outcome::Parked | Outcome::Handed => {
                    world.turn(me, None);
                    self.parked.push((number, handling));
                }
                Outcome::Done => {
                    self.current = world.take_up(number).map(|next| (number, next));
                    world.turn(me, self.current.as_ref().map(|_| number));
                    if self.current.is_none() && world.has_data(number) {
                        world.data_waits(number, None);
                    }
                    return Op::Compute(world.plan.tail_ns.max(1));
                }
            }
        }
        let Some(chosen) = self.chosen.take() else {
            self.chosen = world.server.ready.pop_front();
            if let Some(Ready::Data(number)) = self.chosen {
                world.network.connections[number].queued = false;
            }
            return if self.chosen.is_some() {
                Op::Compute(world.plan.between(200, 3_000))
            } else {
                Op::Wait(Want::Poll)
            };
        };
        match chosen {
            Ready::Accept(number) => {
                world.network.backlog.retain(|other| *other != number);
                world.network.connections[number].accepted = true;
                if world.has_data(number) {
                    self.chosen = Some(Ready::Data(number));
                }
            }
            // While a request is parked its connection is not read.
            Ready::Data(number) if self.parked.iter().any(|(other, _)| *other == number) => {}
            Ready::Data(number) => {
                if world.has_data(number) && world.receive(number, me) == 0 {
                    world.close(number, me);
                } else {
                    self.current = world.take_up(number).map(|next| (number, next));
                    if self.current.is_none() {
                        world.turn(me, None);
                    }
                }
            }
            Ready::Answer(number) => {
                let at = self.parked.iter().position(|(other, _)| *other == number).expect("it was parked");
                self.current = Some(self.parked.remove(at));
            }
        }
        Op::Compute(1)
    }
}
