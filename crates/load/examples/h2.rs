use weir_load::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut o = Options::new(Url::parse(&a[1]).unwrap());
    o.connections = a[2].parse().unwrap();
    o.protocol = Protocol::Http2 { streams: a[3].parse().unwrap() };
    o.stop = StopRule::Requests(a[4].parse().unwrap());
    o.trust = Trust::Anything;
    if let Some(n) = a.get(5) {
        let n: usize = n.parse().unwrap();
        if n > 0 {
            o.request.method = "POST".into();
            o.request.body = vec![b'x'; n];
        }
    }
    if let Some(r) = a.get(6) {
        o.schedule = Schedule::Fixed { rate_per_s: r.parse().unwrap() };
    }
    match run(o, &Control::default()) {
        Ok(r) => println!(
            "{} req, {:?} {:?} reasons {:?} bytes {} dur {:?} rate {:.0} reconnects {} connects {} abandoned {} queued {} p50 {} p99 {} max {} calls {:?} cpu {:.2} warnings {:?}",
            r.requests,
            r.errors,
            r.status,
            r.reasons,
            r.bytes,
            r.duration,
            r.rate_per_s,
            r.reconnects,
            r.connect.len(),
            r.abandoned,
            r.queued,
            r.latency.value_at_quantile(0.5),
            r.latency.value_at_quantile(0.99),
            r.latency.max(),
            r.calls,
            r.generator.cpu_share,
            r.warnings
        ),
        Err(e) => println!("error: {e}"),
    }
}
