//! What a server did and is asked about: files of activity, and words that choose requests.

use crate::telemetry::recent::search;
use weir_server::{Activity, ShownActivity};

/// Slots of the rings of a small file: minutes, hours, marks.
const SLOTS: [u32; 3] = [5, 3, 4];
/// Bytes of its head and of a record.
const HEAD_BYTES: usize = 4096;
const RECORD_BYTES: usize = 128;

/// Reads any bytes as a file of activity, and as the records of one whose checksums are right.
pub fn activity_file(input: &[u8]) {
    let _ = Activity::parse(input);
    let mut file = vec![0; HEAD_BYTES];
    file[..8].copy_from_slice(b"WEIRACTV");
    for (number, value) in [1].into_iter().chain(SLOTS).enumerate() {
        file[8 + 4 * number..][..4].copy_from_slice(&value.to_le_bytes());
    }
    let sum = crc32fast::hash(&file[..24]);
    file[24..28].copy_from_slice(&sum.to_le_bytes());
    let slots = SLOTS.iter().sum::<u32>() as usize;
    let mut records = input.to_vec();
    records.resize(slots * RECORD_BYTES, 0);
    for record in records.chunks_exact_mut(RECORD_BYTES) {
        let sum = crc32fast::hash(&record[4..]);
        record[..4].copy_from_slice(&sum.to_le_bytes());
    }
    file.extend_from_slice(&records);
    let activity = Activity::parse(&file).expect("its head is right");
    let found = activity.minutes.len() + activity.hours.len() + activity.marks.len();
    assert!(found as u64 + activity.torn <= slots as u64);
    assert!(activity.minutes.iter().all(|figures| figures.begin_unix_s.is_multiple_of(60)));
    assert!(activity.hours.iter().all(|figures| figures.begin_unix_s.is_multiple_of(3600)));
    assert!(activity.minutes.is_sorted_by(|one, other| one.begin_unix_s <= other.begin_unix_s));
    for (hours, steps) in [(1, 60), (24, 7), (26_280, 100)] {
        let shown = ShownActivity::new(&activity, hours, steps, 1_800_000_000);
        assert!(shown.steps.len() as u64 <= u64::from(steps) + 1);
    }
    file.truncate(file.len() - 1);
    assert!(Activity::parse(&file).is_err(), "it was cut");
}

/// Reads a first line of any bytes as words that choose requests, and searches the rest by them.
pub fn request_filter(input: &[u8]) {
    let (words, block) = input.split_at(input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len()));
    let Ok(words) = str::from_utf8(words) else { return };
    if let Some((entries, passing)) = search(words, block) {
        assert!(passing <= entries);
        assert_eq!(search("", block), Some((entries, entries)), "no word lets everything pass");
    }
}
