//! A load that ends by itself, at a time limit, or when its user says so.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use weir_load::{Control, LoadError, LoadReport, Options};
use weir_terminal::stop::Stop;

/// How often the user's wish to end is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Runs a load until its own end, the time limit or the user's wish; calls `tick` from time to time meanwhile.
pub(crate) fn limited(
    options: Options,
    control: &Control,
    stop: &Stop,
    limit: Option<Duration>,
    mut tick: impl FnMut(),
) -> Result<LoadReport, LoadError> {
    std::thread::scope(|scope| {
        let (done, over) = channel();
        let load = scope.spawn(move || {
            let report = weir_load::run(options, control);
            // It fails only where the receiver is gone, and then this thread's report is no longer wanted.
            let _ = done.send(());
            report
        });
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(Instant::now()));
            match over.recv_timeout(TICK.min(left.max(Duration::from_millis(1)))) {
                Err(RecvTimeoutError::Timeout) => tick(),
                _ => break,
            }
            if stop.asked() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                control.stop();
            }
        }
        load.join().unwrap_or(Err(LoadError::Panicked))
    })
}
