//! Synthetic records of requests, and what the model makes of them.

use super::cpus::Cpus;
use super::load::Load;
use super::made;
use super::ways::{Stretch, Way, Ways};
use weir_measure::class::Grouping;
use weir_measure::part::Part;
use weir_predict::{Change, Trace, predict};

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
    made::trace(ways, &Cpus::default(), load, 64, 0, false)
}

/// Numbers from 0 to 1, the same for the same seed.
fn numbers(mut state: u64) -> impl FnMut() -> f64 {
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
