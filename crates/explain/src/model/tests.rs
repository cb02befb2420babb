//! Synthetic records of requests, and what the model makes of them.

use super::cpus::{Cpus, Task};
use super::disks::{Disks, Queued};
use super::load::Load;
use super::made;
use super::ways::{Stretch, Way, Ways};
use weir_measure::class::Grouping;
use weir_measure::part::Part;
use weir_predict::{Change, Trace, Work, predict};
use weir_wire::{Kind, Record};

const MS: u64 = 1_000_000;

/// Requests of new connections to two processes that run for 1 ms, and are kept for so long behind each response: the
/// client closes late.
fn lingering(kept_ns: u64, opens_connections: bool) -> Trace {
    let (mut random, mut ways) = (numbers(7), Ways::new(Grouping::new(Vec::new())));
    let (mut free, mut at_ns) = ([0u64; 2], 0);
    ways.names.extend([(11, "apache2".to_owned()), (12, "apache2".to_owned())]);
    for number in 0..3_000 {
        at_ns += (-(1.0 - random()).ln() * 5e6) as u64;
        let worker = usize::from(free[1] < free[0]);
        let pid = 11 + worker as u32;
        let picked_ns = at_ns.max(free[worker]);
        let sent_ns = picked_ns + MS;
        free[worker] = sent_ns + kept_ns;
        let stretch =
            |from_ns, to_ns, part| Stretch { from_ns, to_ns, part, pid, waiter: 0, holder: 0, text: 0, phase: 0 };
        let all = [stretch(at_ns, picked_ns, Part::AcceptQueue), stretch(picked_ns, sent_ns, Part::Run)];
        ways.all.push(Way {
            at_ns,
            done_ns: sent_ns,
            picked_ns,
            sent_ns,
            class: 0,
            connection: if opens_connections { number } else { number % 8 },
            opened_connection: opens_connections,
            stretches: all.into_iter().filter(|stretch| stretch.to_ns > stretch.from_ns).collect(),
        });
    }
    let load = Load { is_open: true, connections: Some(1_000) };
    made::trace(ways, &Cpus::default(), &Queued::default(), load, 64, 0, false)
}

/// Numbers from 0 to 1, the same for the same seed.
pub(super) fn numbers(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Processes that wait for their clients to close are busy: most of the response is a wait for them, which the model
/// repeats, and which bounds the rate.
#[test]
fn processes_that_linger_behind_their_responses_are_busy() {
    let trace = lingering(6 * MS, true);
    assert!((trace.pools[0].held_ns / 6e6 - 1.0).abs() < 0.01, "{:?}", trace.pools[0]);
    let told = predict(&trace, &Change::default(), 1).expect("the model repeats the run");
    assert!(told.recorded[1] > 2e6, "waits are most of it: {:?}", told.recorded);
    let off = told.repeated.mean_ns.value / told.recorded[1] - 1.0;
    assert!(off.abs() < 0.15, "{:?} of {:?}", told.repeated.mean_ns, told.recorded);
    assert_eq!(told.bottleneck.name, "apache2");
    assert!((told.bottleneck.most_per_s / (2e3 / 7.0) - 1.0).abs() < 0.02, "{:?}", told.bottleneck);
}

/// Those that take the next request at once are not, and connections that stay open keep their processes by themselves.
#[test]
fn processes_are_not_kept_without_a_sign_of_it() {
    assert!(lingering(0, true).pools[0].held_ns < 1.0);
    assert!(lingering(6 * MS, false).pools[0].held_ns < 1.0);
}

/// Requests to a server of 2 ms on two CPUs that a compiler fills at a low priority: one in two waits for 1 ms until it
/// leaves, and one in four for the server's own task.
fn beside_a_compiler(rate_per_s: f64) -> Trace {
    const SERVER: u32 = 11;
    let (mut random, mut ways) = (numbers(3), Ways::new(Grouping::new(Vec::new())));
    let mut at_ns = 0;
    ways.names.insert(SERVER, "php-fpm".to_owned());
    for number in 0..3_000u64 {
        at_ns += (-(1.0 - random()).ln() * 1e9 / rate_per_s) as u64;
        let (holder, waits_ns) = [(900, MS), (0, 0), (901, MS), (SERVER + 1, MS / 4)][(number % 4) as usize];
        let stretch = |from_ns, to_ns, part, holder| Stretch {
            from_ns,
            to_ns,
            part,
            pid: SERVER + (number % 8) as u32,
            waiter: 0,
            holder,
            text: 0,
            phase: 0,
        };
        let picked_ns = at_ns + waits_ns;
        let sent_ns = picked_ns + 2 * MS;
        let all = [stretch(at_ns, picked_ns, Part::WaitCpu, holder), stretch(picked_ns, sent_ns, Part::Run, 0)];
        ways.names.insert(SERVER + (number % 8) as u32, "php-fpm".to_owned());
        ways.all.push(Way {
            at_ns,
            done_ns: sent_ns,
            picked_ns: at_ns,
            sent_ns,
            class: 0,
            connection: number % 64,
            opened_connection: false,
            stretches: all.into_iter().filter(|stretch| stretch.to_ns > stretch.from_ns).collect(),
        });
    }
    let task = |name: &str, tgid, is_servers, used_ns| Task { name: name.to_owned(), tgid, is_servers, used_ns };
    let server = (0..8).map(|pid| (SERVER + pid, task("php-fpm", SERVER + pid, true, 750 * MS)));
    // All that the server leaves.
    let used_ns = 2 * at_ns - 6_000 * MS;
    let compiler = [900, 901].map(|pid| (pid, task("rustc", pid, false, used_ns / 2)));
    let load = Load { is_open: true, connections: Some(64) };
    made::trace(ways, &Cpus::of(server.chain(compiler)), &Queued::default(), load, 2, 0, false)
}

/// A program that uses all that is left, and leaves when a request comes, fills no CPU: requests wait for it for as long
/// as they waited, and for each other as the model makes it.
#[test]
fn a_neighbour_of_low_priority_leaves_the_cpus_to_the_server() {
    let trace = beside_a_compiler(60.0);
    assert!((trace.others_ns() / 0.5e6 - 1.0).abs() < 0.01, "of the compiler alone: {}", trace.others_ns());
    let told = predict(&trace, &Change { rate_factor: Some(4.0), ..Change::default() }, 1).expect("it is repeated");
    let off = told.repeated.mean_ns.value / told.recorded[1] - 1.0;
    assert!(off.abs() < 0.05, "{:?} of {:?}", told.repeated.mean_ns, told.recorded);
    assert!(told.predicted.is_some(), "two CPUs are not full by 240 requests of 2 ms");
    assert!((told.bottleneck.most_per_s / 1e3 - 1.0).abs() < 0.01, "{:?}", told.bottleneck);
    assert!(told.remarks.iter().any(|remark| remark.contains("other programs")), "{:?}", told.remarks);
    let quiet = Change { others: Some(0.0), ..Change::default() }.applied(&trace).expect("right");
    assert!(quiet.others_ns() < 1.0 && trace.requests[0].visits[0].work == Work::Others);
}

/// Requests of many threads, each of which reads from a disk that works on one at a time, for 2 ms.
fn of_a_disk(rate_per_s: f64) -> Trace {
    let (mut random, mut ways, mut disks) = (numbers(5), Ways::new(Grouping::new(Vec::new())), Disks::default());
    let (mut free_ns, mut at_ns) = (0, 0);
    for number in 0..4_000u64 {
        at_ns += (-(1.0 - random()).ln() * 1e9 / rate_per_s) as u64;
        let sent_ns = at_ns.max(free_ns) + 2 * MS;
        free_ns = sent_ns;
        let pid = 11 + (number % 64) as u32;
        let (a, b) = (u64::from(pid) | 254 << 52, sent_ns - at_ns);
        disks.push(&Record { kind: Kind::DiskRequest as u16, time_ns: sent_ns, a, b, ..Record::default() }, &[]);
        ways.names.insert(pid, "httpd".to_owned());
        let stretch =
            |from_ns, to_ns, part| Stretch { from_ns, to_ns, part, pid, waiter: 0, holder: 0, text: 0, phase: 0 };
        let stretches = vec![stretch(at_ns, at_ns + 1_000, Part::Run), stretch(at_ns + 1_000, sent_ns, Part::WaitDisk)];
        let (picked_ns, done_ns, connection) = (at_ns, sent_ns, number % 64);
        let opened_connection = false;
        ways.all.push(Way { at_ns, done_ns, picked_ns, sent_ns, class: 0, connection, opened_connection, stretches });
    }
    let load = Load { is_open: true, connections: Some(10_000) };
    made::trace(ways, &Cpus::default(), &disks.queued(), load, 64, 0, false)
}

/// Its queue grows with the rate as that of a server which serves one at a time: at 400/s a request takes 6 ms, of which
/// the disk has it for 2 ms.
#[test]
fn a_disk_with_a_queue_is_a_station() {
    let trace = of_a_disk(200.0);
    let told = predict(&trace, &Change { rate_per_s: Some(400.0), ..Change::default() }, 1).expect("it is repeated");
    let (is, was) = (told.predicted.expect("below saturation").mean_ns.value, told.recorded[1]);
    assert!((is / 6e6 - 1.0).abs() < 0.15, "{is} at 400/s, {was} as recorded");
    assert_eq!(told.bottleneck.name, "disk 254:0");
    assert!((told.bottleneck.most_per_s / 500.0 - 1.0).abs() < 0.03, "{:?}", told.bottleneck);
}
