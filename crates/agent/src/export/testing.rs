//! Transactions for the tests of exporters.

use crate::transaction::{Process, Status, Transaction, TransactionId};
use weir_wire::arm::{Handle, Token};

/// The process that the transactions of tests are of.
pub(crate) const TOKEN: Token = Token(0x1122_3344_5566_7788);

/// A transaction that went well; each has a span of its own.
pub(crate) fn transaction(application: &str, name: &str, duration_ns: u64) -> Transaction {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let span = TOKEN.span(Handle::new(1, 0, number));
    Transaction {
        id: TransactionId { trace: TOKEN.trace(span), span },
        parent: None,
        parent_foreign: false,
        parent_here: false,
        host: "web1".to_owned(),
        process: Process { pid: 4711, uid: 33, command: "shopd".to_owned() },
        application: application.to_owned(),
        group: None,
        instance: None,
        name: name.to_owned(),
        properties: Vec::new(),
        user: None,
        standard: 4,
        thread: 4712,
        start_ns: 1_000_000_000,
        start_unix_ns: 1_790_000_000_000_000_000,
        duration_ns,
        queued_ns: 0,
        blocked_ns: 0,
        status: Status::Good,
        one_in: 1,
        traced: false,
        reported: false,
        updates: 0,
        children: 0,
        threads: Vec::new(),
        details: Box::default(),
    }
}
