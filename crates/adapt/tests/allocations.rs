//! A tick in which nothing changes allocates nothing, with 1,000 rules, 10,000 atoms, 1,000 sessions and 1,000 clients.
// scripts/test: serves

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use weir_adapt::forecast::Method;
use weir_adapt::{Engine, Of, Policy, Reading, Resource};

/// The system's allocator, which counts.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: likewise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// 100 patterns of ten rules each, and one with a rule for clients.
fn policy() -> String {
    let mut text = String::from("pool main = { n1, n2, n3, n4 };\n");
    for block in 0..100 {
        text += &format!("atom \"/{block}/*\" {{ variants full > half > small;\n");
        for rule in 0..3 {
            text +=
                &format!("rule own{rule}: every 5s if max cpu@all over 10s > 9{rule}% then alert \"hot\" hold 5s;\n");
            text += &format!(
                "rule atom{rule}: every 5s if rate@atom > 50{rule}rps then replicate to 4 on main until rate@atom < 200rps;\n"
            );
            text += &format!(
                "rule session{rule}: during if avg bandwidth@client over 4s < 8{rule}kbps then next down limit 3 per 60s;\n"
            );
        }
        text += "rule flash: every 5s if rate@atom predicted in 30s fit >= 0.8 > 500rps then shed 5% until rate@atom < 200rps;\n}\n";
    }
    text += "atom \"/**\" { rule greedy: during if rate@client > 50rps then shed 90% until rate@client < 20rps; }\n";
    text
}

#[test]
fn a_steady_tick_allocates_nothing() {
    let (policy, _) = Policy::read("bench.policy", &policy()).expect("well-formed");
    assert_eq!(policy.rules(), 1001);
    let engine = Engine::new(policy, "n1", Method::default());
    let mut state = engine.state("n1");
    let nodes = ["n1", "n2", "n3", "n4"].map(|name| engine.node(&mut state, name).expect("few nodes"));
    let atoms: Vec<_> =
        (0..10_000).filter_map(|n| engine.atom(&mut state, &format!("/{}/{n}.html", n % 100))).collect();
    for session in 0..1000u64 {
        assert!(engine.begin(&mut state, session, atoms[session as usize]));
    }
    let clients: Vec<_> =
        (0..1000).filter_map(|n| engine.client(&mut state, &format!("10.0.{}.{}", n / 250, n % 250))).collect();
    let mut decisions = Vec::with_capacity(10_000);
    let mut readings = Vec::with_capacity(20_000);
    let mut counted = Vec::new();
    for second in 0..200u64 {
        readings.clear();
        let at_ms = second * 1000;
        let mut tell = |resource, of, value| readings.push(Reading { resource, of, value, at_ms, valid_ms: 15_000 });
        nodes.iter().for_each(|node| tell(Resource::Cpu, Of::Node(*node), 40.0));
        // A tenth of the atoms is told of each tick, as if each were asked for every ten seconds.
        let some = atoms.iter().skip((second % 10) as usize).step_by(10);
        some.for_each(|atom| tell(Resource::Rate, Of::Atom(*atom), 20.0));
        (0..1000).for_each(|session| tell(Resource::Bandwidth, Of::Session(session), 900e3));
        clients.iter().for_each(|client| tell(Resource::Rate, Of::Client(*client), 5.0));
        decisions.clear();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        engine.tick(at_ms, &readings, &mut state, &mut decisions);
        counted.push((ALLOCATIONS.load(Ordering::Relaxed) - before, decisions.len()));
    }
    // Windows are full by then, and each series has the room that it needs.
    let steady = &counted[150..];
    assert!(steady.iter().all(|counts| *counts == (0, 0)), "{steady:?}");
}
