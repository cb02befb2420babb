//! The command lines of other load generators, compiled a second time.

#![allow(dead_code, reason = "not all of it is fuzzed")]

#[path = "../../../crates/compat/src/ab/arguments.rs"]
mod ab;
#[path = "../../../crates/compat/src/http_load/arguments.rs"]
mod http_load;
#[path = "../../../crates/compat/src/httperf/arguments.rs"]
mod httperf;
#[path = "../../../crates/compat/src/httperf/parts.rs"]
mod parts;
#[path = "../../../crates/compat/src/httperf/period.rs"]
mod period;
#[path = "../../../crates/compat/src/wrk/pipeline.rs"]
mod pipeline;
#[path = "../../../crates/compat/src/wrk/units.rs"]
mod units;
#[path = "../../../crates/compat/src/wrk/arguments.rs"]
mod wrk;

/// Reads any lines as the arguments of each of these programs: what they ask for can be done, or is refused.
pub fn dropin_arguments(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let words: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Ok(ab::Asked::Run(asked)) = ab::parse(&words) {
        assert!((1..=asked.requests).contains(&asked.concurrency), "{asked:?}");
        assert!(asked.heartbeat() <= u64::from(asked.requests), "{asked:?}");
        assert!(!asked.method.is_empty() && words.contains(&asked.url), "{asked:?}");
    }
    if let Ok(asked) = http_load::parse(&words) {
        assert!(asked.rate_per_s().is_none_or(|rate| rate >= 1.0 && rate.is_finite()), "{asked:?}");
        assert!(asked.throttle.is_none_or(|rate| rate > 0.0) && words.contains(&asked.file), "{asked:?}");
    }
    if let Ok(wrk::Asked::Run(asked)) = wrk::parse(&words) {
        assert!((1..=asked.connections).contains(&asked.threads) && words.contains(&asked.url), "{asked:?}");
        assert!(asked.duration_s > 0 && asked.timeout_s > 0 && asked.script_limit_s > 0, "{asked:?}");
    }
    // What a script gives to be sent.
    if let Ok(parts) = pipeline::split(input) {
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<usize>(), input.len());
    }
    if let Ok(httperf::Asked::Run(asked)) = httperf::parse(&words) {
        assert!(asked.timeout_s >= 0.0 && asked.think_timeout_s >= 0.0, "{asked:?}");
        assert!(asked.client.0 < asked.client.1 && asked.burst > 0, "{asked:?}");
        assert!(asked.max_connections.is_none_or(|most| (1..=httperf::CONNECTIONS_MAX).contains(&most)), "{asked:?}");
        assert!(asked.max_piped.is_none_or(|most| (1..=httperf::PIPED_MAX).contains(&most)), "{asked:?}");
        let _ = asked.period.repeated();
        let header = httperf::unescaped(asked.header.as_deref().unwrap_or_default());
        assert!(header.len() <= input.len() * 3, "{asked:?}");
        // As many as a fuzzer has the time for.
        if let Ok(times) = asked.period.times_ns(asked.arrivals().min(100), asked.client.0) {
            assert!(times.is_sorted(), "{asked:?}");
        }
    }
}
