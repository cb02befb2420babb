//! Optional sources of a recording: `--watch` and `--watch-windows`.

use std::time::Duration;
use weir_capture::{EventSource, Probes, UnknownWatched, Watch, Watched, Windows};

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

    /// Loads the sources, if any are wanted.
    pub(crate) fn load(&self, probes: &Probes) -> anyhow::Result<Option<Box<dyn EventSource>>> {
        let sources = self.watch.as_ref().map_or(&[][..], |sources| &sources.0);
        Ok(Watch::load(probes, sources, self.watch_windows)?)
    }
}

fn sources(list: &str) -> Result<Sources, UnknownWatched> {
    Watched::parse_list(list).map(Sources)
}

fn windows(text: &str) -> Result<Windows, String> {
    let (on, every) = text.split_once('/').ok_or_else(|| format!("{text:?} is no window; write 100ms/2s"))?;
    let (on, every) = (crate::units::duration(on)?, crate::units::duration(every)?);
    let least = Duration::from_millis(20);
    if on < least || on >= every {
        return Err("a window is at least 20ms long, and shorter than its period".to_owned());
    }
    Ok(Windows { on, every })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_lists_are_read_or_refused_in_words() {
        let window = Windows { on: Duration::from_millis(100), every: Duration::from_secs(2) };
        assert_eq!(windows("100ms/2s"), Ok(window));
        for bad in ["100ms", "2s/100ms", "1ms/2s", "x/2s", "2s/2s"] {
            assert!(windows(bad).is_err(), "{bad:?}");
        }
        let error = sources("disk,lock").expect_err("no such source").to_string();
        assert!(error.contains("\"lock\"") && error.contains("locks"), "{error}");
        assert!(sources("all").is_ok_and(|all| all.0.len() == 4));
    }
}
