//! What a tick of the adaptive server's rules costs: 1,000 rules, 10,000 atoms, 1,000 sessions.
//!
//! `adapt-tick [TICKS [MIB]]` tells readings as they would come each second, and prints the time of each part; for counts
//! of instructions, `tick` is what callgrind is to collect. With MIB, so much memory is written before each part, as a
//! server that is at work all the second has the caches for itself: 0 if it is left out, 256 to have none left.

use std::time::{Duration, Instant};
use weir_adapt::forecast::Method;
use weir_adapt::{Decision, Engine, Of, Policy, Reading, Resource, State};

/// 100 patterns of ten rules each, of every kind.
fn policy() -> String {
    let mut text = String::from("pool main = { n1, n2, n3, n4 };\n");
    for block in 0..100 {
        text += &format!("atom \"/{block}/*\" {{ variants full > half > small;\n");
        for rule in 0..3 {
            text += &format!(
                "rule own{rule}: every 5s if max cpu@all over 10s > 9{rule}% then alert \"hot\" hold 5s;\n\
                 rule atom{rule}: every 5s if rate@atom > 50{rule}rps then replicate to 4 on main until rate@atom < 200rps;\n\
                 rule session{rule}: during if avg bandwidth@client over 4s < 8{rule}kbps then next down limit 3 per 60s;\n"
            );
        }
        text += "rule flash: every 5s if rate@atom predicted in 30s fit >= 0.8 > 500rps then shed 5% until rate@atom < 200rps;\n}\n";
    }
    text
}

/// A function of its own, so that it can be found.
#[inline(never)]
fn tick(engine: &Engine, at_ms: u64, state: &mut State, decisions: &mut Vec<Decision>) {
    engine.tick(at_ms, &[], state, decisions);
}

/// Writes each line of the cache that lies in it.
fn work_on(other: &mut [u8]) {
    other.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
    std::hint::black_box(other);
}

fn main() {
    let ticks: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    let mib: usize = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut other = vec![0u8; mib << 20];
    let (policy, _) = Policy::read("bench.policy", &policy()).expect("well-formed");
    let rules = policy.rules();
    let engine = Engine::new(policy, "n1", Method::default());
    let mut state = engine.state("n1");
    let nodes = ["n1", "n2", "n3", "n4"].map(|name| engine.node(&mut state, name).expect("few nodes"));
    let atoms: Vec<_> =
        (0..10_000).filter_map(|n| engine.atom(&mut state, &format!("/{}/{n}.html", n % 100))).collect();
    for session in 0..1000u64 {
        assert!(engine.begin(&mut state, session, atoms[session as usize]));
    }
    let (mut decisions, mut readings) = (Vec::new(), Vec::new());
    let (mut read, mut looked) = (Vec::new(), Vec::new());
    for second in 0..ticks {
        readings.clear();
        decisions.clear();
        let at_ms = second * 1000;
        let mut tell = |resource, of, value| readings.push(Reading { resource, of, value, at_ms, valid_ms: 15_000 });
        nodes.iter().for_each(|node| tell(Resource::Cpu, Of::Node(*node), 40.0));
        let some = atoms.iter().skip((second % 10) as usize).step_by(10);
        some.for_each(|atom| tell(Resource::Rate, Of::Atom(*atom), 20.0));
        (0..1000).for_each(|session| tell(Resource::Bandwidth, Of::Session(session), 900e3));
        work_on(&mut other);
        let begin = Instant::now();
        engine.read(at_ms, &readings, &mut state);
        read.push(begin.elapsed());
        work_on(&mut other);
        let begin = Instant::now();
        tick(&engine, at_ms, &mut state, &mut decisions);
        looked.push(begin.elapsed());
    }
    let show = |what: &str, times: &mut Vec<Duration>| {
        times.sort();
        let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6;
        println!("{what}: p50 {:.0} us, p99 {:.0} us, max {:.0} us", at(50), at(99), at(100));
    };
    println!("{rules} rules, {} atoms, {} sessions, {ticks} ticks", state.atoms(), state.sessions());
    show("readings (2,004)", &mut read);
    show("tick", &mut looked);
}
