//! Opens 100 connections, asks 10,000 times, and prints what each request took in microseconds.
//!
//! `cargo run --release -p weir-load --example ten_lines -- URL`

use weir_load::{Control, Options, StopRule, Url, samples};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: ten_lines URL")?;
    let mut options = Options::new(Url::parse(&url)?);
    (options.connections, options.stop) = (100, StopRule::Requests(10_000));
    let (observers, kept) = samples::keep(options.threads, 10_000);
    options.observers = observers;
    let report = weir_load::run(options, &Control::default())?;
    for sample in kept.take().0 {
        println!("{} us: {} us, status {}", sample.start_ns / 1000, sample.total_ns / 1000, sample.status);
    }
    eprintln!("{:.0} requests/s, p99 {} us", report.rate_per_s, report.latency.value_at_quantile(0.99) / 1000);
    Ok(())
}
