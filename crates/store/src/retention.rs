//! What is removed: the oldest.

use crate::StoreError;
use crate::store::{Store, Written};

/// Rounds of making room at most: each removes a twentieth.
const MOST_ROUNDS: u32 = 100;
/// Free pages are given back to the file system from this many on.
const FREE_PAGES: u64 = 256;

/// Whether the store has grown so far that room must be made: nine tenths of its bound, so that the next write fits.
pub(crate) fn is_due(store: &Store) -> Result<bool, StoreError> {
    Ok(store.used_bytes()? > store.limits.bytes / 10 * 9 || store.record_bytes > store.limits.bytes / 2)
}

pub(crate) fn retire(store: &mut Store, now_ms: u64) -> Result<Written, StoreError> {
    let oldest_ms = now_ms.saturating_sub(u64::try_from(store.limits.age.as_millis()).unwrap_or(u64::MAX));
    let mut removed = Written {
        minutes_removed: remove(store, &format!("delete from minute where minute < {}", oldest_ms / 60_000))?,
        records_removed: remove(store, &format!("delete from record where at_ms < {oldest_ms}"))?,
    };
    // Records that took the place of others were counted twice until now.
    weigh_records(store)?;
    // Whole records are many times as long as minutes: half of the room is what they may take of it.
    for _ in 0..MOST_ROUNDS {
        if store.record_bytes <= store.limits.bytes / 20 * 9 {
            break;
        }
        removed.records_removed += remove_oldest_records(store)?;
    }
    for _ in 0..MOST_ROUNDS {
        if store.used_bytes()? <= store.limits.bytes / 10 * 8 {
            break;
        }
        let minutes = remove_oldest_minutes(store)?;
        removed.minutes_removed += minutes;
        if minutes == 0 {
            let records = remove_oldest_records(store)?;
            removed.records_removed += records;
            if records == 0 {
                break;
            }
        }
    }
    if removed != Written::default() {
        forget_series(store)?;
    }
    if store.ask("pragma freelist_count")? > FREE_PAGES {
        store.connection.execute_batch("pragma incremental_vacuum").map_err(|error| store.error(error))?;
    }
    Ok(removed)
}

/// Removes the oldest twentieth of the time that there are minutes of; the last one stays.
fn remove_oldest_minutes(store: &Store) -> Result<u64, StoreError> {
    let first = store.ask("select coalesce(min(minute), 0) from minute")?;
    let last = store.ask("select coalesce(max(minute), 0) from minute")?;
    let until = (first + (last - first) / 20 + 1).min(last);
    remove(store, &format!("delete from minute where minute < {until}"))
}

fn remove_oldest_records(store: &mut Store) -> Result<u64, StoreError> {
    let twentieth = store.ask("select count(*) from record")? / 20 + 1;
    let oldest = format!("select id from record order by at_ms limit {twentieth}");
    let removed = remove(store, &format!("delete from record where id in ({oldest})"))?;
    weigh_records(store)?;
    Ok(removed)
}

/// Series of which nothing is left.
fn forget_series(store: &Store) -> Result<u64, StoreError> {
    remove(
        store,
        "delete from series where id not in (select series from minute) and id not in (select series from record)",
    )
}

fn weigh_records(store: &mut Store) -> Result<(), StoreError> {
    store.record_bytes = store.ask("select coalesce(sum(bytes), 0) from record")?;
    Ok(())
}

fn remove(store: &Store, sql: &str) -> Result<u64, StoreError> {
    store.connection.execute(sql, []).map(|rows| rows as u64).map_err(|error| store.error(error))
}
