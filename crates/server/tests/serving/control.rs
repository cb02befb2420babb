//! Orders from other threads: what caches pin and load beforehand, and how many loops serve.

use crate::harness;

use harness::{Site, connect, read_reply, wait_until};
use std::io::Write;
use std::net::TcpStream;
use weir_server::Control;

fn files(count: usize) -> Vec<(String, Vec<u8>)> {
    (0..count).map(|number| (format!("d/{}/{number}.txt", number % 3), vec![b'a'; 4000])).collect()
}

fn start(count: usize, change: impl FnOnce(&mut weir_server::Options)) -> (Site, Control) {
    let files = files(count);
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let site = Site::start(&files, change);
    let control = site.control.clone();
    (site, control)
}

#[test]
fn what_was_loaded_beforehand_is_in_the_cache_of_every_loop() {
    let (site, control) = start(100, |options| options.loops = 2);
    assert!(control.warm("/d/1/*.txt") && control.warm("/d/0/0.txt") && control.warm("/none/**"));
    // 33 of them, in two loops.
    wait_until(|| site.counters.read().warmed == 2 * 34);
    let misses = site.counters.read().cache_misses;
    assert_eq!(site.get("/d/1/1.txt").status, 200);
    assert_eq!(site.counters.read().cache_misses, misses);
    assert_eq!(site.get("/d/2/2.txt").status, 200);
    assert_eq!(site.counters.read().cache_misses, misses + 1);
}

/// More names than wait to be looked at in one step, or at all.
#[test]
fn all_of_a_large_directory_is_loaded() {
    const COUNT: usize = 17_000;
    let (site, control) = start(3, |_| {});
    std::fs::create_dir_all(site.directory.path().join("many/below")).expect("creates");
    (0..COUNT).for_each(|number| site.write(&format!("many/{number}"), b"a"));
    site.write("many/below/one.txt", b"a");
    assert!(control.warm("/many/**"));
    let files = 1 + COUNT as u64;
    wait_until(|| site.counters.read().warmed == files && site.get("/d/0/0.txt").status == 200);
    assert_eq!(site.counters.read().warm_dropped, 0);
}

#[test]
fn what_is_pinned_stays_while_the_rest_comes_and_goes() {
    let (site, control) = start(200, |options| options.cache_bytes_max = 100_000);
    assert!(control.pin("/d/1/1.txt"));
    wait_until(|| site.get("/d/1/1.txt").status == 200);
    let each = |round: usize| {
        for number in 0..200 {
            assert_eq!(site.get(&format!("/d/{}/{number}.txt", number % 3)).status, 200, "{round}");
        }
    };
    each(1);
    assert!(site.counters.read().cache_evictions > 100);
    let hits = site.counters.read().cache_hits;
    assert_eq!(site.get("/d/1/1.txt").status, 200);
    assert_eq!(site.counters.read().cache_hits, hits + 1, "it was asked for long ago");
}

/// Loops that have answered one of so many new connections.
fn answering(site: &Site, connections: usize) -> Vec<TcpStream> {
    (0..connections)
        .map(|_| {
            let mut stream = connect(site.addr);
            stream.write_all(b"GET /d/0/0.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
            assert_eq!(read_reply(&mut stream, false).status, 200);
            stream
        })
        .collect()
}

#[test]
fn the_reserve_serves_while_it_is_wanted_and_no_client_is_cut_off_when_it_ends() {
    let (site, control) = start(1, |options| {
        options.reserve_loops = 2;
        // What is confined may bind nothing any more.
        options.sandbox = Some(true);
    });
    // Each loop that serves looks at the file once.
    drop(answering(&site, 20));
    assert_eq!(site.counters.read().cache_misses, 1, "one loop");
    for _ in 0..3 {
        let before = site.counters.read();
        control.spread(9);
        wait_until(|| site.counters.read().loops_begun == before.loops_begun + 2);
        let open = answering(&site, 60);
        control.spread(0);
        wait_until(|| site.counters.read().loops_begun == before.loops_begun + 2);
        drop(open);
        wait_until(|| site.counters.read().loops_given_back == before.loops_given_back + 2);
        drop(answering(&site, 20));
    }
    assert_eq!(site.counters.read().cache_misses, 3, "three loops had a part in it");
    control.spread(1);
    wait_until(|| site.counters.read().loops_begun == 7);
    let counts = site.stop();
    assert_eq!((counts.connections_broken, counts.server_errors), (0, 0));
}
