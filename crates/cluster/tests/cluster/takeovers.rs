//! A connection whose nodes die, freeze, are cut off and come back, while messages are lost, doubled and late.
//!
//! It runs the director's decisions, the store of replicas and the arithmetic of places as they are. The client checks
//! each byte that any node sends it: a node may send what another one sends too, but never something else at its place.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use weir_cluster::{
    Batch, Control, Decline, Director, Kept, Known, Message, MoveId, NodeNumber, Position, Replica, ReplicaStore,
    SocketOptions, Steering, TableFault, Unfit, Word,
};
use weir_keeper::{Birth, Flow, Seen};
use weir_testkit::seeded::Choice;
use zeroize::Zeroizing;

const NODES: NodeNumber = 3;
const RESPONSES: u64 = 4;
const STEPS: u32 = 4_000;
/// Sequence numbers wrap in the middle of the first response.
const BIRTH: Birth = Birth { send: u32::MAX - 700, receive: u32::MAX };
const EPOCH: u64 = 9;

fn flow() -> Flow {
    Flow { client: SocketAddr::from(([10, 0, 0, 9], 999)), service: SocketAddr::from(([10, 0, 0, 1], 80)) }
}

/// Bytes of a response, and the place of its first one in the stream.
fn response(number: u64) -> (u64, u64) {
    let bytes = |number: u64| 1_500 + 700 * number;
    ((0..number).map(bytes).sum(), bytes(number))
}

/// What the director's filter does.
#[derive(Debug)]
struct Entry {
    owner: NodeNumber,
    is_steered: bool,
    seen: Seen,
}

#[derive(Clone)]
struct Table(Arc<Mutex<Entry>>);

impl Steering for Table {
    fn steer(&mut self, _: &Flow, to: NodeNumber, _: u64) -> Result<Option<Seen>, TableFault> {
        let mut entry = self.0.lock().unwrap();
        (entry.owner, entry.is_steered) = (to, true);
        Ok(Some(entry.seen.clone()))
    }

    fn owner(&self, _: &Flow) -> Option<NodeNumber> {
        Some(self.0.lock().unwrap().owner)
    }

    fn known(&self, _: &Flow) -> Option<Known> {
        let entry = self.0.lock().unwrap();
        Some(Known { seen: Some(entry.seen.clone()), birth: (!entry.is_steered).then_some(BIRTH) })
    }
}

/// A connection at a node. Places are those of the whole stream, from its first byte on.
#[derive(Debug, Clone, PartialEq)]
struct Serving {
    /// The first byte that its socket has sent, and the requests that came before.
    birth: (u64, u64),
    written: u64,
    acknowledged: u64,
    requests: u64,
    /// The response under way and its first byte, as this node believes.
    response: u64,
    begins: u64,
}

impl Serving {
    fn is_sending(&self) -> bool {
        self.written < self.begins + response(self.response).1
    }

    fn position(&self) -> Position {
        let is_restored = self.birth != (0, 0);
        let number = |of: u32, count: u64| of.wrapping_add(count as u32);
        let birth = Birth { send: number(BIRTH.send, self.birth.0), receive: number(BIRTH.receive, self.birth.1) };
        Position {
            birth: is_restored.then_some(birth),
            written: self.written - self.birth.0,
            acknowledged: self.acknowledged - self.birth.0,
            received: self.requests - self.birth.1,
            offset: self.written - self.begins,
            response_bytes: response(self.response).1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Life {
    Up,
    /// It does nothing, and its sockets are still there.
    Frozen,
    /// It does all, and neither the director nor other nodes hear it.
    CutOff,
    Dead,
}

struct Node {
    life: Life,
    has: Option<Serving>,
    store: ReplicaStore,
    batches: u64,
    start: u64,
    /// The response of which it has given a replica.
    replicated: Option<u64>,
    discarded: Vec<(MoveId, Flow)>,
    /// A replica with which it wants to go on.
    wants: Option<Kept>,
}

enum Packet {
    /// Bytes to the client: the place, the response and the offset in it.
    Bytes {
        at: u64,
        len: u64,
        of: u64,
        offset: u64,
    },
    /// The client's word on its way from the director to a node.
    Heard {
        node: NodeNumber,
        ack: u64,
        requests: u64,
    },
    Replicas {
        from: NodeNumber,
        to: NodeNumber,
        batch: Batch,
    },
    /// The answer to a takeover.
    Answer {
        to: NodeNumber,
        answer: Message,
    },
}

struct Faults {
    /// Of 1,000 packets.
    lost: u64,
    doubled: u64,
    /// Of 1,000 steps: a member changes its life.
    fate: u64,
}

struct World {
    choice: Choice,
    faults: Faults,
    nodes: Vec<Node>,
    director: Director,
    table: Table,
    network: VecDeque<Packet>,
    received: u64,
    requests: u64,
    next_id: u64,
    /// Places of the stream that a node has sent, other than the one that packets go to.
    doubled_bytes: u64,
    takeovers: u64,
}

impl World {
    fn new(seed: u64, faults: Faults) -> Self {
        let seen = Seen {
            ack: BIRTH.send,
            sequence_end: BIRTH.receive.wrapping_add(1),
            window: 1_000,
            ts_value: 0,
            ts_echo: 0,
            age: std::time::Duration::ZERO,
        };
        let table = Table(Arc::new(Mutex::new(Entry { owner: 1, is_steered: false, seen })));
        let serving = Serving { birth: (0, 0), written: 0, acknowledged: 0, requests: 1, response: 0, begins: 0 };
        let node = |number: NodeNumber| Node {
            life: Life::Up,
            has: (number == 1).then(|| serving.clone()),
            store: ReplicaStore::default(),
            batches: 0,
            start: 1,
            replicated: None,
            discarded: Vec::new(),
            wants: None,
        };
        Self {
            choice: Choice::from_seed(seed),
            faults,
            nodes: (1..=NODES).map(node).collect(),
            director: Director::new(Control::new(EPOCH, 1..=NODES), Box::new(table.clone())),
            table,
            network: VecDeque::new(),
            received: 0,
            requests: 1,
            next_id: 1,
            doubled_bytes: 0,
            takeovers: 0,
        }
    }

    fn chance(&mut self, of_1000: u64) -> bool {
        self.choice.below(1_000) < of_1000
    }

    fn node(&mut self, number: NodeNumber) -> &mut Node {
        &mut self.nodes[usize::from(number) - 1]
    }

    fn is_heard(&self, number: NodeNumber) -> bool {
        self.nodes[usize::from(number) - 1].life == Life::Up
    }

    fn send(&mut self, packet: Packet) {
        if !self.chance(self.faults.lost) {
            self.network.push_back(packet);
        }
    }

    /// A node sends what is not acknowledged, or new bytes.
    fn writes(&mut self, number: NodeNumber) {
        let again = self.chance(300);
        let new = 1 + self.choice.below(300);
        // A kernel goes on sending what it has while its programs stand still.
        let frozen = self.node(number).life == Life::Frozen;
        let Some(serving) = &mut self.node(number).has else { return };
        let end = serving.begins + response(serving.response).1;
        let from = if again || frozen { serving.acknowledged.max(serving.begins) } else { serving.written };
        let most = if frozen { serving.written } else { end };
        let to = (from + new).min(most).min(serving.acknowledged + 1_000);
        if to <= from {
            return;
        }
        serving.written = serving.written.max(to);
        let (of, offset) = (serving.response, from - serving.begins);
        self.send(Packet::Bytes { at: from, len: to - from, of, offset });
    }

    fn replicates(&mut self, number: NodeNumber) {
        let to = (1..=NODES).map(|step| (number - 1 + step) % NODES + 1).find(|peer| self.is_heard(*peer));
        let (id, node) = (self.next_id, self.node(number));
        let Some((to, serving)) = to.filter(|to| *to != number).zip(node.has.clone()) else { return };
        let replica = (serving.is_sending() && node.replicated != Some(serving.response)).then(|| Replica {
            id: MoveId { giver: number, number: id },
            flow: flow(),
            position: serving.position(),
            options: SocketOptions {
                options: 7,
                send_scale: 0,
                receive_scale: 0,
                mss: 1_000,
                timestamp: 2,
                round_trip_us: 0,
            },
            session: Zeroizing::new(serving.response.to_be_bytes().to_vec()),
        });
        let is_over = !serving.is_sending() && serving.acknowledged == serving.written && node.replicated.is_some();
        if replica.is_none() && !is_over {
            return;
        }
        node.replicated = replica.is_some().then_some(serving.response);
        node.batches += 1;
        let (start, batch_number) = (node.start, node.batches);
        let ended = if is_over { vec![flow()] } else { Vec::new() };
        let replicas = replica.into_iter().collect();
        self.next_id += 1;
        let batch = Batch { start, number: batch_number, is_anew: false, ended, replicas };
        for _ in 0..=u64::from(self.chance(self.faults.doubled)) {
            self.send(Packet::Replicas { from: number, to, batch: batch.clone() });
        }
    }

    fn watches(&mut self, number: NodeNumber) {
        let discarded = std::mem::take(&mut self.node(number).discarded);
        let Message::Replica(word) = self.director.answer(number, &Message::replica(Word::Watch { discarded })) else {
            panic!("the director answers something else");
        };
        let Word::Watched { down, taken, orphans } = &*word else { panic!("{word:?}") };
        if taken.iter().any(|(_, taken)| *taken == flow()) {
            let node = self.node(number);
            (node.has, node.replicated) = (None, None);
            node.discarded = taken.clone();
        }
        let down: Vec<_> =
            self.node(number).store.nodes_kept().into_iter().filter(|kept| down.contains(kept)).collect();
        for dead in down {
            let kept = self.node(number).store.take_of(dead).pop();
            let node = self.node(number);
            node.wants = node.wants.take().or(kept);
        }
        for (of, flow) in orphans {
            let kept = self.node(number).store.take_one(*of, flow);
            let node = self.node(number);
            node.wants = node.wants.take().or(kept);
        }
        if let Some(kept) = self.node(number).wants.clone() {
            let Replica { id, flow, position, .. } = kept.replica;
            let asked = Word::TakeOver { id, flow, epoch: EPOCH, position };
            for _ in 0..=u64::from(self.chance(self.faults.doubled)) {
                // The request or its answer is lost: it asks again.
                if !self.chance(self.faults.lost) {
                    let answer = self.director.answer(number, &Message::replica(asked.clone()));
                    self.send(Packet::Answer { to: number, answer });
                }
            }
        }
    }

    fn answered(&mut self, number: NodeNumber, answer: Message) {
        let Some(kept) = self.node(number).wants.clone() else { return };
        let replica = kept.replica;
        match answer {
            Message::Replica(word) => {
                let Word::TakenOver { id, seen, birth } = &*word else { panic!("{word:?}") };
                if *id != replica.id {
                    return;
                }
                self.node(number).wants = None;
                let Ok(place) = replica.position.place(*birth, Some(seen)) else { return };
                let response = u64::from_be_bytes(replica.session.as_slice().try_into().expect("eight bytes"));
                // The place in the stream by the sequence number, and not by what the client really has.
                let at = self.received
                    - u64::from((self.received as u32).wrapping_sub(place.send_next.wrapping_sub(BIRTH.send)));
                let requests = u64::from(place.receive_next.wrapping_sub(BIRTH.receive));
                self.takeovers += 1;
                self.node(number).has = Some(Serving {
                    birth: (at, requests),
                    written: at,
                    acknowledged: at,
                    requests,
                    response,
                    begins: at - place.offset,
                });
                self.node(number).replicated = None;
            }
            Message::Declined { id, why } if id == replica.id => {
                let node = self.node(number);
                node.wants = None;
                if let Decline::NotDown(alive) = why {
                    node.store.put_back(alive, kept_again(replica));
                } else {
                    let is_known = matches!(why, Decline::OtherOwner(_) | Decline::Unfit(_));
                    assert!(is_known && why != Decline::Unfit(Unfit::Contradiction), "{why:?}");
                }
            }
            _ => {}
        }
    }

    /// The client takes bytes, and says so through the director.
    fn arrives(&mut self, at: u64, len: u64, of: u64, offset: u64) {
        let (begins, _) = response(of);
        assert_eq!(begins + offset, at, "byte {offset} of response {of} is sent at the place {at} of the stream");
        if at + len <= self.received {
            self.doubled_bytes += len;
        }
        if at <= self.received {
            self.received = self.received.max(at + len);
        }
        self.client_speaks();
    }

    fn client_speaks(&mut self) {
        let (begins, bytes) = response(self.requests - 1);
        if self.received == begins + bytes && self.requests < RESPONSES && self.chance(300) {
            self.requests += 1;
        }
        let owner = {
            let mut entry = self.table.0.lock().unwrap();
            entry.seen.ack = BIRTH.send.wrapping_add(self.received as u32);
            entry.seen.sequence_end = BIRTH.receive.wrapping_add(self.requests as u32);
            entry.owner
        };
        let (ack, requests) = (self.received, self.requests);
        self.send(Packet::Heard { node: owner, ack, requests });
    }

    fn hears(&mut self, number: NodeNumber, ack: u64, requests: u64) {
        // A kernel acknowledges what its program has not read: the same as having it.
        if self.node(number).life == Life::Dead {
            return;
        }
        let frozen = self.node(number).life == Life::Frozen;
        let Some(serving) = &mut self.node(number).has else { return };
        // A kernel drops acknowledgements of what it has not sent.
        if ack > serving.written {
            return;
        }
        serving.acknowledged = serving.acknowledged.max(ack);
        if !frozen && requests > serving.requests && !serving.is_sending() {
            (serving.requests, serving.response) = (requests, requests - 1);
            serving.begins = serving.written;
        }
    }

    fn deliver(&mut self) {
        // Late ones: any of those that are on their way may be the next.
        let count = self.network.len() as u64;
        let next = self.choice.below(count.clamp(1, 6)) as usize;
        let Some(packet) = self.network.remove(next) else { return };
        match packet {
            Packet::Bytes { at, len, of, offset } => self.arrives(at, len, of, offset),
            Packet::Heard { node, ack, requests } => self.hears(node, ack, requests),
            Packet::Replicas { from, to, batch } if self.is_heard(to) => self.node(to).store.take_in(from, batch),
            Packet::Answer { to, answer } if self.is_heard(to) => self.answered(to, answer),
            Packet::Replicas { .. } | Packet::Answer { .. } => {}
        }
    }

    /// A member freezes, dies, is cut off, or comes back; and the director notices.
    fn fate(&mut self) {
        let number = 1 + self.choice.below(u64::from(NODES)) as NodeNumber;
        let what = self.choice.below(6);
        let others_live = (1..=NODES).any(|other| other != number && self.is_heard(other));
        let life = self.node(number).life;
        let next = match (life, what) {
            (Life::Up, _) if !others_live => Life::Up,
            (Life::Up, 0) => Life::Dead,
            (Life::Up, 5) => {
                self.server_dies(number);
                Life::Up
            }
            (Life::Up, 1) => Life::CutOff,
            (Life::Up, _) => Life::Frozen,
            // It starts anew, and knows nothing.
            (Life::Dead, _) => {
                let node = self.node(number);
                (node.has, node.replicated, node.wants) = (None, None, None);
                (node.store, node.start, node.batches) = (ReplicaStore::default(), node.start + 1, 0);
                Life::Up
            }
            (Life::Frozen | Life::CutOff, _) => Life::Up,
        };
        self.node(number).life = next;
        // Soon, or late: a short absence may not be noticed at all.
        let noticed = self.chance(700);
        if noticed {
            let is_down = next != Life::Up;
            self.director.with(|control, _| control.set_down(number, is_down));
        }
    }

    /// The server of a node dies alone, and is started again: nothing of its connection is left there, and the director
    /// hears so, also where it has given the connection to another node meanwhile.
    fn server_dies(&mut self, number: NodeNumber) {
        let node = self.node(number);
        let flows: Vec<Flow> = node.has.take().map(|_| flow()).into_iter().collect();
        (node.replicated, node.wants) = (None, None);
        (node.store, node.start, node.batches) = (ReplicaStore::default(), node.start + 1, 0);
        let told = self.director.answer(number, &Message::replica(Word::Orphaned { flows }));
        assert!(matches!(told, Message::Noted), "{told:?}");
    }

    fn step(&mut self, has_fate: bool) {
        if has_fate && self.chance(self.faults.fate) {
            self.fate();
        }
        let number = 1 + self.choice.below(u64::from(NODES)) as NodeNumber;
        match self.choice.below(6) {
            0 => self.writes(number),
            1 if self.is_heard(number) => self.replicates(number),
            2 if self.is_heard(number) => self.watches(number),
            3 if self.choice.below(4) == 0 => self.client_speaks(),
            _ => self.deliver(),
        }
    }

    /// Until it is so, at most so many steps; how many there were.
    fn run(&mut self, most: u32, has_fate: bool, is_so: impl Fn(&Self) -> bool) -> u32 {
        for count in 0..most {
            if is_so(self) {
                return count;
            }
            self.step(has_fate);
        }
        most
    }

    /// Whether the client has all of what it has asked for, and asks no more.
    fn is_done(&self) -> bool {
        let (begins, bytes) = response(RESPONSES - 1);
        self.received == begins + bytes
    }

    /// How many nodes have the connection and hear the director.
    fn holders(&self) -> usize {
        self.nodes.iter().filter(|node| node.life == Life::Up && node.has.is_some()).count()
    }
}

fn kept_again(replica: Replica) -> Kept {
    Kept { replica, since: std::time::Instant::now() }
}

#[test]
fn without_faults_the_client_gets_all_of_it() {
    for seed in 0..30 {
        let mut world = World::new(seed, Faults { lost: 0, doubled: 0, fate: 0 });
        let steps = world.run(200_000, false, World::is_done);
        assert!(world.is_done() && world.takeovers == 0, "seed {seed}, {steps} steps");
    }
}

/// A node that dies in the middle of a response of which there is a replica loses nothing.
#[test]
fn a_replicated_response_outlives_its_node() {
    let mut lives = [0; 4];
    for seed in 0..400 {
        let mut world = World::new(seed, Faults { lost: 100, doubled: 100, fate: 0 });
        let is_ready = |world: &World| {
            let has = world.nodes[0].has.as_ref();
            let counts = world.nodes[1].store.counts();
            has.is_some_and(Serving::is_sending) && counts.kept == 1 && world.received > 200
        };
        let waited = world.run(STEPS, false, is_ready);
        if waited == STEPS {
            continue;
        }
        let which = (seed % 4) as usize;
        match [Some(Life::Dead), Some(Life::Frozen), Some(Life::CutOff), None][which] {
            Some(life) => {
                world.node(1).life = life;
                world.director.with(|control, _| control.set_down(1, true));
            }
            None => world.server_dies(1),
        }
        let steps = world.run(400_000, false, World::is_done);
        // The client may have had all of the response before the other node asked.
        if world.takeovers == 0 {
            continue;
        }
        assert!(world.is_done(), "seed {seed}: {steps} steps, {} bytes, {:?}", world.received, world.nodes[1].has);
        lives[which] += 1;
        if which > 0 {
            world.node(1).life = Life::Up;
            world.director.with(|control, _| control.set_down(1, false));
            let end = world.run(STEPS, false, |world| world.holders() <= 1);
            assert!(end < STEPS, "seed {seed}: the node that came back keeps what it has lost");
        }
    }
    assert!(lives.iter().all(|count| *count > 50), "{lives:?} of each kind were looked at");
}

#[test]
fn no_mix_of_faults_sends_a_client_a_wrong_byte() {
    let first = Choice::from_environment().seed();
    let (mut takeovers, mut doubled) = (0, 0);
    for round in 0..1_500 {
        let mut choice = Choice::from_seed(first.wrapping_add(round));
        let faults = Faults { lost: choice.below(300), doubled: choice.below(300), fate: choice.below(30) };
        let mut world = World::new(first.wrapping_add(round), faults);
        world.run(STEPS, true, World::is_done);
        // In quiet, those that have lost it give it up.
        for number in 1..=NODES {
            if world.node(number).life != Life::Dead {
                world.node(number).life = Life::Up;
            }
            let is_down = world.node(number).life == Life::Dead;
            world.director.with(|control, _| control.set_down(number, is_down));
        }
        world.faults = Faults { lost: 0, doubled: 0, fate: 0 };
        world.run(STEPS, false, |_| false);
        assert!(world.holders() <= 1, "round {round}: two nodes go on");
        takeovers += world.takeovers;
        doubled += world.doubled_bytes;
    }
    assert!(takeovers > 300 && doubled > 0, "{takeovers} takeovers, {doubled} bytes that came twice");
}

/// The test sees it if a replica is believed whose response is over.
#[test]
fn a_place_without_its_checks_would_be_found() {
    let birth = Some(BIRTH);
    let copy = Position {
        birth: None,
        written: 1_500,
        acknowledged: 0,
        received: 1,
        offset: 1_500,
        response_bytes: response(0).1,
    };
    let seen = |ack: u32, end: u32| Seen {
        ack: BIRTH.send.wrapping_add(ack),
        sequence_end: BIRTH.receive.wrapping_add(end),
        window: 1,
        ts_value: 0,
        ts_echo: 0,
        age: std::time::Duration::ZERO,
    };
    assert_eq!(copy.place(birth, Some(&seen(1_500, 1))), Err(Unfit::Over));
    assert_eq!(copy.place(birth, Some(&seen(1_700, 2))), Err(Unfit::ClientSent));
}
