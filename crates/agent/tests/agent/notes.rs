//! A keeper that writes files, whole or not at all, as a store does with its transactions.

use std::fs;
use std::path::{Path, PathBuf};
use weir_agent::keeper::{Batch, KeepError, Keeper};
use weir_agent::transaction::{Transaction, Wanted};

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

    fn find(&mut self, wanted: Wanted, most: usize) -> Result<Vec<Transaction>, KeepError> {
        let exemplars = kept(&self.0).into_iter().flat_map(|batch| batch.exemplars);
        Ok(exemplars.filter(|transaction| wanted.is(&transaction.id)).take(most).collect())
    }
}
