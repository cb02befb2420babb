//! Runs with events of every sort in any order, some of which contradict each other, as after losses.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use weir_testkit::seeded::Choice;
use weir_trace::{Limits, Run, Source, StreamWriter};
use weir_wire::socket::{OLDER, SocketOpen};
use weir_wire::stream::{Flow, StreamFrame};
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, Slot, text_slots};

const CPUS: u32 = 2;
const TASKS: u32 = 7;
const EVENTS: usize = 4000;
/// Sockets 1 to 3 are of clients; 10 and 20, 11 and 21 are the ends of connections within the host.
const ENDS: [u32; 7] = [1, 2, 3, 10, 20, 11, 21];

struct World {
    chance: Choice,
    stream: StreamWriter,
    now_ns: u64,
    running: [u32; CPUS as usize],
    position: [u32; ENDS.len()],
}

/// Writes a run.
pub(crate) fn run(directory: &Path, seed: u64) -> PathBuf {
    let run = Run::create(directory).expect("a directory");
    run.begin(Source::Kernel, "0", Vec::new(), None, None).expect("a manifest");
    let mut world = World {
        chance: Choice::from_seed(seed),
        stream: run.stream(Source::Kernel, 0, Limits::default()),
        now_ns: 1000,
        running: [0; CPUS as usize],
        position: [0; ENDS.len()],
    };
    world.open();
    for _ in 0..EVENTS {
        world.event();
    }
    world.stream.finish().expect("a segment");
    directory.to_owned()
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl World {
    fn below(&mut self, bound: u32) -> u32 {
        self.chance.below(u64::from(bound)) as u32
    }

    fn push(&mut self, kind: Kind, flags: u8, lane: u32, operands: (u64, u64), payload: &[Slot]) {
        // No two events have one time, so that their order is clear.
        self.now_ns += 1 + u64::from(self.below(5000));
        let (a, b) = operands;
        let slots = payload.len() as u8;
        let record = Record { time_ns: self.now_ns, kind: kind as u16, flags, slots, lane, a, b };
        self.stream.push(record, payload, None).expect("it is written");
    }

    fn open(&mut self) {
        for pid in 1..=TASKS {
            let name = text_slots(&format!("server{}", pid % 3));
            self.push(Kind::TaskName, 1, 0, (pair(pid, pid), 0), &name);
        }
        for (index, socket) in ENDS.into_iter().enumerate() {
            self.position[index] = self.below(u32::MAX);
            let (near, far) =
                if socket < 10 { (80, 40_000 + socket as u16) } else { (9000, 50_000 + socket as u16 % 10) };
            let (local, remote) = if (10..20).contains(&socket) { (far, near) } else { (near, far) };
            let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
            let open = SocketOpen {
                socket,
                receive_base: self.position[index],
                send_base: 0,
                cookie: 0,
                netns: 1,
                local: at(local),
                remote: at(remote),
            };
            let (record, payload) = open.write(0, 0);
            self.push(Kind::SocketOpen, OLDER, 0, (record.a, record.b), &payload);
        }
    }

    fn event(&mut self) {
        let lane = self.below(CPUS);
        match self.below(100) {
            0..30 => self.switch(lane),
            30..36 => self.frame(lane),
            36..50 => {
                let (waker, woken) = (self.running[lane as usize], 1 + self.below(TASKS));
                self.push(Kind::Waking, 0, lane, (pair(waker, woken), 0), &[]);
            }
            50..90 => self.socket(lane),
            90..95 => {
                let (pid, took) = (self.below(TASKS + 1), u64::from(self.below(20_000)));
                self.push(Kind::DiskRequest, 0, lane, (pair(pid, 8 << 20), took), &[]);
            }
            95..97 => {
                let (parent, child) = (self.running[lane as usize], 100 + self.below(5));
                self.push(Kind::Fork, 1, lane, (pair(parent, child), u64::from(child)), &[]);
            }
            97 => {
                let child = 100 + self.below(5);
                self.push(Kind::Exit, 0, lane, (u64::from(child), 0), &[]);
            }
            98 if self.below(40) == 0 => self.push(Kind::Window, 1, lane, (1, 0), &[]),
            _ => {
                let client = ENDS[self.below(3) as usize];
                self.push(Kind::SocketReady, 0, lane, (u64::from(client), 0), &[]);
            }
        }
    }

    fn switch(&mut self, lane: u32) {
        // Now and then a switch is missing.
        let prev = if self.below(20) == 0 { self.below(TASKS + 1) } else { self.running[lane as usize] };
        let next = if self.below(4) == 0 { 100 + self.below(5) } else { self.below(TASKS + 1) };
        let switch = Switch { prev, next, prev_state: self.below(2) as u8, syscall: NO_SYSCALL, descriptor: 0 };
        let record = switch.write(0, lane);
        self.push(Kind::Switch, 0, lane, (record.a, record.b), &[]);
        self.running[lane as usize] = next;
    }

    /// Any frame on any of a few streams, in the clear or through TLS.
    fn frame(&mut self, lane: u32) {
        let (stream, kind) = (1 + 2 * self.below(3), [0, 1, 1, 1, 3, 12][self.below(6) as usize]);
        let flow = if self.below(3) == 0 { Flow::Tls(1) } else { Flow::Socket(1 + self.below(2)) };
        let (more, sent) = (self.below(8) == 0, kind == 12 || self.below(2) == 0);
        let frame =
            StreamFrame { flow, stream, kind, sent, more, older: false, position: 0, length: 9, frame_flags: 0 };
        let record = frame.write(0, lane);
        self.push(Kind::StreamFrame, record.flags, lane, (record.a, record.b), &[]);
    }

    fn socket(&mut self, lane: u32) {
        let index = self.below(ENDS.len() as u32) as usize;
        let socket = ENDS[index];
        let kind = [Kind::SocketReady, Kind::SocketRecv, Kind::SocketRecv, Kind::SocketSend][self.below(4) as usize];
        if kind == Kind::SocketRecv {
            self.position[index] = self.position[index].wrapping_add(self.below(3000));
        }
        let flags = if self.below(15) == 0 { 1 } else { 0 };
        let flags = if kind == Kind::SocketReady { 0 } else { flags };
        self.push(kind, flags, lane, (pair(socket, self.position[index]), 0), &[]);
    }
}
