//! Small runs whose figures are calculated by hand.

use weir_objects::{ClassReport, Framework, Report, Table};
use weir_wire::socket::{ACCEPTED, SocketOpen};
use weir_wire::stream::{StreamFrame, frame_type};
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, text_slots};

/// The client's connection, and the two ends of one within the host: 10 asks, 20 answers.
const CLIENT: u32 = 1;
const ASKS: u32 = 10;
const ANSWERS: u32 = 20;
const FRONT: u32 = 100;
const BACK: u32 = 200;

struct World {
    framework: Framework,
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl World {
    fn new(table: Table) -> Self {
        let mut world = Self { framework: Framework::new(table) };
        for (pid, name) in [(FRONT, "front"), (BACK, "back"), (BACK + 1, "back")] {
            let payload = text_slots(name);
            let slots = payload.len() as u8;
            let kind = Kind::TaskName as u16;
            let record = Record { kind, slots, a: pair(pid, pid), ..Record::default() };
            world.framework.push(&record, &payload, None);
        }
        let address = |port: u16| ([127, 0, 0, 1], port).into();
        let (local, remote) = (address(80), address(40_000));
        let open = SocketOpen { socket: CLIENT, receive_base: 0, send_base: 0, cookie: 0, netns: 1, local, remote };
        let (record, payload) = open.write(0, 0);
        world.framework.push(&record, &payload, None);
        world.at(0, Kind::SocketPeer, ACCEPTED, 0, (pair(ANSWERS, ASKS), 0));
        world
    }

    fn at(&mut self, time_ns: u64, kind: Kind, flags: u8, lane: u32, operands: (u64, u64)) {
        let (a, b) = operands;
        self.framework.push(&Record { time_ns, kind: kind as u16, flags, slots: 0, lane, a, b }, &[], None);
    }

    fn switch(&mut self, time_ns: u64, lane: u32, prev: u32, next: u32) {
        let switch = Switch { prev, next, prev_state: 1, syscall: NO_SYSCALL, descriptor: 0 };
        self.framework.push(&switch.write(time_ns, lane), &[], None);
    }

    fn waking(&mut self, time_ns: u64, woken: u32) {
        self.at(time_ns, Kind::Waking, 0, 0, (pair(0, woken), 0));
    }

    fn socket(&mut self, time_ns: u64, kind: Kind, lane: u32, socket: u32) {
        self.at(time_ns, kind, 0, lane, (pair(socket, time_ns as u32), 0));
    }

    fn probe(&mut self, time_ns: u64, argument: u64, name: &str, roles: &str) {
        let record = Record { time_ns, kind: Kind::ProbeHit as u16, a: argument, ..Record::default() };
        self.framework.push(&record, &[], Some(&format!("front\t{name}\t{roles}")));
    }

    fn report(self) -> Report {
        let report = self.framework.finish();
        assert_eq!(report.counts.unbalanced_ns, 0);
        report
    }
}

/// What an interaction's objects did and were waited for, in a part of a class.
fn of(class: &ClassReport, interaction: &str, part: &[&str]) -> (u64, u64) {
    let uses = class.uses.iter().filter(|one| one.interaction == interaction && one.part == part);
    uses.fold((0, 0), |sum, one| (sum.0 + one.used_ns.unwrap_or(0), sum.1 + one.waited_ns.unwrap_or(0)))
}

/// The front asks the back, which writes to a disk that goes on after the transaction's end.
#[test]
fn the_ten_steps_follow_a_request_into_another_process_and_beyond_its_end() {
    let mut world = World::new(Table::ours());
    world.socket(1000, Kind::SocketReady, 0, CLIENT);
    world.waking(1010, FRONT);
    world.switch(1030, 0, 0, FRONT);
    world.socket(1100, Kind::SocketRecv, 0, CLIENT);
    world.socket(1300, Kind::SocketSend, 0, ASKS);
    world.waking(1310, BACK);
    world.switch(1350, 1, 0, BACK);
    world.socket(1400, Kind::SocketRecv, 1, ANSWERS);
    world.switch(1450, 0, FRONT, 0);
    world.socket(1700, Kind::SocketSend, 1, ANSWERS);
    world.waking(1710, FRONT);
    world.switch(1730, 0, 0, FRONT);
    world.socket(1760, Kind::SocketRecv, 0, ASKS);
    world.switch(1800, 1, BACK, 0);
    world.socket(1900, Kind::SocketSend, 0, CLIENT);
    world.switch(2000, 0, FRONT, 0);
    // Asked for by the back at 1600, done at 5000.
    world.at(5000, Kind::DiskRequest, 1, 0, (pair(BACK, 8 << 20), 3400));
    let report = world.report();
    let [background, class] = &report.classes[..] else { panic!("{:#?}", report.classes) };
    assert_eq!((class.name.as_str(), class.finished, class.response_ns), ("front:80", 1, 900));
    // From the taking on, without the sleep; what comes after the last sending is background.
    assert_eq!(of(class, "cpu", &["front"]), (1450 - 1100 + 1900 - 1730, 20));
    assert_eq!(of(class, "cpu", &["front", "back"]), (1700 - 1400, 0));
    assert_eq!(of(class, "disk", &["front", "back"]), (3400, 0));
    // The front waits for the back, as the client does for the front.
    assert_eq!(of(class, "conversation", &["front"]), (800, 100 + 100));
    assert_eq!(of(class, "conversation", &["front", "back"]), (300, 0));
    assert_eq!(of(background, "cpu", &["front"]), (1100 - 1030 + 2000 - 1900, 20));
    assert_eq!(of(background, "cpu", &["back"]), (1400 - 1350 + 1800 - 1700, 40));
    let own: u64 = report.objects.iter().filter(|one| one.interaction == "cpu").filter_map(|one| one.used_ns).sum();
    assert_eq!(own, 1450 - 1030 + 2000 - 1730 + 1800 - 1350);
}

/// What an answer that is not the last one is followed by is still the transaction's.
#[test]
fn an_answer_in_pieces_is_one() {
    let mut world = World::new(Table::ours());
    world.switch(1000, 0, 0, FRONT);
    for (time_ns, kind) in [(1100, Kind::SocketRecv), (1200, Kind::SocketSend), (1500, Kind::SocketSend)] {
        world.socket(time_ns, kind, 0, CLIENT);
    }
    world.socket(1600, Kind::SocketReady, 0, CLIENT);
    world.socket(1700, Kind::SocketRecv, 0, CLIENT);
    world.socket(1800, Kind::SocketSend, 0, CLIENT);
    world.switch(2000, 0, FRONT, 0);
    let report = world.report();
    assert_eq!((report.classes[1].finished, report.classes[1].response_ns), (2, 400 + 200));
    assert_eq!(of(&report.classes[1], "cpu", &["front"]), (400 + 100, 0));
    assert_eq!(of(&report.classes[0], "cpu", &["front"]), (100 + 200 + 200, 0));
}

/// Two streams of a connection overlap, and a third one is given up before its answer.
#[test]
fn streams_of_one_connection_are_objects_of_their_own() {
    let mut world = World::new(Table::ours());
    let frame = |world: &mut World, time_ns: u64, stream: u32, kind: u8, sent: bool| {
        let flow = weir_wire::stream::Flow::Socket(CLIENT);
        let (more, older, position, length, frame_flags) = (false, false, 0, 9, 0);
        let told = StreamFrame { flow, stream, kind, sent, more, older, position, length, frame_flags };
        world.framework.push(&told.write(time_ns, 0), &[], None);
    };
    world.switch(1000, 0, 0, FRONT);
    world.socket(1100, Kind::SocketRecv, 0, CLIENT);
    frame(&mut world, 1110, 1, frame_type::HEADERS, false);
    frame(&mut world, 1120, 3, frame_type::HEADERS, false);
    frame(&mut world, 1130, 5, frame_type::HEADERS, false);
    frame(&mut world, 1200, 5, frame_type::RST_STREAM, false);
    frame(&mut world, 1300, 3, frame_type::HEADERS, true);
    frame(&mut world, 1310, 3, frame_type::DATA, true);
    frame(&mut world, 1400, 1, frame_type::HEADERS, true);
    // The trailers of an answer are no second answer.
    frame(&mut world, 1450, 1, frame_type::HEADERS, true);
    frame(&mut world, 1500, 1, frame_type::STREAM_END, true);
    world.socket(1600, Kind::SocketSend, 0, CLIENT);
    frame(&mut world, 1700, 3, frame_type::STREAM_END, true);
    // Of a stream that began before the recording nothing is known.
    frame(&mut world, 1800, 7, frame_type::STREAM_END, true);
    world.switch(2000, 0, FRONT, 0);
    let report = world.report();
    let class = &report.classes[1];
    assert_eq!((class.finished, class.response_ns), (1, 500));
    // Finish less accept, also beyond the transaction's own end; accept less request.
    let (busy, waited) = ((1500 - 1400) + (1700 - 1300), (1400 - 1110) + (1300 - 1120) + (1200 - 1130));
    assert_eq!(of(class, "stream", &["front"]), (busy, waited));
    let own: Vec<_> = report.objects.iter().filter(|one| one.interaction == "stream").collect();
    let told = |name: &str| {
        let one = own.iter().find(|one| one.name == name).expect("the stream");
        (one.accepts, one.used_ns, one.waited_ns)
    };
    assert_eq!(told("1 of connection 1"), (1, Some(100), Some(290)));
    assert_eq!(told("3 of connection 1"), (1, Some(400), Some(180)));
    assert_eq!((told("5 of connection 1"), own.len()), ((1, Some(0), Some(70)), 3));
    assert_eq!(report.counts.finishes_unaccepted, 0);
}

/// The phases of the paper's Fig. 9: one ends where the next begins, and calls lie within them.
#[test]
fn phases_and_calls_lie_within_each_other() {
    let mut table = Table::ours();
    let calls = r#"
        [[interaction]]
        name = "function"
        pattern = "call"

        [[rule]]
        event = "probe_hit"
        when = "argument == 1"
        do = "accept"
        interaction = "function"
        requester = "task:running"
        object = "function:text"

        [[rule]]
        event = "probe_hit"
        when = "argument == 2"
        do = "finish"
        interaction = "function"
        requester = "task:running"
        object = "function:text"
    "#;
    table.extend(calls).expect("good rules");
    let mut world = World::new(table);
    world.switch(1000, 0, 0, FRONT);
    world.probe(1000, 0, "read", "phase");
    world.socket(1100, Kind::SocketRecv, 0, CLIENT);
    world.probe(1200, 0, "process", "phase");
    world.probe(1300, 1, "outer", "");
    world.probe(1400, 1, "inner", "");
    world.probe(1600, 2, "inner", "");
    world.probe(1900, 2, "outer", "");
    world.probe(2000, 0, "close", "phase");
    world.socket(2100, Kind::SocketSend, 0, CLIENT);
    world.probe(2150, 0, "read", "phase");
    world.switch(2200, 0, FRONT, 0);
    let report = world.report();
    let [background, class] = &report.classes[..] else { panic!("{:#?}", report.classes) };
    let cpu = |class, part: &[&str]| of(class, "cpu", part).0;
    assert_eq!(cpu(background, &["front", "front: read"]), 100 + 50);
    assert_eq!(cpu(class, &["front", "front: read"]), 100);
    assert_eq!(cpu(class, &["front", "front: process"]), 100 + 100);
    assert_eq!(cpu(class, &["front", "front: process", "front: outer"]), 100 + 300);
    assert_eq!(cpu(class, &["front", "front: process", "front: outer", "front: inner"]), 200);
    assert_eq!(cpu(class, &["front", "front: close"]), 100);
    let part = class.parts.iter().find(|part| part.part.len() == 4).expect("the innermost part");
    assert_eq!((part.passages, part.elapsed_ns), (1, 200));
    let outer = report.objects.iter().find(|one| one.name == "front: outer").expect("the function");
    assert_eq!(outer.used_ns, Some(600));
}

/// Fig. 7: a request wakes all servers of a team; all but one go back to sleep.
#[test]
fn a_herd_waits_semi_busily() {
    let mut world = World::new(Table::ours());
    for (round, server) in [(1, BACK), (2, BACK + 1), (3, BACK)] {
        let start = round * 10_000;
        world.socket(start, Kind::SocketReady, 0, CLIENT);
        for (place, pid) in [BACK, BACK + 1].into_iter().enumerate() {
            let at = start + 1000 * (place as u64 + 1);
            world.waking(at, pid);
            world.switch(at + 10, 0, 0, pid);
            if pid == server {
                world.socket(at + 20, Kind::SocketRecv, 0, CLIENT);
                world.socket(at + 30, Kind::SocketSend, 0, CLIENT);
            }
            world.switch(at + 50, 0, pid, 0);
        }
    }
    let report = world.report();
    let team = &report.teams[0];
    assert_eq!((team.name.as_str(), team.tasks, team.accepts, team.wakeups), ("back", 2, 3, 6));
    // Between the first and the second accept of the first server, in the second round.
    assert_eq!(team.semi_busy_waiting, 1);
}

/// Contention, a spin lock of the user's, and what is not recorded of either.
#[test]
fn locks_are_waited_for_and_only_what_is_told_of_them_is_told() {
    let mut table = Table::ours();
    let spin = r#"
        [[interaction]]
        name = "spin"
        pattern = "busy-wait"

        [[rule]]
        event = "probe_hit"
        when = "argument == 1"
        do = "request"
        interaction = "spin"
        requester = "task:running"
        object = "spin-lock:text"

        [[rule]]
        event = "probe_hit"
        when = "argument == 2"
        do = "accept"
        interaction = "spin"
        requester = "task:running"
        object = "spin-lock"

        [[rule]]
        event = "probe_hit"
        when = "argument == 3"
        do = "finish"
        interaction = "spin"
        requester = "task:running"
        object = "spin-lock"
    "#;
    table.extend(spin).expect("good rules");
    let mut world = World::new(table);
    world.switch(1000, 0, 0, FRONT);
    world.socket(1100, Kind::SocketRecv, 0, CLIENT);
    world.at(1200, Kind::LockWait, 4, 0, (pair(FRONT, BACK), 7));
    world.at(1500, Kind::LockEnd, 0, 0, (pair(FRONT, 0), 0));
    (1..4).for_each(|argument| world.probe(1500 + 100 * argument, argument, "kernel lock", ""));
    world.socket(1900, Kind::SocketSend, 0, CLIENT);
    world.switch(2000, 0, FRONT, 0);
    let report = world.report();
    let class = &report.classes[1];
    assert_eq!(of(class, "lock", &["front"]), (0, 300));
    assert_eq!(of(class, "spin", &["front"]), (100, 100));
    let lock = report.objects.iter().find(|one| one.interaction == "lock").expect("the lock");
    assert_eq!((lock.used_ns, lock.waited_ns), (None, Some(300)), "when it is given back is not recorded");
    let interaction = |name: &str| report.interactions.iter().find(|one| one.name == name).expect("an interaction");
    assert_eq!((interaction("lock").requests, interaction("lock").finishes), (Some(1), None));
    assert_eq!(interaction("timer").requests, None, "no source of timers was recorded");
}

/// A task waits for a file until it runs again; a switch without such a wait before it ends nothing.
#[test]
fn a_file_is_waited_for_until_the_task_runs_again() {
    let mut world = World::new(Table::ours());
    let name = text_slots("/srv/page.html");
    let kind = Kind::Named as u16;
    world.framework.push(&Record { kind, flags: 1, slots: name.len() as u8, a: 99, ..Record::default() }, &name, None);
    world.at(900, Kind::Watched, 0, 0, (1, 0));
    world.switch(1000, 0, 0, FRONT);
    world.socket(1100, Kind::SocketRecv, 0, CLIENT);
    world.at(1200, Kind::FileWait, 0, 0, (pair(FRONT, 0), 99));
    world.switch(1210, 0, FRONT, 0);
    world.switch(1700, 0, 0, FRONT);
    world.socket(1900, Kind::SocketSend, 0, CLIENT);
    world.switch(2000, 0, FRONT, 0);
    let report = world.report();
    assert_eq!(of(&report.classes[1], "file", &["front"]), (500, 0));
    let file = report.objects.iter().find(|one| one.interaction == "file").expect("the file");
    assert_eq!((file.name.as_str(), file.used_ns, file.accepts), ("/srv/page.html", Some(500), 1));
    assert_eq!(report.counts.finishes_unaccepted, 0);
}

/// What an application tells of its own work: of two transactions within each other each has its own time.
#[test]
fn transactions_of_arm_interrupt_each_other_and_are_no_phases() {
    let mut world = World::new(Table::ours());
    let mut told = |time_ns, more: u8, name: &str, roles: &str| {
        let record =
            Record { time_ns, kind: Kind::ProbeHit as u16, flags: 1 | more, a: u64::from(FRONT), ..Record::default() };
        world.framework.push(&record, &[], Some(&format!("shop\t{name}\t{roles}")));
    };
    told(1000, 0, "order", "phase");
    told(1300, 0, "price", "phase");
    told(1500, 2, "order", "phase");
    told(1900, 0, "order", "end");
    let report = world.report();
    let used = |name: &str| {
        let own = report.objects.iter().filter(|one| one.interaction == "transaction" && one.name == name);
        own.filter_map(|one| one.used_ns).sum::<u64>()
    };
    assert_eq!((used("shop: order"), used("shop: price")), (300 + 400, 200));
    assert!(report.objects.iter().all(|one| one.interaction != "phase"));
}

/// The example of the page: what a thread hands to another one of its pool is the transaction's.
#[test]
fn the_rules_of_the_page_follow_a_pool() {
    let page = include_str!("../../../../docs/reference/objects.md");
    let rules = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let mut table = Table::ours();
    table.extend(rules).expect("the page's rules are good");
    let mut world = World::new(table);
    world.switch(1000, 0, 0, FRONT);
    world.socket(1100, Kind::SocketRecv, 0, CLIENT);
    world.at(1200, Kind::Waking, 0, 0, (pair(FRONT, BACK), 0));
    world.switch(1250, 1, 0, BACK);
    world.switch(1550, 1, BACK, 0);
    world.socket(1900, Kind::SocketSend, 0, CLIENT);
    world.switch(2000, 0, FRONT, 0);
    let report = world.report();
    assert_eq!(of(&report.classes[1], "cpu", &["front", "back"]).0, 300);
    assert_eq!(of(&report.classes[1], "pool", &["front"]), (0, 50));
    assert_eq!(of(&report.classes[1], "pool", &["front", "back"]), (300, 0));
}

/// Requests to a listener are counted one by one, though nothing tells when they are accepted.
#[test]
fn what_is_never_accepted_is_still_counted() {
    let mut world = World::new(Table::ours());
    (1..4).for_each(|time| world.at(time * 1000, Kind::ListenReady, 0, 0, (pair(7, 1), 0)));
    let report = world.report();
    let listener = report.interactions.iter().find(|one| one.name == "listener").expect("an interaction");
    assert_eq!((listener.requests, listener.accepts), (Some(3), None));
    let listener = report.objects.iter().find(|one| one.class == "listener").expect("an object");
    assert_eq!((listener.used_ns, listener.waited_ns), (None, None));
}

/// With the disks watched, none that was used is 0; without, it is not recorded.
#[test]
fn nothing_recorded_is_not_nothing() {
    let disks = |watched: u64| {
        let mut world = World::new(Table::ours());
        world.at(10, Kind::Watched, 0, 0, (watched, 0));
        let report = world.report();
        report.interactions.into_iter().find(|one| one.name == "disk").and_then(|disk| disk.requests)
    };
    assert_eq!((disks(1), disks(2)), (Some(0), None));
}
