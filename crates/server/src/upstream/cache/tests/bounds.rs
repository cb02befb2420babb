//! The bounds hold at each moment while several loops store, read and purge.

use super::harness::{Bench, at, at_ms, hit, response};
use crate::upstream::cache::lookup::{Lookup, Waits};
use crate::upstream::cache::rules::{CacheRules, DiskRules};
use crate::upstream::cache::store::Cache;
use proptest::prelude::*;
use std::sync::Arc;

fn small(directory: &std::path::Path) -> CacheRules {
    CacheRules {
        memory: 256 << 10,
        memory_object: 8 << 10,
        disk: Some(DiskRules { directory: directory.to_owned(), bytes: 1 << 20, object: 64 << 10 }),
        entries: 60,
        ..CacheRules::default()
    }
}

fn assert_within(cache: &Cache) {
    let (entries, memory, disk) = cache.size();
    assert!(entries <= 2 * cache.rules.entries, "{entries} entries");
    assert!(memory <= cache.rules.memory && cache.places.memory.used() <= cache.rules.memory);
    let disk_max = cache.rules.disk.as_ref().map_or(0, |disk| disk.bytes);
    let used = cache.places.disk.as_ref().map_or(0, |disk| disk.meter.used());
    assert!(disk <= disk_max && used <= disk_max);
}

/// A cheap sequence of numbers.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn one_step(bench: &mut Bench, state: &mut u64, step: u64) {
    let path = next(state) % 200;
    let now = at_ms(step * 10);
    match next(state) % 40 {
        0 => drop(bench.cache.purge_prefix(false, b"a.example", &format!("/{}", path % 10))),
        1 => drop(bench.cache.purge_target(false, b"a.example", &format!("/{path}"))),
        _ => {}
    }
    let mut lookup = bench.ask(&format!("GET /{path}"), &format!("A: {}", next(state) % 3), now);
    if let Lookup::Wait(waiting) = lookup {
        lookup = match waiting.go_on(at(1_000_000)) {
            Waits::Fetch(fetch) => Lookup::Fetch(fetch),
            Waits::Answer(answer) => Lookup::Hit(*answer),
            Waits::NotYet(_) => panic!("its time is over"),
        };
    }
    match lookup {
        Lookup::Fetch(mut fetch) => {
            let size = [10, 3000, 20_000, 100_000][(next(state) % 4) as usize];
            let vary = if path.is_multiple_of(2) { "|Vary: A" } else { "" };
            let length = (next(state).is_multiple_of(2)).then_some(size);
            fetch.on_head(&response(200, &format!("Cache-Control: max-age=9{vary}"), length), now);
            let piece = vec![b'x'; 1 + (next(state) % 9000) as usize];
            let mut left = size as usize;
            while left > 0 {
                let bytes = piece.len().min(left);
                fetch.on_body(&piece[..bytes]);
                left -= bytes;
                assert_within(&bench.cache);
            }
            if !next(state).is_multiple_of(8) {
                fetch.on_end(now);
            }
        }
        Lookup::Hit(answer) => drop(hit(Lookup::Hit(answer))),
        other => panic!("{other:?}"),
    }
    assert_within(&bench.cache);
}

#[test]
fn bounds_hold_while_several_loops_store_and_purge() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Arc::new(Cache::new(small(folder.path())).expect("a cache"));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                let (mut bench, mut state) = (Bench::on(cache), thread + 1);
                (0..1500).for_each(|step| one_step(&mut bench, &mut state, step));
            });
        }
    });
    assert!(cache.counts.evicted.load(std::sync::atomic::Ordering::Relaxed) > 0);
    assert_eq!(cache.flights.len(), 0);
    cache.purge_prefix(false, b"a.example", "/");
    // All that was counted is given back, and all files are gone.
    assert_eq!((cache.size(), cache.places.memory.used()), ((0, 0, 0), 0));
    assert_eq!(cache.places.disk.as_ref().map(|disk| disk.meter.used()), Some(0));
    let of = |path: &std::path::Path| std::fs::read_dir(path).expect("a folder").flatten().map(|entry| entry.path());
    let own = of(folder.path()).next().expect("the folder of the server");
    assert_eq!(of(&own).filter(|path| path.is_dir()).flat_map(|path| of(&path)).count(), 0);
}

#[test]
fn a_scan_and_a_large_body_do_not_push_out_what_is_used() {
    let rules = CacheRules { memory: 4 << 20, memory_object: 256 << 10, ..CacheRules::default() };
    let mut bench = Bench::new(rules);
    let store = |bench: &mut Bench, path: &str, size: usize| {
        if let Lookup::Fetch(mut fetch) = bench.ask(&format!("GET {path}"), "", at(0)) {
            super::harness::bring(&mut fetch, 200, "Cache-Control: max-age=999", &"x".repeat(size), at(0));
        }
    };
    let used: Vec<String> = (0..20).map(|number| format!("/used/{number}")).collect();
    for path in used.iter().cycle().take(80) {
        store(&mut bench, path, 5000);
    }
    for number in 0..2000 {
        store(&mut bench, &format!("/scan/{number}"), 5000);
    }
    for number in 0..10 {
        store(&mut bench, &format!("/large/{number}"), 200_000);
    }
    let kept = used.iter().filter(|path| matches!(bench.ask(&format!("GET {path}"), "", at(0)), Lookup::Hit(_)));
    assert_eq!(kept.count(), used.len());
}

#[test]
fn variants_of_a_key_are_bounded() {
    let mut bench = Bench::new(CacheRules::default());
    for number in 0..40 {
        bench.store(&format!("A: {number}"), 200, "Cache-Control: max-age=60|Vary: A", "body", at(0));
    }
    assert_eq!(bench.stored(), crate::upstream::cache::store::VARIANTS_MAX);
    assert!(matches!(bench.get("A: 39", at(0)), Lookup::Hit(_)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// A body is the same wherever it is cut, in memory and on the disk, with its length and without.
    #[test]
    fn a_body_is_stored_as_it_came(size in 0_usize..20_000, cuts in proptest::collection::vec(1_usize..4000, 1..8), known in any::<bool>()) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bench = Bench::new(small(folder.path()));
        let body: String = (0..size).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        let mut fetch = bench.fetch("GET /x", "", at(0));
        fetch.on_head(&response(200, "Cache-Control: max-age=9", known.then_some(size as u64)), at(0));
        let (mut rest, mut cuts) = (body.as_bytes(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*cuts.next().expect("endless")));
            fetch.on_body(piece);
            rest = after;
        }
        fetch.on_end(at(0));
        prop_assert_eq!(hit(bench.get("", at(1))).2, body);
    }
}
