//! Online is offline: a run in small pieces, looked at in between, and folds that are split and merged, give the result
//! of the batch to the nanosecond.

use crate::world;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_measure::response::{Piece, Profile, ResponseFold};
use weir_testkit::seeded::Choice;
use weir_timeline::{Bounds, Detail, Joiner, Statistics};
use weir_trace::{Merge, SegmentReader};
use weir_wire::client::ClientRequest;
use world::{Event, Plan, Told, base_seed, join, simulate};

/// A reader that gives its bytes in pieces of any size.
struct Dribble {
    file: File,
    choice: Choice,
}

impl Read for Dribble {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = 1 + self.choice.below(200) as usize;
        let length = buffer.len().min(most);
        self.file.read(&mut buffer[..length])
    }
}

fn pieces(told: &Told) -> Vec<Piece> {
    let detail = |detail| match detail {
        Detail::None => 0,
        Detail::Task(pid) | Detail::Held(pid, _) => 1 + pid % 40,
        Detail::Peer(_) | Detail::Way(_) | Detail::Unconnected(_) | Detail::Reader(..) | Detail::Sender(..) => 45,
        Detail::Behind(_) => 44,
        Detail::Named(number) | Detail::Lock(number, _) => 46 + number % 2,
        Detail::EndedConnection => 48,
        Detail::HeldBack => 49,
        Detail::LateSyn(_) | Detail::FullBacklog(_) => 50,
        Detail::Handshake(pid) => 51 + pid % 40,
    };
    let piece = |step: &weir_timeline::Step| Piece {
        part: step.part,
        detail: detail(step.detail),
        ns: step.to_ns - step.from_ns,
    };
    told.steps.iter().map(piece).collect()
}

/// Everything that a fold says, to be compared as it is.
fn said(fold: &ResponseFold) -> (u64, Vec<u64>, Vec<Profile>) {
    let quantiles = [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0];
    let times = quantiles.iter().map(|quantile| fold.times().value_at_quantile(*quantile)).collect();
    let mut profiles = vec![fold.all(), fold.median(), fold.slowest(0.01), fold.rest(0.01), fold.between(0.2, 0.37)];
    profiles.extend((0..10).map(|tenth| fold.between(f64::from(tenth) / 10.0, f64::from(tenth + 1) / 10.0)));
    (fold.count(), times, profiles)
}

fn batch(told: &[Told]) -> ResponseFold {
    let mut fold = ResponseFold::new();
    told.iter().for_each(|one| fold.push(one.request.done_ns.saturating_sub(one.request.intended_ns), &pieces(one)));
    fold
}

/// The responses in several folds, merged in any order.
fn split_and_merged(told: &[Told], choice: &mut Choice) -> ResponseFold {
    let mut folds: Vec<ResponseFold> = vec![ResponseFold::new()];
    for one in told {
        match choice.below(20) {
            0 => folds.push(ResponseFold::new()),
            1 if folds.len() > 1 => {
                let other = folds.swap_remove(choice.below(folds.len() as u64) as usize);
                let into = choice.below(folds.len() as u64) as usize;
                folds[into].merge(&other);
            }
            2 => drop(said(choice.pick(&folds))),
            _ => {}
        }
        let into = choice.below(folds.len() as u64) as usize;
        folds[into].push(one.request.done_ns.saturating_sub(one.request.intended_ns), &pieces(one));
    }
    let mut whole = ResponseFold::new();
    folds.iter().for_each(|fold| whole.merge(fold));
    whole
}

/// Feeds records one by one, looking at what is there in between.
fn in_pieces(events: &[Event], choice: &mut Choice) -> (Vec<Told>, Statistics) {
    let mut joiner = Joiner::new(Bounds::default());
    let (mut told, name) = (Vec::new(), Arc::from("GET /"));
    let mut rest = events;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + choice.below(50) as usize).min(rest.len()));
        rest = after;
        for (record, slots) in piece {
            joiner.push(record, slots, Some(&name), &mut |_, one| told.push(Told::of(one)));
        }
        let statistics = joiner.statistics();
        assert_eq!(statistics.joined + statistics.unjoinable.iter().sum::<u64>(), told.len() as u64);
        assert!(joiner.task_name(100).is_none_or(|known| known.name == "task100"));
    }
    joiner.finish(&mut |_, one| told.push(Told::of(one)));
    (told, joiner.statistics())
}

#[test]
fn a_world_in_pieces_is_the_world_at_once() {
    for seed in base_seed()..base_seed() + 60 {
        let (events, _) = simulate(Plan::any(seed));
        let mut choice = Choice::from_seed(seed);
        let (at_once, statistics) = join(&events);
        assert_eq!(in_pieces(&events, &mut choice), (at_once.clone(), statistics));
        assert_eq!(said(&split_and_merged(&at_once, &mut choice)), said(&batch(&at_once)), "seed {seed}");
    }
}

/// The streams of a golden run: by the part of their names before the number.
fn streams(run: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut streams: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(run.join("segments")).expect("a golden run") {
        let path = entry.expect("a readable folder").path();
        let stem = path.file_name().map(|name| name.to_string_lossy().split('.').next().unwrap_or("").to_owned());
        streams.entry(stem.unwrap_or_default()).or_default().push(path);
    }
    streams.values_mut().for_each(|paths| paths.sort());
    streams
}

/// A golden run, read in pieces or at once; `pause` says after which records reading stops and goes on.
fn read<R: Read>(
    run: &Path,
    mut open: impl FnMut(File) -> R,
    mut pause: impl FnMut() -> bool,
) -> (Vec<Told>, Statistics) {
    let readers = |paths: Vec<PathBuf>| -> VecDeque<SegmentReader<R>> {
        paths.iter().map(|path| SegmentReader::new(open(File::open(path).expect("a segment")), path)).collect()
    };
    let mut merge = Merge::new(streams(run).into_values().map(readers).collect());
    let (mut joiner, mut told, mut last) = (Joiner::new(Bounds::default()), Vec::new(), 0);
    loop {
        let mut paused = false;
        merge.each(|sourced| {
            assert!(sourced.record.time_ns >= last || sourced.record.time_ns + 1_000_000 > last);
            last = sourced.record.time_ns;
            let request = ClientRequest::read(&sourced.record, sourced.payload);
            let name = request.and_then(|request| sourced.name(request.name)).cloned();
            joiner.push(&sourced.record, sourced.payload, name.as_ref(), &mut |_, one| told.push(Told::of(one)));
            paused = pause();
            !paused
        });
        if !paused {
            break;
        }
        drop(joiner.statistics());
    }
    joiner.finish(&mut |_, one| told.push(Told::of(one)));
    (told, joiner.statistics())
}

#[test]
fn recorded_runs_in_pieces_are_the_runs_at_once() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for entry in std::fs::read_dir(golden).expect("the golden runs") {
        let run = entry.expect("a readable folder").path();
        let (at_once, statistics) = read(&run, |file| file, || false);
        assert!(statistics.joined > 100, "{}", run.display());
        for seed in base_seed()..base_seed() + 3 {
            let mut choice = Choice::from_seed(seed);
            let seeds = choice.next_u64();
            let mut pauses = Choice::from_seed(seed ^ 1);
            let dribble = |file| Dribble { file, choice: Choice::from_seed(seeds) };
            let pieces = read(&run, dribble, || pauses.below(30) == 0);
            assert_eq!(pieces, (at_once.clone(), statistics.clone()), "{}", run.display());
            assert_eq!(said(&split_and_merged(&at_once, &mut choice)), said(&batch(&at_once)), "{}", run.display());
        }
    }
}
