//! Bounds on the requests that are under way for some paths.

use super::table::{Table, Value};
use crate::policy::throttle::Throttle;
use crate::policy::throttle_law::Stages;
use std::time::Duration;

/// Tables of bounds.
const THROTTLES_MAX: usize = 64;
/// The keys that say WASD's numbers one by one, but for the first.
const STAGED: [&str; 6] = ["per_user", "more_from", "more_to", "busy", "run_after", "busy_after"];

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
    let (throttle, running) = (table.get("throttle"), table.get("running"));
    let staged = STAGED.iter().find_map(|key| Some((*key, table.get(key)?)));
    let has_plain = table.get("queue").or_else(|| table.get("wait"));
    if let Some((key, value)) = staged.as_ref().filter(|_| throttle.is_some()) {
        value.wrong(format!("`throttle` and `{key}` say the same"), "keep one of them");
    }
    if let Some(value) = running.as_ref().filter(|_| throttle.is_some()) {
        value.wrong("`throttle` says how many run", "leave `running` away");
    }
    if let Some(value) = has_plain.filter(|_| staged.is_some() || throttle.is_some()) {
        value.wrong(
            "`queue` and `wait` do not go together with WASD's numbers",
            "write `busy` for how many there may be in all, and `busy_after` for how long they wait",
        );
    }
    let read = match (&throttle, &running) {
        (Some(text), _) => of_text(text),
        (None, Some(running)) if staged.is_some() => of_keys(table, running),
        (None, Some(running)) => plain(table, running),
        (None, None) => None,
    };
    table.finish();
    let (Some(path), true) = (path, throttle.is_some() || running.is_some()) else {
        table.wrong("it does not say which paths, or how many run", "add path = \"/pages/**\" and running = 10");
        return None;
    };
    let glob = path.string()?;
    let throttle = match read? {
        Read::Plain { running, queue, wait_ms } => Throttle::new(glob, running, queue, wait_ms),
        Read::Staged(stages) => Throttle::staged(glob, stages),
    };
    let throttle = throttle.filter(|_| glob.starts_with(['/', '*']));
    if throttle.is_none() {
        path.wrong(
            format!("\"{glob}\" is no pattern of paths"),
            "give one that begins with a slash, such as \"/pages/**\"",
        );
    }
    throttle
}

/// What a table says, but for its paths.
enum Read {
    Plain { running: usize, queue: usize, wait_ms: u64 },
    Staged(Stages),
}

fn plain(table: &Table<'_, '_>, running: &Value<'_, '_>) -> Option<Read> {
    // The bounds fit.
    let queue = table.get("queue").map_or(Some(0), |value| value.integer(0..=1_000_000).map(|queue| queue as usize));
    let longest = Duration::from_secs(3600);
    let wait = table
        .get("wait")
        .map_or(Some(Duration::from_secs(10)), |value| value.duration(Duration::from_millis(1)..=longest));
    if let Some(value) = table.get("wait").filter(|_| queue == Some(0)) {
        value.wrong("`wait` means nothing without a queue", "add queue = 100, or leave `wait` away");
    }
    let running = running.integer(1..=1_000_000)? as usize;
    Some(Read::Plain { running, queue: queue?, wait_ms: ms(wait?) })
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// WASD's numbers in one text.
fn of_text(value: &Value<'_, '_>) -> Option<Read> {
    let text = value.string()?;
    match Stages::parse(text) {
        Ok(stages) => Some(Read::Staged(stages)),
        Err(why) => {
            let why = why.to_string();
            let (what, remedy) = why.split_once("; ").unwrap_or((&why, "write n1/u1,n2,n3,n4,to1,to2"));
            value.wrong(format!("\"{text}\": {what}"), remedy.to_owned());
            None
        }
    }
}

/// WASD's numbers one by one.
fn of_keys(table: &Table<'_, '_>, running: &Value<'_, '_>) -> Option<Read> {
    let number = |key| {
        let read: Option<Value<'_, '_>> = table.get(key);
        read.map_or(Some(0), |value| value.integer(1..=1_000_000).map(|number| number as usize))
    };
    let day = Duration::from_secs(86_400);
    let time = |key| {
        let read: Option<Value<'_, '_>> = table.get(key);
        read.map_or(Some(0), |value| value.duration(Duration::from_millis(1)..=day).map(ms))
    };
    let (per_user, more_from, more_to, busy) =
        (number("per_user"), number("more_from"), number("more_to"), number("busy"));
    let (run_after, busy_after) = (time("run_after"), time("busy_after"));
    let stages = Stages {
        run: running.integer(1..=1_000_000)? as usize,
        per_user: per_user?,
        more_from: more_from?,
        more_to: more_to?,
        busy: busy?,
        run_after_ms: run_after?,
        busy_after_ms: busy_after?,
    };
    match stages.check() {
        Ok(()) => Some(Read::Staged(stages)),
        Err(why) => {
            let why = why.to_string();
            let (what, remedy) = why.split_once("; ").unwrap_or((&why, "change one of them"));
            table.wrong(what.to_owned(), remedy.to_owned());
            None
        }
    }
}
