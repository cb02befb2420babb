//! A span's begin and end by OpenTelemetry's SDK with its batch processor, whose exporter only counts: for each line
//! `THREADS PAIRS` it answers nanoseconds of CPU time of a pair, in the threads that make them and in the whole process.

use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use std::io::BufRead;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

static EXPORTED: AtomicU64 = AtomicU64::new(0);

/// Takes the spans over and does nothing with them: what is measured is the SDK, not a network.
#[derive(Debug)]
struct Counter;

impl SpanExporter for Counter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        EXPORTED.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn cpu_ns(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is this function's own.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() {
    let provider = SdkTracerProvider::builder().with_batch_exporter(Counter).build();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(threads)), Some(Ok(pairs))) = (numbers.next(), numbers.next()) else { continue };
        let begin = Barrier::new(threads as usize);
        let whole = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
        let own: u64 = std::thread::scope(|scope| {
            let one = || {
                let tracer = provider.tracer("pair");
                begin.wait();
                let before = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
                for _ in 0..pairs {
                    let mut span = tracer.start("pair");
                    span.end();
                }
                cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID) - before
            };
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            running.into_iter().filter_map(|thread| thread.join().ok()).sum()
        });
        let whole = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - whole;
        let made = (threads * pairs).max(1) as f64;
        println!("{:.1} {:.1}", own as f64 / made, whole as f64 / made);
    }
    let _ = provider.shutdown();
    eprintln!("{} spans exported", EXPORTED.load(Ordering::Relaxed));
}
