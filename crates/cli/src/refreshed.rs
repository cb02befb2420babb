//! A report that is drawn on the terminal again and again, until Ctrl-C.

use crate::table::cut;
use std::time::{Duration, Instant};
use weir_terminal::pane::{Pane, size};
use weir_terminal::stop::Stop;

/// How soon Ctrl-C is noticed.
const TICK: Duration = Duration::from_millis(50);

/// Asks and draws again and again; a process that is gone meanwhile may come again.
///
/// # Errors
/// What the first question comes to.
pub(crate) fn show<T>(
    every: Duration,
    ask: impl Fn() -> anyhow::Result<T>,
    lines: impl Fn(&T, usize) -> Vec<String>,
) -> anyhow::Result<()> {
    let mut last = ask()?;
    let stop = Stop::on_signals()?;
    let mut pane = Pane::new(std::io::stdout());
    let mut trouble = None;
    loop {
        let (columns, rows) = size(1);
        let width = columns.saturating_sub(1);
        let mut shown = lines(&last, width);
        if let Some(trouble) = &trouble {
            shown.insert(0, cut(&format!("these figures are old: {trouble}"), width));
        }
        shown.truncate(rows.saturating_sub(1).max(1));
        pane.draw(&shown, columns);
        let next = Instant::now() + every;
        while Instant::now() < next && !stop.asked() {
            std::thread::sleep(TICK.min(every));
        }
        if stop.asked() {
            return Ok(());
        }
        match ask() {
            Ok(newer) => (last, trouble) = (newer, None),
            Err(error) => trouble = Some(weir_terminal::output::causes(&error)),
        }
    }
}
