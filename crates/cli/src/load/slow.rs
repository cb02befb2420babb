//! The options that slow clients down.

use super::asked::think;
use anyhow::Context;
use std::time::Duration;
use weir_load::sessions::Think;
use weir_load::{Link, SlowClient};
use weir_terminal::units::{UnitError, duration};

/// What slows clients down.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct SlowArgs {
    /// Network line of each client, with its rates and latency: modem, 56k, isdn, dsl, cable, fiber, edge, 2g, 3g-slow,
    /// 3g, 4g or lte; the options below override parts of it
    #[arg(long, value_name = "LINE", value_parser = line, help_heading = "Slow clients")]
    client: Option<Link>,
    /// Each connection reads at most this much a second: 4KB/s, 512KiB/s, 33.6kbit/s, 10Mbit/s
    #[arg(long, value_name = "RATE", value_parser = weir_terminal::units::rate, help_heading = "Slow clients")]
    limit_read: Option<f64>,
    /// Each connection writes at most this much a second
    #[arg(long, value_name = "RATE", value_parser = weir_terminal::units::rate, help_heading = "Slow clients")]
    limit_write: Option<f64>,
    /// Add this latency to every round trip: 50ms (0 = nothing)
    #[arg(long, value_name = "TIME", value_parser = latency, help_heading = "Slow clients")]
    latency: Option<Duration>,
    /// Users give up after this time: 2s, 1s..3s (any between), or exp:2s (exponentially distributed); such requests
    /// count as stopped, not as errors
    #[arg(long, value_name = "TIME", value_parser = think, help_heading = "Slow clients")]
    patience: Option<Think>,
}

/// The names of these options, as those of others are known that say how to load.
pub(super) const OF_SLOW: [&str; 5] = ["client", "limit_read", "limit_write", "latency", "patience"];

fn line(name: &str) -> anyhow::Result<Link> {
    let names = || Link::names().collect::<Vec<_>>().join(", ");
    Link::named(name).with_context(|| format!("there are {}", names()))
}

fn latency(text: &str) -> Result<Duration, UnitError> {
    if text == "0" { Ok(Duration::ZERO) } else { duration(text) }
}

impl SlowArgs {
    /// What they mean; `seed` is where random numbers begin.
    pub(super) fn slow(&self, seed: u64) -> SlowClient {
        let line = self.client.unwrap_or_default();
        SlowClient {
            link: Link {
                read_bytes_per_s: self.limit_read.or(line.read_bytes_per_s),
                write_bytes_per_s: self.limit_write.or(line.write_bytes_per_s),
                latency: self.latency.unwrap_or(line.latency),
            },
            patience: self.patience,
            seed,
        }
    }
}

/// What slows clients down in words, for the report's heading; empty where nothing does.
pub(super) fn words(slow: &SlowClient) -> String {
    let mut words = String::new();
    for (rate, does) in [(slow.link.read_bytes_per_s, "reads"), (slow.link.write_bytes_per_s, "writes")] {
        if let Some(rate) = rate {
            words.push_str(&format!(", each {does} {rate} B/s"));
        }
    }
    if !slow.link.latency.is_zero() {
        words.push_str(&format!(", {:?} added to round trips", slow.link.latency));
    }
    match slow.patience {
        None => {}
        Some(Think::Fixed(time)) => words.push_str(&format!(", users click stop after {time:?}")),
        Some(Think::Uniform(from, to)) => words.push_str(&format!(", users click stop after {from:?} to {to:?}")),
        Some(Think::Exponential(mean)) => words.push_str(&format!(", users click stop after {mean:?} on average")),
        Some(Think::None) => words.push_str(", users click stop at once"),
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        slow: SlowArgs,
    }

    fn slow(line: &str) -> Result<SlowClient, String> {
        let words = std::iter::once("load").chain(line.split(' ').filter(|word| !word.is_empty()));
        Cli::try_parse_from(words).map(|cli| cli.slow.slow(7)).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_become_a_slow_client() {
        let usual = slow("").expect("valid");
        assert!(!usual.is_slow() && words(&usual).is_empty());
        let modem = slow("--client modem").expect("valid");
        assert_eq!(words(&modem), ", each reads 3360 B/s, each writes 3360 B/s, 120ms added to round trips");
        let mixed = slow("--client dsl --limit-read 4KB/s --latency 0 --patience 1s..3s").expect("valid");
        assert_eq!(words(&mixed), ", each reads 4000 B/s, each writes 48000 B/s, users click stop after 1s to 3s");
        assert_eq!(mixed.seed, 7);
        assert_eq!(words(&slow("--patience exp:2s").expect("valid")), ", users click stop after 2s on average");
        // What the help lists is all that there is.
        let help = Cli::try_parse_from(["load", "--help"]).expect_err("the help").to_string();
        let listed: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for name in Link::names() {
            assert!([",", " or", ";"].iter().any(|end| listed.contains(&format!(" {name}{end}"))), "{name}: {help}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, words) in [
            ("--client 5g", "3g-slow"),
            ("--limit-read 4", "unit"),
            ("--limit-write fast", "33.6kbit/s"),
            ("--latency 5x", "unit of time"),
            ("--patience 3s..1s", "shorter"),
        ] {
            let mistake = slow(line).expect_err(line);
            assert!(mistake.contains(words), "{line}: {mistake}");
        }
    }
}
