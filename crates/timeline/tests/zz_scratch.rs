use std::time::Instant;
#[test]
fn scratch() {
    for dir in std::env::var("RUNS").unwrap_or_default().split(',').filter(|d| !d.is_empty()) {
        let reader = weir_trace::RunReader::open(dir.as_ref()).unwrap();
        let mut events = Vec::new();
        let t0 = Instant::now();
        let mut n = 0u64;
        reader.merge().each(|s| {
            n += 1;
            std::hint::black_box(s.record.a);
            true
        });
        let read = t0.elapsed();
        reader.merge().each(|s| {
            events.push((s.record, s.payload.to_vec()));
            true
        });
        let name = std::sync::Arc::from("x");
        let t1 = Instant::now();
        let mut joiner = weir_timeline::Joiner::new(Default::default());
        let mut parts = [0u64; 15];
        let mut f = |_: &weir_timeline::Joiner, r: &weir_timeline::Response<'_>| {
            for s in r.steps {
                parts[s.part as usize] += s.to_ns - s.from_ns;
            }
        };
        for (r, p) in &events {
            joiner.push(r, p, Some(&name), &mut f);
        }
        joiner.finish(&mut f);
        let joined = t1.elapsed();
        let st = joiner.statistics();
        eprintln!(
            "{dir}: {n} events, merge {:.2} M/s, join {:.2} M/s, {} of {} joined gaps {} held {}",
            n as f64 / read.as_secs_f64() / 1e6,
            n as f64 / joined.as_secs_f64() / 1e6,
            st.joined,
            st.requests,
            st.gaps,
            joiner.held()
        );
        for (p, v) in weir_measure::part::Part::ALL.iter().zip(parts) {
            if v > 0 {
                eprint!(" {} {}", p.name(), v / st.requests.max(1));
            }
        }
        eprintln!();
    }
}
