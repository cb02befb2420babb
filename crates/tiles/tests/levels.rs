//! Tiles of a run written by hand, against what was written: the time of each task is the same on every level, and
//! where single events are told they are those of the run.
// scripts/test: serves

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tempfile::TempDir;
use weir_objects::Table;
use weir_testkit::seeded::Choice;
use weir_tiles::{BUCKETS, MOST_CHOSEN, ObjectChart, OpenError, RunTiles, TileError};
use weir_trace::{Limits, Run, Source};
use weir_wire::client::{ClientRequest, Outcome};
use weir_wire::socket::SocketOpen;
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record};

const ORIGIN_NS: u64 = 5_000_000_000;
const CPUS: u32 = 2;

/// (CPU, task, from, to), the times from the origin.
type Ran = (u32, u32, u64, u64);

/// Writes a run of two CPUs that pass among six tasks, and some requests; what ran when.
fn written(directory: &Path, switches: u32, seed: u64) -> Vec<Ran> {
    let run = Run::create(directory).expect("a directory for the run");
    let mut chance = Choice::from_seed(seed);
    let mut ran = Vec::new();
    for cpu in 0..CPUS {
        let limits = Limits { block_slots: 512, ..Limits::default() };
        let mut stream = run.stream(Source::Kernel, cpu, limits);
        let (mut at, mut before) = (0, 0);
        for number in 0..switches {
            // A CPU's own tasks: none runs on two at a time.
            let next = if number + 1 == switches { 0 } else { 10 * (cpu + 1) + chance.below(4) as u32 };
            let next = if next == before { 0 } else { next };
            let prev_state = chance.below(2) as u8;
            let switch = Switch { prev: before, next, prev_state, syscall: NO_SYSCALL, descriptor: 0 };
            stream.push(switch.write(ORIGIN_NS + at, cpu), &[], None).expect("a record is written");
            let length = 1_000 + chance.below(200_000);
            if next != 0 {
                ran.push((cpu, next, at, at + length));
            }
            (at, before) = (at + length, next);
        }
        stream.finish().expect("the stream is written");
    }
    let mut stream = run.stream(Source::Client, 0, Limits::default());
    stream.define(1, "GET /a");
    for number in 0..50u64 {
        let request = ClientRequest {
            connection: number,
            intended_ns: ORIGIN_NS + number * 100_000,
            started_ns: ORIGIN_NS + number * 100_000,
            sent_ns: ORIGIN_NS + number * 100_000 + 10,
            first_byte_ns: ORIGIN_NS + number * 100_000 + 1_000 * number,
            done_ns: ORIGIN_NS + number * 100_000 + 1_000 * (number + 1),
            request_offset: 0,
            request_bytes: 10,
            response_offset: 0,
            response_bytes: 100,
            status: 200,
            name: 1,
            outcome: Outcome::Done,
            opened_connection: false,
            encrypted: false,
            retried: false,
            http_version: 1,
            stream: 0,
        };
        let (record, slots): (Record, _) = request.write(0);
        stream.push(record, &slots, Some(1)).expect("a record is written");
    }
    stream.finish().expect("the stream is written");
    ran
}

/// Writes a run of a server's sockets alone, on a rung that tells of no arrival: ten requests on a connection.
fn without_arrivals(directory: &Path) {
    let run = Run::create(directory).expect("a directory for the run");
    run.begin(Source::Kernel, "1", Vec::new(), Some("a rung"), None).expect("the manifest is written");
    let mut stream = run.stream(Source::Kernel, 0, Limits::default());
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let (local, remote) = (address(80), address(50_000));
    let open = SocketOpen { socket: 9, receive_base: 0, send_base: 0, cookie: 9, netns: 1, local, remote };
    let switch = Switch { prev: 0, next: 7, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
    let window = Record { time_ns: ORIGIN_NS, kind: Kind::Window as u16, a: 1, b: ORIGIN_NS, ..Record::default() };
    stream.push(window, &[], None).expect("a record is written");
    let (record, slots) = open.write(ORIGIN_NS + 10, 0);
    stream.push(record, &slots, None).expect("a record is written");
    stream.push(switch.write(ORIGIN_NS + 20, 0), &[], None).expect("a record is written");
    // Which port is the server's is told by the first arrival; of those after it none is told.
    let first =
        Record { time_ns: ORIGIN_NS + 500, kind: Kind::SocketReady as u16, a: 9 | (100 << 32), ..Record::default() };
    stream.push(first, &[], None).expect("a record is written");
    for number in 0..10u64 {
        for (kind, later_ns, bytes) in [(Kind::SocketRecv, 0, 100), (Kind::SocketSend, 50_000, 500)] {
            let time_ns = ORIGIN_NS + 1_000 + number * 100_000 + later_ns;
            let a = 9 | (((number + 1) * bytes) << 32);
            stream.push(Record { time_ns, kind: kind as u16, a, ..Record::default() }, &[], None).expect("a record");
        }
    }
    stream.finish().expect("the stream is written");
}

#[test]
fn a_rung_that_misses_arrivals_is_joined_as_it_is_explained() {
    let directory = TempDir::new().expect("a directory");
    let joined = |name: &str, misses_arrivals: bool| {
        let run = directory.path().join(name);
        without_arrivals(&run);
        let asked = |rung: &str| rung == "a rung" && misses_arrivals;
        let tiles = RunTiles::open(&run, asked, &mut |_| true).expect("the run is read");
        let whole: Value = serde_json::from_slice(tiles.whole_json()).expect("JSON");
        let steps = whole["slowest"].as_array().expect("a list").iter().map(|slow| &slow["steps"]);
        steps
            .filter(|steps| steps.as_array().is_some_and(|steps| steps.iter().any(|step| step["part"] == "run")))
            .count()
    };
    assert_eq!(joined("told", false), 1, "what is taken unannounced is not believed");
    // The last response is cut by the end.
    assert_eq!(joined("untold", true), 9);
}

fn open(directory: &Path) -> RunTiles {
    RunTiles::open(directory, |_| false, &mut |_| true).expect("the run is read")
}

fn json(tiles: &mut RunTiles, level: i32, index: u64) -> Value {
    serde_json::from_slice(&tiles.tile(level, index).expect("the tile is there")).expect("a tile is JSON")
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().expect("a list").iter().map(|number| number.as_u64().expect("a number")).collect()
}

/// Running time of each task that the lanes of CPUs in a tile tell, nanoseconds.
fn told(tile: &Value) -> BTreeMap<u32, f64> {
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for lane in tile["cpus"].as_array().expect("lanes") {
        let flat = numbers(lane);
        if tile["exact"] == true {
            for one in flat[1..].chunks(3) {
                *sums.entry(one[2] as u32).or_default() += (one[1] - one[0]) as f64;
            }
            continue;
        }
        let bucket_ns = tile["bucket_ns"].as_u64().expect("a width") as f64;
        let (mut state, mut bucket, mut place) = (flat[1], 0, 2);
        while place < flat.len() {
            let (at, end, count) = (flat[place], flat[place + 1], flat[place + 2] as usize);
            *sums.entry(state as u32).or_default() += (at - bucket) as f64 * bucket_ns;
            for pair in flat[place + 3..place + 3 + 2 * count].chunks(2) {
                *sums.entry(pair[0] as u32).or_default() += pair[1] as f64 / 255.0 * bucket_ns;
            }
            (state, bucket, place) = (end, at + 1, place + 3 + 2 * count);
        }
        *sums.entry(state as u32).or_default() += (u64::from(BUCKETS) - bucket) as f64 * bucket_ns;
    }
    sums.retain(|pid, _| *pid != 0 && *pid != u32::MAX);
    sums
}

/// The same, of what was written, within a window.
fn expected(ran: &[Ran], from: u64, to: u64) -> BTreeMap<u32, f64> {
    let mut sums = BTreeMap::new();
    for (_, pid, begin, end) in ran {
        let overlap = (*end).min(to).saturating_sub((*begin).max(from));
        if overlap > 0 {
            *sums.entry(*pid).or_default() += overlap as f64;
        }
    }
    sums
}

fn alike(found: &BTreeMap<u32, f64>, expected: &BTreeMap<u32, f64>, slack_ns: f64, what: &str) {
    for pid in found.keys().chain(expected.keys()) {
        let (found, expected) =
            (found.get(pid).copied().unwrap_or_default(), expected.get(pid).copied().unwrap_or_default());
        assert!((found - expected).abs() <= slack_ns, "{what}: task {pid} has {found} ns, not {expected}");
    }
}

#[test]
fn every_level_tells_the_same_time() {
    let directory = TempDir::new().expect("a directory");
    let run = directory.path().join("run");
    let ran = written(&run, 20_000, 7);
    let mut tiles = open(&run);
    let whole: Value = serde_json::from_slice(tiles.whole_json()).expect("JSON");
    let counts = numbers(&whole["tiles"]);
    let (bucket_ns, duration_ns) = (whole["bucket_ns"].as_u64().expect("a width"), whole["duration_ns"].as_u64());
    assert!(counts[0] > 64 && counts[counts.len() - 1] == 1, "{counts:?}");
    for (level, count) in counts.iter().enumerate() {
        let width = (bucket_ns << (2 * level)) * u64::from(BUCKETS);
        for index in [0, 1, count / 2, count - 1] {
            if index < *count {
                let tile = json(&mut tiles, level as i32, index);
                let (from, to) = (index * width, (index + 1) * width);
                // A share is told in 255ths of a bucket, and never as less than one.
                let slack_ns = width as f64 / 255.0;
                alike(&told(&tile), &expected(&ran, from, to), slack_ns, &format!("level {level}, tile {index}"));
            }
        }
    }
    let mut exact = 0;
    for level in [-1, -2, -4, -6] {
        let width = (bucket_ns >> (-2 * level)) * u64::from(BUCKETS);
        let last = duration_ns.expect("a length") / width;
        for index in [0, 1, last / 3, last / 2, last - 1] {
            let tile = json(&mut tiles, level, index);
            let (from, to) = (index * width, (index + 1) * width);
            exact += u32::from(tile["exact"] == true);
            let slack_ns = if tile["exact"] == true { 0.0 } else { width as f64 / 255.0 };
            alike(&told(&tile), &expected(&ran, from, to), slack_ns, &format!("level {level}, tile {index}"));
        }
    }
    assert!(exact >= 15, "{exact} tiles tell single events");
}

#[test]
fn requests_are_told_and_the_slowest_come_first() {
    let directory = TempDir::new().expect("a directory");
    let run = directory.path().join("run");
    written(&run, 2_000, 3);
    let mut tiles = open(&run);
    let whole: Value = serde_json::from_slice(tiles.whole_json()).expect("JSON");
    assert_eq!((&whole["requests"], &whole["longest_ns"]), (&Value::from(50), &Value::from(50_000)));
    assert_eq!(whole["slowest"][0]["from_ns"], 4_900_000);
    assert_eq!(whole["classes"]["GET /a"]["count"], 50);
    let counts = numbers(&whole["tiles"]);
    let all = |tiles: &mut RunTiles, level: usize| -> u64 {
        let of = |tile: Value| numbers(&tile["requests"]).chunks(3).map(|one| one[1]).sum::<u64>();
        (0..counts[level]).map(|index| of(json(tiles, level as i32, index))).sum()
    };
    for level in 0..counts.len() {
        assert_eq!(all(&mut tiles, level), 50, "level {level}");
    }
    let fine = json(&mut tiles, -1, 4);
    assert_eq!(fine["exact"], true);
    assert!(!fine["requests"].as_array().expect("a list").is_empty());
    assert_eq!(fine["names"][0], "GET /a");
}

#[test]
fn what_is_not_there_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let run = directory.path().join("run");
    written(&run, 500, 1);
    let mut tiles = open(&run);
    for (level, index) in [(0, 1 << 40), (30, 0), (-1, u64::MAX), (-40, 0), (i32::MIN, 0), (i32::MAX, u64::MAX)] {
        assert!(matches!(tiles.tile(level, index), Err(TileError::Missing { .. })), "{level} {index}");
    }
    let stopped = directory.path().join("stopped");
    written(&stopped, 70_000, 1);
    assert!(matches!(RunTiles::open(&stopped, |_| false, &mut |_| false), Err(OpenError::Stopped)));
    assert_eq!(std::fs::read_dir(stopped.join("derived")).expect("it was begun").count(), 0, "nothing is left of it");
}

#[test]
fn a_run_that_grows_is_read_anew_and_a_damaged_one_as_far_as_it_is_whole() {
    let directory = TempDir::new().expect("a directory");
    let run = directory.path().join("run");
    let ran = written(&run, 3_000, 5);
    let events =
        |tiles: &RunTiles| serde_json::from_slice::<Value>(tiles.whole_json()).expect("JSON")["events"].as_u64();
    let before = events(&open(&run));
    assert_eq!(events(&open(&run)), before);
    let segment = std::fs::read_dir(run.join("segments")).expect("segments").flatten();
    let segment =
        segment.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("kernel")).expect("one");
    let mut bytes = std::fs::read(&segment).expect("it is readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    bytes.truncate(bytes.len() - 100);
    std::fs::write(&segment, bytes).expect("it is writable");
    let mut tiles = open(&run);
    let whole: Value = serde_json::from_slice(tiles.whole_json()).expect("JSON");
    assert!(whole["events"].as_u64() < before && whole["events"].as_u64() > Some(1_000), "{}", whole["events"]);
    assert!(!whole["damage"].as_array().expect("a list").is_empty());
    let tile = json(&mut tiles, -1, 0);
    alike(
        &told(&tile),
        &expected(&ran, 0, 1024 * (whole["bucket_ns"].as_u64().expect("a width") >> 2)),
        0.0,
        "the begin",
    );
}

/// The objects of a run by class and name, and its chart.
fn chart(run: &Path) -> (ObjectChart, BTreeMap<(String, String), u32>) {
    let chart = ObjectChart::open(run, Table::ours(), &mut |_| true).expect("the run is read");
    let choice: Value = serde_json::from_slice(&chart.choice_json()).expect("JSON");
    let word = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let line = |object: &Value| {
        let number = object["line"].as_u64().expect("a number") as u32;
        ((word(object, "class"), word(object, "name")), number)
    };
    let lines = choice["objects"].as_array().expect("objects").iter().map(line).collect();
    (chart, lines)
}

fn tile_of(chart: &ObjectChart, level: i32, index: u64, lines: &[u32]) -> Value {
    serde_json::from_slice(&chart.tile(level, index, lines).expect("a tile")).expect("JSON")
}

/// The time that a lane has of a state, by the walk along its entries.
fn state_ns(lane: &[u64], state: u64, bucket_ns: u64) -> f64 {
    let (mut at, mut now, mut place, mut sum) = (0, lane[1], 2, 0.0);
    while place < lane.len() {
        let (bucket, end, count) = (lane[place], lane[place + 1], lane[place + 2] as usize);
        sum += if now == state { ((bucket - at) * bucket_ns) as f64 } else { 0.0 };
        for share in lane[place + 3..place + 3 + 2 * count].chunks_exact(2) {
            sum += if share[0] == state { bucket_ns as f64 * share[1] as f64 / 255.0 } else { 0.0 };
        }
        (at, now, place) = (bucket + 1, end, place + 3 + 2 * count);
    }
    sum + if now == state { ((u64::from(BUCKETS) - at) * bucket_ns) as f64 } else { 0.0 }
}

#[test]
fn objects_are_busy_from_afar_as_long_as_they_were() {
    let folder = TempDir::new().expect("a directory");
    let ran = written(folder.path(), 8_000, 3);
    let (chart, lines) = chart(folder.path());
    let cpus: Vec<u32> = (0..CPUS).map(|cpu| lines[&("cpu".to_owned(), cpu.to_string())]).collect();
    // What is under way when the recording ends has no finish, and is no use.
    let last_ns = |cpu: u32| ran.iter().filter(|one| one.0 == cpu).map(|one| one.2).max().unwrap_or(0);
    for level in [5, 6] {
        let tile = tile_of(&chart, level, 0, &cpus);
        assert_eq!((&tile["exact"], tile["busy"].as_array().map(Vec::len)), (&false.into(), Some(2)), "{level}");
        let lanes: Vec<Vec<u64>> = serde_json::from_value(tile["busy"].clone()).expect("lanes");
        for cpu in 0..CPUS {
            let lane = lanes.iter().find(|lane| lane[0] == u64::from(cpus[cpu as usize])).expect("its lane");
            let sum = state_ns(lane, 2, tile["bucket_ns"].as_u64().expect("a width"));
            let of_cpu = ran.iter().filter(|one| one.0 == cpu && one.2 < last_ns(cpu));
            let own: u64 = of_cpu.map(|one| one.3 - one.2).sum();
            assert!((sum - own as f64).abs() < 0.02 * own as f64, "level {level}, CPU {cpu}: {sum} of {own} ns");
        }
    }
}

#[test]
fn interactions_are_told_one_by_one_where_they_are_few() {
    let folder = TempDir::new().expect("a directory");
    let ran = written(folder.path(), 300, 4);
    let (chart, lines) = chart(folder.path());
    let line = lines[&("cpu".to_owned(), "1".to_owned())];
    let last_ns = ran.iter().filter(|one| one.0 == 1).map(|one| one.2).max().unwrap_or(0);
    for index in 0..4 {
        let tile = tile_of(&chart, 0, index, &[line, line, u32::MAX]);
        assert_eq!(tile["exact"], true);
        let numbers: Vec<i64> = serde_json::from_value(tile["happened"].clone()).expect("numbers");
        let whole = numbers.chunks_exact(6).filter(|one| one[4] >= 0 && one[5] >= 0);
        let told: BTreeSet<(u64, u64)> = whole.map(|one| (one[4] as u64, one[5] as u64)).collect();
        let width_ns = tile["bucket_ns"].as_u64().expect("a width") * u64::from(BUCKETS);
        let (from_ns, to_ns) = (index * width_ns, (index + 1) * width_ns);
        // All that reach into the tile, though they began before it; a wait for the CPU may do so where the turn does not.
        let within = |one: &&Ran| one.0 == 1 && one.2 < to_ns && one.3 >= from_ns && one.2 < last_ns;
        let own: BTreeSet<(u64, u64)> = ran.iter().filter(within).map(|one| (one.2, one.3)).collect();
        assert!(own.len() > 10 && own.is_subset(&told), "tile {index}: {own:?} of {told:?}");
        assert!(told.len() <= own.len() + 4, "tile {index}: {told:?} of {own:?}");
        assert!(numbers.chunks_exact(6).all(|one| one[2] == i64::from(line)));
    }
    for (level, index) in [(0, 1 << 40), (40, 0), (-40, 0), (i32::MIN, 0)] {
        let missing = chart.tile(level, index, &[line]);
        assert!(matches!(missing, Err(TileError::Missing { .. })), "{level}/{index}: {missing:?}");
    }
    let many: Vec<u32> = (0..2 * MOST_CHOSEN as u32).map(|at| at % 3).collect();
    assert!(chart.tile(0, 0, &many).is_ok());
    let stopped = ObjectChart::open(&folder.path().join("none"), Table::ours(), &mut |_| true);
    assert!(matches!(stopped, Err(OpenError::Run(_))), "{stopped:?}");
}
