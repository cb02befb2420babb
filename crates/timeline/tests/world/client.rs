//! The load generator: one task, an event loop over its connections, batches of requests on each.

use super::engine::{Happening, Op, Program, Tid, Want, World};
use super::network::Request;
use super::server::steps_of;
use std::collections::VecDeque;
use weir_wire::client::{ClientRequest, Outcome};

#[derive(Default)]
pub struct Client {
    pub task: Tid,
    pub established: VecDeque<usize>,
    pub readable: VecDeque<usize>,
    begun: bool,
    /// Connections on which the next batch is to be sent, and since when it was intended.
    to_send: VecDeque<(usize, u64)>,
    /// A new connection is wanted, for a batch that was intended then.
    to_open: VecDeque<u64>,
    /// (connection, intended) of connections that are being made for a batch.
    opening: Vec<(usize, u64, u64)>,
    waiting: Vec<(usize, VecDeque<usize>)>,
    made: usize,
    paid: bool,
    pub finished: bool,
    pub end: u64,
    done: usize,
}

/// The program of the client's task.
pub struct Generator;

impl Program for Generator {
    fn next(&mut self, world: &mut World, _: Tid) -> Op {
        if !world.client.begun {
            world.client.begun = true;
            let now = world.now;
            for _ in 0..world.plan.connections {
                world.client.to_open.push_back(now);
            }
        }
        let idle = world.client.established.is_empty()
            && world.client.readable.is_empty()
            && world.client.to_open.is_empty()
            && world.client.to_send.is_empty();
        if idle {
            return Op::Wait(Want::Client);
        }
        // Every doing costs CPU time first, so that no two things happen at the same time.
        world.client.paid = !world.client.paid;
        if world.client.paid {
            return Op::Compute(world.plan.between(300, 3000));
        }
        if let Some(number) = world.client.readable.pop_front() {
            world.read(number);
        } else if let Some((number, intended)) = world.client.to_send.pop_front() {
            let now = world.now;
            world.write(number, intended, now, false);
        } else if let Some(number) = world.client.established.pop_front() {
            let at = world.client.opening.iter().position(|(other, ..)| *other == number).expect("it was being opened");
            let (_, intended, started) = world.client.opening.remove(at);
            world.write(number, intended, started, true);
        } else if let Some(intended) = world.client.to_open.pop_front() {
            let started = world.now;
            let number = world.connect();
            world.client.opening.push((number, intended, started));
        }
        Op::Compute(1)
    }
}

impl World {
    /// Writes a batch of requests in one go, or in two segments.
    fn write(&mut self, number: usize, intended: u64, started: u64, opened: bool) {
        let count = self.plan.pipeline.min((self.plan.requests - self.client.made) as u64);
        let mut waiting = VecDeque::new();
        let last = self.network.requests.iter().rev().find(|request| request.connection == number);
        let (mut offset, mut response_offset) =
            last.map_or((0, 0), |last| (last.offset + last.bytes, last.response_offset + last.response_bytes));
        for index in 0..count {
            let (bytes, steps) = (self.plan.between(40, 900), steps_of(&mut self.plan));
            let response_bytes = steps.iter().map(|step| step.sends()).sum();
            self.network.requests.push(Request {
                connection: number,
                offset,
                bytes,
                response_offset,
                response_bytes,
                intended,
                started,
                sent: self.now,
                done: 0,
                first_byte: 0,
                opened: opened && index == 0,
                steps,
                arrived: 0,
                not_accepted: false,
                picked: 0,
                picker: 0,
                answered: 0,
                answerer: 0,
                handed: None,
                asked: Vec::new(),
            });
            let request = self.network.requests.len() - 1;
            self.network.connections[number].coming.push_back(request);
            waiting.push_back(request);
            offset += bytes;
            response_offset += response_bytes;
            self.client.made += 1;
        }
        if waiting.is_empty() {
            return self.leave(number);
        }
        self.client.waiting.push((number, waiting));
        let delay = self.plan.between(500, 20_000);
        if self.plan.split && self.plan.chance(30) {
            let first = offset - self.plan.between(1, 30);
            self.after(delay, Happening::Arrival { connection: number, position: first });
            let later = delay + self.plan.between(5_000, 60_000);
            self.after(later, Happening::Arrival { connection: number, position: offset });
        } else {
            self.after(delay, Happening::Arrival { connection: number, position: offset });
        }
    }

    /// Takes what has come, and goes on where a batch is over.
    fn read(&mut self, number: usize) {
        let now = self.now;
        self.network.connections[number].client_taken = self.network.connections[number].client_arrived;
        let taken = self.network.connections[number].client_taken;
        let Some(at) = self.client.waiting.iter().position(|(other, _)| *other == number) else { return };
        while let Some(&request) = self.client.waiting[at].1.front() {
            let told = &mut self.network.requests[request];
            if taken > told.response_offset && told.first_byte == 0 {
                told.first_byte = now;
            }
            if taken < told.response_offset + told.response_bytes {
                return;
            }
            told.done = now;
            let told = ClientRequest {
                connection: number as u64,
                intended_ns: told.intended,
                started_ns: told.started,
                sent_ns: told.sent,
                first_byte_ns: told.first_byte,
                done_ns: now,
                request_offset: told.offset,
                request_bytes: told.bytes as u32,
                response_offset: told.response_offset,
                response_bytes: told.response_bytes,
                status: 200,
                name: 0,
                outcome: Outcome::Done,
                opened_connection: told.opened,
                encrypted: false,
                retried: false,
                http_version: 1,
                stream: 0,
            };
            let (record, slots) = told.write(0);
            self.events.push((record, slots.to_vec()));
            self.client.waiting[at].1.pop_front();
            self.client.done += 1;
        }
        self.client.waiting.remove(at);
        let more = self.client.made < self.plan.requests;
        let intended = if self.plan.open_loop { now - self.plan.choice.below(20_000).min(now / 2) } else { now };
        if more && self.plan.keep_alive {
            self.client.to_send.push_back((number, intended));
            return;
        }
        if more {
            self.client.to_open.push_back(intended);
        }
        self.leave(number);
    }

    /// Closes a connection; the world ends with the last one.
    fn leave(&mut self, number: usize) {
        let delay = self.plan.between(500, 10_000);
        self.after(delay, Happening::ServerClosed { connection: number });
        if self.client.made == self.plan.requests
            && self.client.waiting.is_empty()
            && self.client.done == self.client.made
        {
            (self.client.finished, self.client.end) = (true, self.now);
        }
    }
}
