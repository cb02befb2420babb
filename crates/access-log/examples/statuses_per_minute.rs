//! How many responses of each class of status an access log has in each minute.
//!
//! The format of the log is recognised, and gzip is undone. Lines that are no requests are counted by reason.
//!
//! `cargo run --release -p weir-access-log --example statuses_per_minute -- access.log`

use std::collections::BTreeMap;
use std::fs::File;
use weir_access_log::calendar::days_since_1970;
use weir_access_log::{LeftOut, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: statuses_per_minute ACCESS_LOG")?;
    let in_file = |error: &dyn std::error::Error| format!("{path}: {error}");
    let file = File::open(&path).map_err(|error| in_file(&error))?;
    let Source::Lines(mut requests) = Source::open(file).map_err(|error| in_file(&error))? else {
        return Err(format!("{path}: these are the records of the World Cup of 1998, not lines").into());
    };

    // Of each minute the responses of 1xx to 5xx; first those without a status.
    let mut minutes: BTreeMap<i64, [u64; 6]> = BTreeMap::new();
    let mut left_out = LeftOut::default();
    while let Some((line, request)) = requests.next_request()? {
        match request {
            Ok(request) => {
                let class = request.status.map_or(0, |status| usize::from(status / 100));
                let counts = minutes.entry(request.second.div_euclid(60)).or_default();
                counts[if class < counts.len() { class } else { 0 }] += 1;
            }
            Err(reason) => left_out.push(&path, line, reason),
        }
    }

    println!("{:<16} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}", "minute (UTC)", "1xx", "2xx", "3xx", "4xx", "5xx", "none");
    for (minute, [none, informs, succeeds, redirects, refuses, fails]) in minutes {
        let time = time(minute);
        println!("{time:<16} {informs:>7} {succeeds:>7} {redirects:>7} {refuses:>7} {fails:>7} {none:>7}");
    }
    for (reason, count) in left_out.by_reason() {
        println!("{count} lines left out: {}", reason.words());
    }
    Ok(())
}

/// A minute since 1970 as people write it.
fn time(minute: i64) -> String {
    let (day, minute) = (minute.div_euclid(24 * 60), minute.rem_euclid(24 * 60));
    let year = (1970..).find(|year| days_since_1970(year + 1, 1, 1) > day).unwrap_or(1970);
    let month = (1..=12).rev().find(|month| days_since_1970(year, *month, 1) <= day).unwrap_or(1);
    let date = day - days_since_1970(year, month, 1) + 1;
    format!("{year}-{month:02}-{date:02} {:02}:{:02}", minute / 60, minute % 60)
}
