//! Bounds on the requests that are under way for some paths.

use super::table::Table;
use crate::policy::throttle::Throttle;
use std::time::Duration;

/// Tables of bounds.
const THROTTLES_MAX: usize = 64;

pub(super) fn read(table: &Table<'_, '_>) -> Vec<Throttle> {
    let tables = table.get("throttle").map(|value| value.tables("[[throttle]]")).unwrap_or_default();
    if tables.len() > THROTTLES_MAX {
        table.wrong(
            format!("there are {} tables of throttle", tables.len()),
            format!("at most {THROTTLES_MAX} are possible"),
        );
    }
    tables.iter().take(THROTTLES_MAX).filter_map(one).collect()
}

fn one(table: &Table<'_, '_>) -> Option<Throttle> {
    let path = table.get("path");
    let running = table.get("running");
    // The bounds fit.
    let queue = table.get("queue").map_or(Some(0), |value| value.integer(0..=1_000_000).map(|queue| queue as usize));
    let longest = Duration::from_secs(3600);
    let wait = table
        .get("wait")
        .map_or(Some(Duration::from_secs(10)), |value| value.duration(Duration::from_millis(1)..=longest));
    if let Some(value) = table.get("wait").filter(|_| queue == Some(0)) {
        value.wrong("`wait` means nothing without a queue", "add queue = 100, or leave `wait` away");
    }
    table.finish();
    let (Some(path), Some(running)) = (path, running) else {
        table.wrong("it does not say which paths, or how many run", "add path = \"/pages/**\" and running = 10");
        return None;
    };
    let running = running.integer(1..=1_000_000)? as usize;
    let glob = path.string()?;
    let wait_ms = u64::try_from(wait?.as_millis()).unwrap_or(u64::MAX);
    let throttle = Throttle::new(glob, running, queue?, wait_ms).filter(|_| glob.starts_with(['/', '*']));
    if throttle.is_none() {
        path.wrong(
            format!("\"{glob}\" is no pattern of paths"),
            "give one that begins with a slash, such as \"/pages/**\"",
        );
    }
    throttle
}
