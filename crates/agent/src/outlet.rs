//! Where transactions go beyond this host, and come from.

use crate::transaction::Transaction;

/// Exporters, and agents of other hosts. Called by the agent's own thread, so nothing here may wait.
pub trait Outlet: Send {
    /// A client's memory with this token was opened: traces that begin with it are of this host.
    fn knows(&mut self, token: u64);

    /// A transaction of this host is over.
    fn push(&mut self, transaction: &Transaction);

    /// The next transaction of another host; `None` = none for now.
    fn received(&mut self) -> Option<Transaction>;

    /// No exporter wants anything: transactions need not be described.
    fn is_idle(&self) -> bool;
}
