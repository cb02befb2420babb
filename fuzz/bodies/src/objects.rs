//! Rules for objects and interactions, and records of any sort.

use std::sync::LazyLock;
use weir_objects::{Framework, Table};
use weir_wire::{Record, SLOT_BYTES};

/// Reads any text as rules, and gives the text's bytes as records to the fold.
pub fn objects_table(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    static OURS: LazyLock<Table> = LazyLock::new(Table::ours);
    let mut table = OURS.clone();
    if let Err(mistakes) = table.extend(&text) {
        assert!(!mistakes.is_empty());
        for mistake in mistakes {
            assert!(mistake.line >= 1 && mistake.line <= text.matches('\n').count() + 1, "{mistake}");
            assert!(!mistake.what.is_empty() && !mistake.remedy.is_empty(), "{mistake}");
        }
        assert_eq!(table, *OURS);
    }
    let mut framework = Framework::new(table);
    let mut now_ns = 0_u64;
    for slot in input.chunks_exact(SLOT_BYTES) {
        let word = |at: usize| u64::from_le_bytes(slot[8 * at..8 * at + 8].try_into().unwrap_or_default());
        let mut record = Record::from_slot([word(0), word(1), word(2), word(3)]);
        // Of the kinds that there are, in the order of time.
        record.kind = (record.kind & 0x0701) | (record.kind >> 8 & 0xf);
        now_ns = now_ns.saturating_add(record.time_ns >> 24);
        record.time_ns = now_ns;
        framework.push(&record, &[], None);
    }
    assert_eq!(framework.finish().counts.unbalanced_ns, 0);
}
