//! The simulation: one event after the other, without a clock, the same for the same seed.
//!
//! CPUs serve in turns of [`TURN_NS`], first come, first served, as a scheduler of the kernel does with tasks of one
//! weight; workers, locks, disks, connections and threads of the client are tokens that are given in the order in which they
//! are asked for.

use crate::found::{Alike, state};
use crate::program::{Operation, Programs, Token};
use crate::trace::{Service, Trace};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A task's turn on a CPU while others wait, nanoseconds: what Linux gives (`base_slice_ns` on two to eight CPUs).
const TURN_NS: f64 = 3_000_000.0;
/// Requests that are under way at once, at most; beyond, the system is overrun.
const MOST_JOBS: usize = 100_000;
/// Responses that are not counted, as the system fills: one of so many.
const WARM_UP: usize = 10;

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// At the trace's own times, each request once.
    AsRecorded,
    /// By gaps drawn from those of the trace, so many requests a second.
    Drawn(f64),
    /// One after the other of each of so many clients.
    Clients(u32),
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Response times in the order of their ends, nanoseconds; those while the system fills are left out.
    pub responses_ns: Vec<f64>,
    /// Responses a second.
    pub throughput_per_s: f64,
    /// Busy CPUs on average.
    pub cpus_busy: f64,
    /// Requests under way on average.
    pub under_way: f64,
    /// Busy workers of each pool on average, of those with a limit.
    pub workers_busy: Vec<f64>,
    /// More came than was served, so that requests without end were under way.
    pub is_overrun: bool,
}

/// Simulates so many requests of a trace.
#[must_use]
pub fn simulate(trace: &Trace, arrivals: Arrivals, count: usize, seed: u64) -> Outcome {
    simulate_by(trace, &Programs::of(trace), None, arrivals, count, seed)
}

/// The same with programs that many simulations share, and requests drawn from these: each from those that found the
/// server as it does.
pub(crate) fn simulate_by(
    trace: &Trace,
    programs: &Programs,
    drawn: Option<&Alike>,
    arrivals: Arrivals,
    count: usize,
    seed: u64,
) -> Outcome {
    Run { drawn, ..Run::new(trace, programs, arrivals, count, seed) }.finish()
}

/// Whose a job is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    /// A request that came at this time; with the number of its client.
    Request { came_ns: f64, client: u32 },
    /// A pool's work behind a response.
    Behind,
    /// A client's pause before its next request.
    Pause(u32),
}

#[derive(Debug, Clone, Copy)]
struct Job {
    role: Role,
    at: u32,
    end: u32,
    /// CPU time that is left of the operation, nanoseconds.
    left_ns: f64,
    /// By which it chooses among the tasks of a loop.
    connection: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Arrival,
    /// A job's turn on a CPU of so many nanoseconds ends.
    Turn(f64),
    /// A job's delay ends.
    Delay,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Event {
    at_ns: f64,
    order: u64,
    what: What,
    job: u32,
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_ns.total_cmp(&other.at_ns).then(self.order.cmp(&other.order))
    }
}

#[derive(Debug, Default)]
struct Tokens {
    free: u32,
    all: u32,
    waiting: VecDeque<u32>,
    /// Tokens taken times nanoseconds, up to `seen_ns`.
    held: f64,
    seen_ns: f64,
}

impl Tokens {
    fn of(all: u32) -> Self {
        Self { free: all, all, ..Self::default() }
    }

    fn look(&mut self, now_ns: f64) {
        self.held += f64::from(self.all - self.free) * (now_ns - self.seen_ns);
        self.seen_ns = now_ns;
    }
}

struct Run<'a> {
    trace: &'a Trace,
    programs: &'a Programs,
    drawn: Option<&'a Alike>,
    arrivals: Arrivals,
    random: fastrand::Rng,
    gaps: Vec<f64>,
    scale: f64,
    count: usize,
    came: usize,
    done: usize,
    now_ns: f64,
    order: u64,
    events: BinaryHeap<Reverse<Event>>,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    under_way: usize,
    under_way_ns: f64,
    idle_since_ns: f64,
    tokens: Vec<Tokens>,
    /// Where the tokens of each pool begin.
    pools_at: Vec<usize>,
    locks_at: usize,
    cpus: u32,
    running: u32,
    runnable: VecDeque<u32>,
    busy_ns: f64,
    first_ns: f64,
    last_came_ns: f64,
    served_by_last: usize,
    counted: (usize, f64),
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace, programs: &'a Programs, arrivals: Arrivals, count: usize, seed: u64) -> Self {
        let mut tokens = Vec::new();
        let mut pools_at = Vec::new();
        for (number, pool) in trace.pools.iter().enumerate() {
            pools_at.push(tokens.len());
            let is_front = trace.stacks.iter().any(|stack| stack.first() == Some(&(number as u16)));
            match pool.service {
                Service::Holding if is_front => tokens.push(Tokens::of(kept_to(trace, pool.workers))),
                Service::Holding => tokens.push(Tokens::of(pool.workers.max(1))),
                Service::Looping => tokens.extend((0..pool.workers.max(1)).map(|_| Tokens::of(1))),
            }
        }
        let locks_at = tokens.len();
        tokens.extend(trace.locks.iter().map(|_| Tokens::of(1)));
        tokens.push(Tokens::of(trace.connections.unwrap_or(1).max(1)));
        tokens.push(Tokens::of(trace.client_threads.max(1)));
        tokens.push(Tokens::of(trace.server_cpus.unwrap_or(1).max(1)));
        tokens.extend(trace.disks.iter().map(|disk| Tokens::of(disk.servers.max(1))));
        let gaps: Vec<f64> =
            trace.requests.windows(2).map(|two| two[1].at_ns.saturating_sub(two[0].at_ns) as f64).collect();
        let recorded = trace.rate_per_s();
        let scale = match arrivals {
            Arrivals::Drawn(rate) if rate > 0.0 => recorded / rate,
            _ => 1.0,
        };
        let count = if arrivals == Arrivals::AsRecorded { trace.requests.len() } else { count };
        Self {
            trace,
            programs,
            drawn: None,
            arrivals,
            random: fastrand::Rng::with_seed(seed),
            gaps,
            scale,
            count,
            came: 0,
            done: 0,
            now_ns: 0.0,
            order: 0,
            events: BinaryHeap::new(),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            under_way: 0,
            under_way_ns: 0.0,
            idle_since_ns: f64::NEG_INFINITY,
            tokens,
            pools_at,
            locks_at,
            cpus: trace.cpus.max(1),
            running: 0,
            runnable: VecDeque::new(),
            busy_ns: 0.0,
            first_ns: 0.0,
            last_came_ns: 0.0,
            served_by_last: 0,
            counted: (0, 0.0),
            outcome: Outcome::default(),
        }
    }

    fn finish(mut self) -> Outcome {
        if self.trace.requests.is_empty() {
            return self.outcome;
        }
        match self.arrivals {
            Arrivals::Clients(clients) => {
                (0..clients).for_each(|client| self.arrive(client));
            }
            _ => self.plan(0.0, What::Arrival, 0),
        }
        while self.done < self.count
            && let Some(Reverse(event)) = self.events.pop()
        {
            let passed_ns = event.at_ns - self.now_ns;
            self.under_way_ns += self.under_way as f64 * passed_ns;
            self.busy_ns += f64::from(self.running) * passed_ns;
            self.now_ns = event.at_ns;
            match event.what {
                What::Arrival => self.next_arrival(),
                What::Turn(turn_ns) => self.turn_ends(event.job, turn_ns),
                What::Delay => self.go_on(event.job),
            }
            if self.jobs.len() - self.free_jobs.len() > MOST_JOBS {
                self.outcome.is_overrun = true;
                break;
            }
        }
        self.figures()
    }

    fn figures(mut self) -> Outcome {
        let whole_ns = (self.now_ns - self.first_ns).max(1.0);
        let now_ns = self.now_ns;
        self.tokens.iter_mut().for_each(|tokens| tokens.look(now_ns));
        self.outcome.cpus_busy = self.busy_ns / whole_ns;
        self.outcome.under_way = self.under_way_ns / whole_ns;
        let held = |at: usize, count: usize| self.tokens[at..at + count].iter().map(|tokens| tokens.held).sum::<f64>();
        let busy = self.trace.pools.iter().zip(&self.pools_at).map(|(pool, at)| {
            held(*at, if pool.service == Service::Looping { pool.workers.max(1) as usize } else { 1 }) / whole_ns
        });
        self.outcome.workers_busy = busy.collect();
        self.outcome.throughput_per_s = match self.arrivals {
            Arrivals::Clients(_) => {
                let (served, from_ns) = self.counted;
                (self.done - served) as f64 * 1e9 / (self.now_ns - from_ns).max(1.0)
            }
            _ => self.served_by_last as f64 * 1e9 / (self.last_came_ns - self.first_ns).max(1.0),
        };
        self.outcome
    }

    fn plan(&mut self, in_ns: f64, what: What, job: u32) {
        self.order += 1;
        self.events.push(Reverse(Event { at_ns: self.now_ns + in_ns, order: self.order, what, job }));
    }

    fn next_arrival(&mut self) {
        if self.came >= self.count {
            return;
        }
        self.arrive(0);
        let gap_ns = match self.arrivals {
            Arrivals::AsRecorded => self.gaps.get(self.came - 1).copied().unwrap_or(0.0),
            _ if self.gaps.is_empty() => 1e9,
            _ => self.gaps[self.random.usize(..self.gaps.len())] * self.scale,
        };
        if self.came < self.count {
            self.plan(gap_ns, What::Arrival, 0);
        }
    }

    fn arrive(&mut self, client: u32) {
        let requests = self.trace.requests.len();
        let number = match self.arrivals {
            Arrivals::AsRecorded => self.came.min(requests - 1),
            _ => {
                let found = state(self.under_way, self.trace.cpus, self.now_ns - self.idle_since_ns);
                match self.drawn {
                    Some(alike) => alike.draw(self.trace, found, &mut self.random) as usize,
                    None => self.random.usize(..requests),
                }
            }
        };
        if self.came == 0 {
            self.first_ns = self.now_ns;
        }
        self.came += 1;
        (self.last_came_ns, self.served_by_last) = (self.now_ns, self.done);
        let connection = if matches!(self.arrivals, Arrivals::Clients(_)) { client } else { self.random.u32(..) };
        self.under_way += 1;
        let role = Role::Request { came_ns: self.now_ns, client };
        self.start(role, self.programs.request(number), connection);
    }

    fn start(&mut self, role: Role, range: (u32, u32), connection: u32) {
        let number = self.job(role, range, connection);
        self.go_on(number);
    }

    fn job(&mut self, role: Role, (at, end): (u32, u32), connection: u32) -> u32 {
        let job = Job { role, at, end, left_ns: 0.0, connection };
        if let Some(number) = self.free_jobs.pop() {
            self.jobs[number as usize] = job;
            return number;
        }
        self.jobs.push(job);
        (self.jobs.len() - 1) as u32
    }

    /// Carries out a job's operations until it waits.
    fn go_on(&mut self, number: u32) {
        loop {
            let job = &mut self.jobs[number as usize];
            if job.at >= job.end {
                return self.end(number);
            }
            let operation = self.programs.at(job.at);
            job.at += 1;
            match operation {
                Operation::Take(token) => {
                    let tokens =
                        &mut self.tokens[place(self.trace, &self.pools_at, self.locks_at, job.connection, token)];
                    if tokens.free == 0 {
                        return tokens.waiting.push_back(number);
                    }
                    tokens.look(self.now_ns);
                    tokens.free -= 1;
                }
                Operation::Give(token) => {
                    let connection = job.connection;
                    let tokens = &mut self.tokens[place(self.trace, &self.pools_at, self.locks_at, connection, token)];
                    if let Some(next) = tokens.waiting.pop_front() {
                        self.plan(0.0, What::Delay, next);
                    } else {
                        tokens.look(self.now_ns);
                        tokens.free += 1;
                    }
                }
                Operation::Cpu(ns) if ns > 0.0 => {
                    job.left_ns = ns;
                    self.runnable.push_back(number);
                    return self.dispatch();
                }
                Operation::Delay(ns) if ns > 0.0 => return self.plan(ns, What::Delay, number),
                Operation::Cpu(_) | Operation::Delay(_) => {}
                Operation::After(pool) => {
                    let connection = job.connection;
                    self.start(Role::Behind, self.programs.after(pool), connection);
                }
                Operation::Done => self.done(number),
            }
        }
    }

    fn dispatch(&mut self) {
        while self.running < self.cpus
            && let Some(number) = self.runnable.pop_front()
        {
            self.running += 1;
            let turn_ns = self.jobs[number as usize].left_ns.min(TURN_NS);
            self.plan(turn_ns, What::Turn(turn_ns), number);
        }
    }

    fn turn_ends(&mut self, number: u32, turn_ns: f64) {
        self.running -= 1;
        let job = &mut self.jobs[number as usize];
        job.left_ns -= turn_ns;
        if job.left_ns > 0.0 {
            self.runnable.push_back(number);
        } else {
            // Its CPU is free for the next before it goes on, or it would get ahead of the queue.
            self.dispatch();
            self.go_on(number);
        }
        self.dispatch();
    }

    fn done(&mut self, number: u32) {
        let Role::Request { came_ns, .. } = self.jobs[number as usize].role else { return };
        self.done += 1;
        self.under_way -= 1;
        self.idle_since_ns = self.now_ns;
        if self.done == self.count / WARM_UP {
            self.counted = (self.done, self.now_ns);
        }
        if self.arrivals == Arrivals::AsRecorded || self.done > self.count / WARM_UP {
            self.outcome.responses_ns.push(self.now_ns - came_ns);
        }
    }

    fn end(&mut self, number: u32) {
        let role = self.jobs[number as usize].role;
        self.free_jobs.push(number);
        match role {
            Role::Request { client, .. } if matches!(self.arrivals, Arrivals::Clients(_)) => {
                // A pause is a job of its own, at whose end the next request comes.
                let pause = self.job(Role::Pause(client), (0, 0), client);
                self.plan(self.trace.think_ns, What::Delay, pause);
            }
            Role::Pause(client) => self.arrive(client),
            _ => {}
        }
    }
}

/// Of a pool whose clients keep their connections each connection has one worker, so that no more than these work.
fn kept_to(trace: &Trace, workers: u32) -> u32 {
    workers.max(1).min(trace.connections.filter(|_| trace.kept_alive).unwrap_or(u32::MAX).max(1))
}

/// Which tokens are meant.
fn place(trace: &Trace, pools_at: &[usize], locks_at: usize, connection: u32, token: Token) -> usize {
    match token {
        Token::Pool(pool) => {
            let (at, pool) = (pools_at[usize::from(pool)], &trace.pools[usize::from(pool)]);
            let is_looping = pool.service == Service::Looping;
            at + if is_looping { (connection % pool.workers.max(1)) as usize } else { 0 }
        }
        Token::Lock(lock) => locks_at + usize::from(lock),
        Token::Connection => locks_at + trace.locks.len(),
        Token::Client => locks_at + trace.locks.len() + 1,
        Token::Core => locks_at + trace.locks.len() + 2,
        Token::Disk(disk) => locks_at + trace.locks.len() + 3 + usize::from(disk),
    }
}
