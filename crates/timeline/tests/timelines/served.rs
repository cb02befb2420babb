//! What is told from the server's sockets alone is what truly happened there: the same simulated worlds as for the join
//! with the client, without the client's word.

use crate::world;

use std::sync::Arc;
use weir_measure::part::{Part, PartTimes};
use weir_timeline::{AtServer, Bounds, Joiner, Statistics, Unjoinable};
use weir_wire::socket::{OLDER, SocketOpen};
use weir_wire::{Kind, Record};
use world::{Event, Plan, Told, base_seed, join, simulate};

/// A window that begins before everything else: every connection is then seen from its beginning on.
fn window(time_ns: u64, edge_ns: u64, ends: bool) -> Event {
    let flags = u8::from(ends);
    (Record { time_ns, kind: Kind::Window as u16, flags, a: 1, b: edge_ns, ..Record::default() }, Vec::new())
}

fn is_client(record: &Record) -> bool {
    let kinds = [Kind::ClientConnection, Kind::ClientRequest, Kind::ClientDropped, Kind::ClientLane];
    kinds.iter().any(|kind| *kind as u16 == record.kind)
}

fn serve(events: &[Event], bounds: Bounds) -> (Vec<Told>, Statistics) {
    let mut joiner = Joiner::of_server(bounds, &[]);
    let mut told = Vec::new();
    let name = Arc::from("GET /");
    for (record, slots) in events {
        joiner.push(record, slots, Some(&name), &mut |_, response| told.push(Told::of(response)));
    }
    joiner.finish(&mut |_, response| told.push(Told::of(response)));
    (told, joiner.statistics())
}

fn often() -> Bounds {
    Bounds { sweep_records: 64, ..Bounds::default() }
}

/// The parts of a joined response between its arrival and its last send.
fn within(told: &Told, server: AtServer) -> PartTimes {
    let mut parts = PartTimes::default();
    for step in &told.steps {
        let (from_ns, to_ns) = (step.from_ns.max(server.arrived_ns), step.to_ns.min(server.sent_ns));
        parts[step.part as usize] += to_ns.saturating_sub(from_ns);
    }
    parts
}

/// The events with a beginning, an end that leaves nothing under way, and no word of the client.
fn server_only(events: &[Event]) -> Vec<Event> {
    let last_ns = events.last().map_or(0, |(record, _)| record.time_ns) + 10_000_000_000;
    let kernel = events.iter().filter(|(record, _)| !is_client(record)).cloned();
    [window(0, 0, false)].into_iter().chain(kernel).chain([window(last_ns, last_ns, true)]).collect()
}

#[test]
fn any_world_without_pipelining_is_told_as_with_the_client() {
    let mut told_in_all = 0;
    for seed in base_seed()..base_seed() + 800 {
        let plan = Plan { pipeline: 1, ..Plan::any(seed) };
        let what = format!("{plan:?}");
        let (events, truths) = simulate(plan);
        let (with_client, _) = join(&events);
        if with_client.iter().any(|one| one.request.response_bytes == 25) {
            continue; // As long as `100 Continue`, and shorter than any whole response of HTTP.
        }
        let (told, statistics) = serve(&server_only(&events), often());
        assert_eq!(told.len(), truths.len(), "{what}: {statistics:?}");
        assert_eq!(statistics.joined, truths.len() as u64, "{what}: {statistics:?}");
        told_in_all += told.len();
        for one in &told {
            one.check();
            assert_eq!(one.name, ":80");
            let at = one.server.expect("it is whole");
            let truth = truths.iter().find(|truth| truth.arrived == at.arrived_ns && truth.picked == at.picked_ns);
            let truth = truth.unwrap_or_else(|| panic!("{what}: no request arrived and was taken as {one:#?}"));
            assert_eq!(at.sent_ns, truth.sent, "{what}");
            let same = |other: &&Told| {
                (other.request.connection, other.request.request_offset) == (truth.connection, truth.offset)
            };
            let joined = with_client.iter().find(same).expect("it is joined with the client");
            let server = joined.server.expect("it is joined");
            let differing: Vec<String> = Part::ALL
                .into_iter()
                .map(|part| (part, one.parts()[part as usize], within(joined, server)[part as usize]))
                .filter(|(_, told, truly)| told != truly)
                .map(|(part, told, truly)| format!("{}: {told} but {truly} with the client", part.name()))
                .collect();
            assert!(differing.is_empty(), "{what}: {differing:?}");
        }
    }
    assert!(told_in_all > 10_000);
}

const SERVERS: u32 = 1;
const ASKERS: u32 = 2;

/// A connection of the host with itself: the server's end, or that of who asks it.
fn open(time_ns: u64, socket: u32, flags: u8) -> Event {
    let address = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let (local, remote) = if socket == SERVERS { (80, 5000) } else { (5000, 80) };
    let (local, remote, cookie) = (address(local), address(remote), u64::from(socket));
    let (record, slots) =
        SocketOpen { socket, receive_base: 0, send_base: 0, cookie, netns: 0, local, remote }.write(time_ns, 0);
    (Record { flags, ..record }, slots.to_vec())
}

fn at_socket(time_ns: u64, kind: Kind, socket: u32, position: u64) -> Event {
    let a = u64::from(socket) | position << 32;
    (Record { time_ns, kind: kind as u16, a, ..Record::default() }, Vec::new())
}

/// A connection is over: from TCP_ESTABLISHED (1) to TCP_CLOSE (7).
fn closed(time_ns: u64, socket: u32) -> Event {
    let (record, slots) = at_socket(time_ns, Kind::SocketState, socket, 0);
    (Record { b: 1 | 7 << 8, ..record }, slots)
}

/// A request of 10 bytes and its response of 20, behind 100 bytes that came before.
fn exchange() -> [Event; 4] {
    [
        at_socket(20, Kind::SocketReady, SERVERS, 110),
        at_socket(30, Kind::SocketRecv, SERVERS, 110),
        at_socket(40, Kind::SocketSend, SERVERS, 220),
        window(100_000_000, 100_000_000, true),
    ]
}

#[test]
fn of_a_connection_that_was_used_before_the_beginning_is_not_known() {
    for (flags, request_bytes) in [(0, 110), (OLDER, 0)] {
        let events = [window(1, 1, false), open(10, SERVERS, flags)].into_iter().chain(exchange()).collect::<Vec<_>>();
        let (told, _) = serve(&events, often());
        let [one] = &told[..] else { panic!("{told:#?}") };
        assert_eq!((one.request.request_bytes, one.request.opened_connection), (request_bytes, flags == 0));
        assert!(one.server.is_some_and(|at| at.arrived_ns == 20 && at.sent_ns == 40), "{one:#?}");
    }
}

/// Who asks is told of when it first deals with its end, at that very time.
#[test]
fn what_a_captured_process_asks_is_part_of_another_response() {
    for asks in [true, false] {
        let mut events = vec![window(1, 1, false), open(10, SERVERS, 0), open(15, ASKERS, OLDER)];
        if asks {
            events.push(at_socket(15, Kind::SocketSend, ASKERS, 110));
        }
        events.extend(exchange());
        let (told, statistics) = serve(&events, often());
        assert_eq!((statistics.exchanges.inner, told.len()), if asks { (1, 0) } else { (0, 1) });
        // Where each server is looked at by itself, both are told.
        let mut joiner = Joiner::of_server(often(), &[]);
        joiner.tell_inner();
        let mut ends = Vec::new();
        for (record, slots) in &events {
            joiner.push(record, slots, None, &mut |_, response| ends.push(response.server_end));
        }
        assert_eq!((ends.len(), joiner.statistics().exchanges.inner), (1, 0));
        assert!(ends[0].is_some_and(|end| end.port == 80), "{ends:?}");
    }
}

#[test]
fn requests_without_an_answer_are_counted_by_server() {
    let mut joiner = Joiner::of_server(often(), &[]);
    let events = [
        window(1, 1, false),
        open(10, SERVERS, 0),
        at_socket(20, Kind::SocketReady, SERVERS, 110),
        at_socket(30, Kind::SocketRecv, SERVERS, 110),
        closed(40, SERVERS),
        window(100_000_000, 100_000_000, true),
    ];
    let mut told = 0;
    for (record, slots) in &events {
        joiner.push(record, slots, None, &mut |_, _| told += 1);
    }
    let unanswered: Vec<(u16, u64)> = joiner.unanswered().map(|(end, count)| (end.port, count)).collect();
    assert_eq!((told, unanswered, joiner.statistics().exchanges.unanswered), (0, vec![(80, 1)], 1));
}

/// Requests that were taken together are one exchange, from the first one's arrival to the last one's end; no request
/// is told twice or lost.
#[test]
fn pipelined_requests_are_exchanges() {
    let (mut exchanges, mut requests) = (0, 0);
    for seed in base_seed()..base_seed() + 300 {
        let plan = Plan { pipeline: 4, keep_alive: true, split: false, ..Plan::any(seed) };
        let what = format!("{plan:?}");
        let (events, truths) = simulate(plan);
        let (told, statistics) = serve(&server_only(&events), often());
        let bytes: u64 = told.iter().map(|one| u64::from(one.request.request_bytes)).sum();
        let asked: u64 = join(&events).0.iter().map(|one| u64::from(one.request.request_bytes)).sum();
        assert_eq!(bytes, asked, "{what}: {statistics:?}");
        for one in &told {
            one.check();
            let at = one.server.expect("it is whole");
            assert!(truths.iter().any(|truth| truth.arrived == at.arrived_ns), "{what}: {one:#?}");
            assert!(truths.iter().any(|truth| truth.sent == at.sent_ns), "{what}: {one:#?}");
        }
        exchanges += told.len();
        requests += truths.len();
    }
    assert!(exchanges < requests, "in some of these worlds requests are taken together");
}

/// A window may begin and end at any moment. Each request that is told was wholly within it, and is told as from a
/// whole recording, except for what was at work before the window.
#[test]
fn an_edge_cuts_requests_and_tells_no_others() {
    for seed in base_seed()..base_seed() + 200 {
        let plan = Plan { pipeline: 1, keep_alive: true, split: false, ..Plan::any(seed) };
        let what = format!("{plan:?}");
        let (events, truths) = simulate(plan);
        let last_ns = events.last().map_or(0, |(record, _)| record.time_ns);
        let (begin_ns, end_ns) = (last_ns / 3, last_ns / 3 * 2);
        // As the recorder tells it: who is there, then the window's beginning, and nothing after its end.
        let opens = |(record, _): &&Event| record.kind == Kind::SocketOpen as u16 && record.time_ns < begin_ns;
        let mut cut: Vec<Event> = events.iter().filter(opens).cloned().collect();
        cut.push(window(begin_ns, begin_ns, false));
        let inside = |(record, _): &&Event| (begin_ns..end_ns).contains(&record.time_ns) && !is_client(record);
        cut.extend(events.iter().filter(inside).cloned());
        cut.push(window(end_ns, end_ns, true));
        let (told, statistics) = serve(&cut, often());
        let edge = |one: &&Told| one.unjoinable == Some(Unjoinable::Edge);
        assert_eq!(told.iter().filter(edge).count() as u64, statistics.exchanges.cut, "{what}");
        for one in told.iter().filter(|one| !edge(one)) {
            one.check();
            let at = one.server.expect("it is whole");
            let same = |truth: &&world::Truth| truth.arrived == at.arrived_ns && truth.sent == at.sent_ns;
            assert!(truths.iter().any(|truth| same(&truth)), "{what}: no such request: {one:#?}");
        }
        // Those that were surely whole within it, with another one behind them, are told.
        for truth in truths.iter().filter(|truth| truth.arrived >= begin_ns && truth.sent < end_ns) {
            let follows = |other: &&world::Truth| other.connection == truth.connection && other.offset > truth.offset;
            let next = truths.iter().filter(follows).min_by_key(|other| other.offset);
            if next.is_some_and(|next| next.picked < end_ns) {
                let told = told.iter().any(|one| one.server.is_some_and(|at| at.sent_ns == truth.sent));
                assert!(told, "{what}: the request at {} is missing", truth.arrived);
            }
        }
    }
}
