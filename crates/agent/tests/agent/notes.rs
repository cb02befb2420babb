//! A keeper that writes files, whole or not at all, as a store does with its transactions.

use std::fs;
use std::path::{Path, PathBuf};
use weir_agent::keeper::{Batch, Found, KeepError, Keeper, Sought};
use weir_agent::transaction::Transaction;

pub(crate) struct Notes(pub(crate) PathBuf);

/// Every batch that is kept, by number.
pub(crate) fn kept(folder: &Path) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "kept") {
            let text = fs::read(entry.path()).expect("a batch");
            batches.push(serde_json::from_slice(&text).expect("whole"));
        }
    }
    batches.sort_by_key(|batch| batch.number);
    batches
}

impl Keeper for Notes {
    fn last_batch(&mut self) -> Result<u64, KeepError> {
        Ok(kept(&self.0).last().map_or(0, |batch| batch.number))
    }

    fn keep(&mut self, batch: &Batch) -> Result<(), KeepError> {
        if batch.number <= self.last_batch()? {
            return Ok(());
        }
        let text = serde_json::to_vec(batch).expect("a text");
        let new = self.0.join(format!("{}.new", batch.number));
        let write = || {
            fs::write(&new, text)?;
            fs::rename(&new, new.with_extension("kept"))
        };
        write().map_err(|error| KeepError(error.to_string()))
    }

    fn find(&mut self, sought: &Sought, most: usize) -> Result<Found, KeepError> {
        let exemplars = kept(&self.0).into_iter().flat_map(|batch| batch.exemplars);
        let is_sought = |transaction: &Transaction| match sought {
            Sought::Related(wanted) => wanted.is(&transaction.id),
            Sought::Latest(filter) => filter.wants(transaction),
        };
        let mut all: Vec<Transaction> = exemplars.collect();
        if matches!(sought, Sought::Latest(_)) {
            all.sort_by_key(|transaction| std::cmp::Reverse(transaction.end_unix_ns()));
        }
        let looked_at = all.len() as u32;
        Ok(Found { transactions: all.into_iter().filter(is_sought).take(most).collect(), looked_at })
    }
}
