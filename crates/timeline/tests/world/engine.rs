//! Time, CPUs and tasks: who runs, who could, who waits, and the scheduler's records of it.

use super::Event;
use super::client::Client;
use super::network::{Network, Socket};
use super::plan::{Model, Plan};
use super::server::{Listener, Process, Server, Thread, Worker};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, text_slots};

/// A task's number in the world.
pub type Tid = usize;

/// What a blocked task waits for; a wake-up for another reason passes it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    Accept,
    Data(usize),
    Poll,
    Work,
    Lock(usize),
    Timer,
    Answer,
    Client,
}

impl Want {
    /// The system call in which it shows.
    fn syscall(self) -> u16 {
        let call = match self {
            Self::Accept => libc::SYS_accept4,
            Self::Data(_) | Self::Answer => libc::SYS_recvfrom,
            Self::Poll => libc::SYS_epoll_pwait,
            Self::Client => return NO_SYSCALL, // the client is not traced
            Self::Work | Self::Lock(_) => libc::SYS_futex,
            Self::Timer => libc::SYS_clock_nanosleep,
        };
        call as u16
    }
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Not yet seen.
    Absent,
    Running,
    Ready,
    Blocked(Want),
}

/// From `at` on a task does this, at this connection's request.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub at: u64,
    pub doing: Doing,
    pub connection: Option<usize>,
    /// Who woke it, at the change to ready.
    pub woken_by: Option<Tid>,
    /// It dealt with the connection then.
    pub touched: bool,
}

/// What a task wants to do next.
pub enum Op {
    Compute(u64),
    Wait(Want),
}

/// What a task is made of; asked for the next operation whenever it has the CPU and nothing to compute.
pub trait Program {
    fn next(&mut self, world: &mut World, me: Tid) -> Op;
}

pub struct Task {
    pub pid: u32,
    pub cpu: u32,
    left: u64,
    pub doing: Doing,
    pub connection: Option<usize>,
    pub history: Vec<Change>,
    /// Whether it belongs to the server.
    pub traced: bool,
    program: Option<Box<dyn Program>>,
}

#[derive(Default)]
pub struct Cpu {
    current: Option<Tid>,
    queue: VecDeque<Tid>,
    epoch: u64,
    since: u64,
    slice_end: u64,
    coming: bool,
}

/// What is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happening {
    Tick { cpu: u32, epoch: u64 },
    Dispatch { cpu: u32 },
    Timer { task: Tid },
    Answer { task: Tid, connection: usize },
    ServerEstablished { connection: usize },
    ClientEstablished { connection: usize },
    Arrival { connection: usize, position: u64 },
    Response { connection: usize, position: u64 },
    ServerClosed { connection: usize },
}

/// The world.
pub struct World {
    pub plan: Plan,
    pub now: u64,
    pub tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    heap: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    sequence: u64,
    pub network: Network,
    pub server: Server,
    pub client: Client,
    pub events: Vec<Event>,
}

/// A hog never waits.
struct Hog;

impl Program for Hog {
    fn next(&mut self, _: &mut World, _: Tid) -> Op {
        Op::Compute(1_000_000)
    }
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let cpus = plan.cpus + u32::from(!plan.client_shares);
        let mut world = Self {
            now: 1_000_000,
            tasks: Vec::new(),
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            heap: BinaryHeap::new(),
            sequence: 0,
            network: Network::default(),
            server: Server::default(),
            client: Client::default(),
            events: Vec::new(),
            plan,
        };
        let client = world.task(50, cpus - 1, false, Box::new(super::client::Generator));
        world.client.task = client;
        if world.plan.hog {
            world.task(70, 0, false, Box::new(Hog));
        }
        let (cpus, workers) = (world.plan.cpus, world.plan.workers);
        match world.plan.model {
            Model::Processes => {
                for index in 0..workers as u32 {
                    let task = world.task(100 + index, index % cpus, true, Box::new(Process::default()));
                    world.server.workers.push(task);
                }
            }
            Model::Threads => {
                let listener = world.task(100, 0, true, Box::new(Listener));
                world.server.poller = Some(listener);
                for index in 0..workers as u32 {
                    let task = world.task(101 + index, index % cpus, true, Box::new(Thread::default()));
                    world.server.workers.push(task);
                }
            }
            Model::Events => {
                let worker = world.task(100, 0, true, Box::new(Worker::default()));
                world.server.poller = Some(worker);
            }
        }
        world
    }

    /// Runs to the client's end.
    pub fn run(&mut self) {
        let lane = Record {
            time_ns: self.now,
            kind: Kind::ClientLane as u16,
            a: u64::from(self.tasks[self.client.task].pid),
            ..Record::default()
        };
        self.events.push((lane, Vec::new()));
        for task in 0..self.tasks.len() {
            self.enqueue(task);
        }
        while let Some(Reverse((at, _, happening))) = self.heap.pop() {
            assert!(at >= self.now, "time runs back");
            self.now = at;
            self.happen(happening);
            if self.client.finished && self.now > self.client.end + 1_000_000 {
                return;
            }
            assert!(self.now < 60_000_000_000, "the world does not end: {:?}", self.plan);
        }
    }

    fn task(&mut self, pid: u32, cpu: u32, traced: bool, program: Box<dyn Program>) -> Tid {
        let record = Record {
            time_ns: self.now,
            kind: Kind::TaskName as u16,
            flags: u8::from(traced),
            slots: 1,
            lane: cpu,
            a: u64::from(pid) | u64::from(pid) << 32,
            ..Record::default()
        };
        self.events.push((record, text_slots(&format!("task{pid}"))));
        let doing = Doing::Absent;
        let program = Some(program);
        self.tasks.push(Task { pid, cpu, left: 0, doing, connection: None, history: Vec::new(), traced, program });
        self.tasks.len() - 1
    }

    pub fn after(&mut self, delay: u64, happening: Happening) {
        self.sequence += 1;
        self.heap.push(Reverse((self.now + delay, self.sequence, happening)));
    }

    /// The CPU on which a task is, for its events.
    pub fn lane(&self, task: Tid) -> u32 {
        self.tasks[task].cpu
    }

    pub fn emit(&mut self, lane: u32, kind: Kind, flags: u8, a: u64, b: u64) {
        let record = Record { time_ns: self.now, kind: kind as u16, flags, slots: 0, lane, a, b };
        self.events.push((record, Vec::new()));
    }

    /// Notes what a task does from now on.
    fn note(&mut self, task: Tid, doing: Doing, woken_by: Option<Tid>) {
        let at = self.now;
        let task = &mut self.tasks[task];
        task.doing = doing;
        task.history.push(Change { at, doing, connection: task.connection, woken_by, touched: false });
    }

    /// A task turns to a connection's request, or from it.
    pub fn turn(&mut self, task: Tid, connection: Option<usize>) {
        self.tasks[task].connection = connection;
        let doing = self.tasks[task].doing;
        self.note(task, doing, None);
        if let Some(change) = self.tasks[task].history.last_mut() {
            change.touched = connection.is_some();
        }
    }

    /// A task gives a request away: what it did for it after its last dealing with the connection cannot be seen.
    pub fn turn_away(&mut self, task: Tid) {
        self.turn(task, None);
        let history = &mut self.tasks[task].history;
        let Some(last) = history.iter().rposition(|change| change.touched) else { return };
        history[last + 1..].iter_mut().for_each(|change| change.connection = None);
        let after = Change { connection: None, touched: false, ..history[last] };
        history.insert(last + 1, after);
    }

    /// Wakes a task if it waits for this; the waker is a task, or an interrupt on any CPU.
    pub fn wake(&mut self, task: Tid, want: Want, waker: Option<Tid>) {
        if self.tasks[task].doing != Doing::Blocked(want) {
            return;
        }
        let waker_pid = waker.map_or(0, |waker| self.tasks[waker].pid);
        let lane = waker.map_or(0, |waker| self.lane(waker));
        let pid = self.tasks[task].pid;
        self.emit(lane, Kind::Waking, 0, u64::from(waker_pid) | u64::from(pid) << 32, 0);
        self.note(task, Doing::Ready, waker);
        self.enqueue(task);
    }

    fn enqueue(&mut self, task: Tid) {
        let cpu = self.tasks[task].cpu;
        self.cpus[cpu as usize].queue.push_back(task);
        if self.cpus[cpu as usize].current.is_none() && !self.cpus[cpu as usize].coming {
            self.cpus[cpu as usize].coming = true;
            let delay = self.plan.between(300, 4000); // out of the idle state
            self.after(delay, Happening::Dispatch { cpu });
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Tick { cpu, epoch } => {
                if self.cpus[cpu as usize].epoch == epoch {
                    self.tick(cpu);
                }
            }
            Happening::Dispatch { cpu } => {
                self.cpus[cpu as usize].coming = false;
                if self.cpus[cpu as usize].current.is_none() {
                    self.switch(cpu, 0, 0, NO_SYSCALL);
                }
            }
            Happening::Timer { task } => self.wake(task, Want::Timer, None),
            Happening::Answer { task, connection } => self.answered(task, connection),
            Happening::ServerEstablished { connection } => self.established(connection),
            Happening::ClientEstablished { connection } => self.connected(connection),
            Happening::Arrival { connection, position } => self.arrival(connection, position),
            Happening::Response { connection, position } => self.response(connection, position),
            Happening::ServerClosed { connection } => self.closed(connection),
        }
    }

    /// The next task of a queue gets the CPU that `prev` leaves.
    fn switch(&mut self, cpu: u32, prev: u32, prev_state: u8, syscall: u16) {
        let next = self.cpus[cpu as usize].queue.pop_front();
        let pid = next.map_or(0, |next| self.tasks[next].pid);
        if pid != prev {
            let switch = Switch { prev, next: pid, prev_state, syscall, descriptor: 0 };
            self.events.push((switch.write(self.now, cpu), Vec::new()));
        }
        let slice = self.plan.between(20_000, 120_000);
        let state = &mut self.cpus[cpu as usize];
        state.current = next;
        state.epoch += 1;
        state.slice_end = self.now + slice;
        if let Some(next) = next {
            self.note(next, Doing::Running, None);
            self.go_on(cpu, next);
        }
    }

    fn tick(&mut self, cpu: u32) {
        let Some(task) = self.cpus[cpu as usize].current else { return };
        let ran = self.now - self.cpus[cpu as usize].since;
        self.tasks[task].left -= ran;
        self.cpus[cpu as usize].epoch += 1;
        self.go_on(cpu, task);
    }

    /// A task has the CPU: asks what it wants until it computes or waits, or its slice is over.
    fn go_on(&mut self, cpu: u32, task: Tid) {
        let pid = self.tasks[task].pid;
        while self.tasks[task].left == 0 {
            let Some(mut program) = self.tasks[task].program.take() else { return };
            let op = program.next(self, task);
            self.tasks[task].program = Some(program);
            match op {
                Op::Compute(ns) => self.tasks[task].left = ns,
                Op::Wait(want) => {
                    self.note(task, Doing::Blocked(want), None);
                    return self.switch(cpu, pid, 1, want.syscall());
                }
            }
        }
        if self.now >= self.cpus[cpu as usize].slice_end && !self.cpus[cpu as usize].queue.is_empty() {
            self.note(task, Doing::Ready, None);
            self.cpus[cpu as usize].queue.push_back(task);
            return self.switch(cpu, pid, 0, NO_SYSCALL);
        }
        let state = &mut self.cpus[cpu as usize];
        state.slice_end = state.slice_end.max(self.now + 10_000);
        state.since = self.now;
        let (until, epoch) = (self.tasks[task].left.min(state.slice_end - self.now), state.epoch);
        self.after(until, Happening::Tick { cpu, epoch });
    }

    /// A socket's record.
    pub fn emit_socket(&mut self, lane: u32, kind: Kind, flags: u8, socket: Socket, sequence: u32) {
        self.emit(lane, kind, flags, u64::from(socket.id) | u64::from(sequence) << 32, 0);
    }
}
