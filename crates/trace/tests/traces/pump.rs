//! From rings to a run: every record in its place, and what found no room told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_trace::{Run, RunReader, Source, pump};
use weir_wire::client::{ClientRequest, Outcome};
use weir_wire::{Kind, Producer, Record, ring};

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn push(producer: &mut Producer, lane: u32, number: u64) -> bool {
    let now = monotonic_ns();
    let request = ClientRequest {
        connection: number,
        intended_ns: now,
        started_ns: now,
        sent_ns: now,
        first_byte_ns: now,
        done_ns: now,
        request_offset: 0,
        request_bytes: 1,
        response_offset: 0,
        response_bytes: 1,
        status: 200,
        name: 0,
        outcome: Outcome::Done,
        opened_connection: false,
        encrypted: false,
        retried: false,
        http_version: 1,
        stream: 0,
    };
    let (record, slots) = request.write(lane);
    producer.push(record, &slots)
}

#[test]
fn every_record_reaches_the_run_or_is_told_as_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = Run::create(directory.path()).expect("a run");
    let lanes = 2;
    let (producers, mut consumers): (Vec<_>, Vec<_>) = (0..lanes).map(|_| ring(4096)).unzip();
    let over = AtomicBool::new(false);
    let (mut written, mut refused) = (0, 0);
    let cost = std::thread::scope(|scope| {
        let pump = scope.spawn(|| pump(&run, Source::Client, &mut consumers, &["GET /".to_owned()], &over));
        let producers = producers.into_iter().zip(0..).map(|(mut producer, lane)| {
            scope.spawn(move || {
                let (mut counts, begin) = ((0u64, 0u64), Instant::now());
                // Past the second clock pair, with bursts that the ring has no room for.
                for burst in 0.. {
                    for number in 0..if burst % 16 == 0 { 3000 } else { 100 } {
                        let pushed = push(&mut producer, lane, number);
                        counts = (counts.0 + u64::from(pushed), counts.1 + u64::from(!pushed));
                    }
                    std::thread::sleep(Duration::from_millis(10));
                    if begin.elapsed() > Duration::from_millis(1200) {
                        break;
                    }
                }
                counts
            })
        });
        for counts in producers.collect::<Vec<_>>() {
            let (pushed, dropped) = counts.join().expect("it ends");
            (written, refused) = (written + pushed, refused + dropped);
        }
        over.store(true, Ordering::Release);
        pump.join().expect("it ends").expect("it is written")
    });
    assert!(refused > 0, "the bursts were too small");
    assert_eq!(cost.lost, refused);
    let (mut requests, mut pairs, mut latest) = (0, 0, Record::default());
    let mut merge = RunReader::open(directory.path()).expect("a run").merge();
    merge.each(|sourced| {
        if let Some(request) = ClientRequest::read(&sourced.record, sourced.payload) {
            assert_eq!(sourced.name(request.name).map(|name| &**name), Some("GET /"));
            requests += 1;
        }
        pairs += u64::from(sourced.record.kind == Kind::ClockPair as u16);
        latest = sourced.record;
        true
    });
    assert_eq!((requests, merge.damage().lost, merge.damage().bytes), (written, refused, 0));
    assert!(pairs >= 2, "{pairs} clock pairs in more than a second");
    assert_eq!(cost.events, requests + pairs);
    assert!(latest.time_ns > 0);
}
