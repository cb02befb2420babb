//! Optional sources of a recording: `--watch` and `--watch-windows`.

use anyhow::{Context, bail};
use std::time::Duration;
use weir_capture::{Watched, Windows};

/// What is watched beside scheduler and sockets.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct WatchArgs {
    /// Also record: disk (files and devices waited for), locks (which, and who holds them), interrupts, timers; a list
    /// such as disk,locks or all. Each costs something: the report says how much
    #[arg(long, value_name = "SOURCES", value_parser = sources)]
    watch: Option<Sources>,

    /// Watch only in windows: 100ms/2s is 100 ms every 2 s
    #[arg(long, value_name = "ON/EVERY", value_parser = windows, requires = "watch")]
    watch_windows: Option<Windows>,
}

/// A list of sources.
#[derive(Debug, Clone)]
struct Sources(Vec<Watched>);

impl WatchArgs {
    /// The option, if it was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.watch.as_ref().map(|_| "--watch")
    }

    /// What is watched, and when.
    pub(crate) fn watched(&self) -> (Vec<Watched>, Option<Windows>) {
        (self.watch.as_ref().map(|sources| sources.0.clone()).unwrap_or_default(), self.watch_windows)
    }
}

fn sources(list: &str) -> anyhow::Result<Sources> {
    Ok(Sources(Watched::parse_list(list)?))
}

fn windows(text: &str) -> anyhow::Result<Windows> {
    let (on, every) = text.split_once('/').with_context(|| format!("{text:?} is no window; write 100ms/2s"))?;
    let (on, every) = (weir_terminal::units::duration(on)?, weir_terminal::units::duration(every)?);
    let least = Duration::from_millis(20);
    if on < least || on >= every {
        bail!("a window is at least 20ms long, and shorter than its period");
    }
    Ok(Windows { on, every })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_lists_are_read_or_refused_in_words() {
        let window = Windows { on: Duration::from_millis(100), every: Duration::from_secs(2) };
        assert_eq!(windows("100ms/2s").ok(), Some(window));
        for bad in ["100ms", "2s/100ms", "1ms/2s", "x/2s", "2s/2s"] {
            assert!(windows(bad).is_err(), "{bad:?}");
        }
        assert!(
            sources("disk,lock")
                .is_err_and(|error| error.to_string().contains("\"lock\"") && error.to_string().contains("locks"))
        );
        assert!(sources("all").is_ok_and(|all| all.0.len() == 4));
    }
}
