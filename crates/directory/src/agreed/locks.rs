//! Locks: a leased key says who holds one, a lasting key counts the epochs.

use super::core::{Agreed, TRIES, check_ttl, nonce, now_unix_s, record_of, revision, text};
use crate::engine::{Commit, Engine, Entry, Transaction};
use crate::error::DirectoryError;
use crate::keys;
use crate::known::Known;
use crate::records::{Epoch, Holder};
use std::time::Duration;

/// What an acquisition finds.
struct Wanted<'a> {
    lock: &'a str,
    holder: &'a str,
    /// The holder from whom the lock is taken, where there is one.
    from: Option<Epoch>,
}

impl<E: Engine> Agreed<E> {
    pub(super) fn acquire_lock(
        &self,
        lock: &str,
        holder: &str,
        ttl: Duration,
        from: Option<Epoch>,
    ) -> Result<Option<Epoch>, DirectoryError> {
        keys::key(keys::LOCKS, holder)?;
        check_ttl(ttl)?;
        // One that waits for a lock asks often: it reads, and changes nothing while the lock is held.
        let held: Option<Holder> = record_of(self.fresh_one(&keys::key(keys::LOCKS, lock)?)?.as_ref())?;
        if held.is_some_and(|held| Some(held.epoch) != from) {
            return Ok(None);
        }
        let lease = self.grant(ttl)?;
        let result = self.acquire_leased(&Wanted { lock, holder, from }, lease);
        match &result {
            Ok(Some(_)) => {}
            // Also where it is not known: a lock that is held unknowingly would stay until the lease ends.
            _ => self.drop_lease(lease),
        }
        result
    }

    fn acquire_leased(&self, wanted: &Wanted<'_>, lease: u64) -> Result<Option<Epoch>, DirectoryError> {
        let (key, counter) = (keys::key(keys::LOCKS, wanted.lock)?, keys::key(keys::EPOCHS, wanted.lock)?);
        let nonce = nonce();
        let mut is_unclear = false;
        for _ in 0..TRIES {
            let entry = self.fresh_one(&key)?;
            let held = record_of::<Holder>(entry.as_ref())?;
            if let Some(held) = held.as_ref().filter(|held| held.nonce == nonce) {
                return Ok(Some(held.epoch));
            }
            // It may have been held under our epoch, and have gone to another holder since.
            if is_unclear {
                return Err(self.unsure());
            }
            if held.is_some_and(|held| Some(held.epoch) != wanted.from) {
                return Ok(None);
            }
            let count = self.fresh_one(&counter)?;
            let newest: Option<Epoch> = record_of(count.as_ref())?;
            let epoch = newest.map_or_else(|| Epoch(now_unix_s()), |newest| Epoch(newest.0 + 1));
            let held = Holder { holder: wanted.holder.to_owned(), epoch, nonce: nonce.clone() };
            let change = Transaction::default()
                .expect(&key, revision(entry.as_ref()))
                .expect(&counter, revision(count.as_ref()))
                .put_leased(&key, text(&held), lease)
                .put(&counter, text(&epoch));
            match self.commit(&change)? {
                Commit::Done => {
                    if let Some(before) = entry {
                        self.drop_lease(before.lease);
                    }
                    return Ok(Some(epoch));
                }
                commit => is_unclear = commit == Commit::Unclear,
            }
        }
        Err(DirectoryError::Contended { what: format!("the lock {}", wanted.lock), tries: TRIES })
    }

    pub(super) fn renew_lock(&self, lock: &str, epoch: Epoch) -> Result<(), DirectoryError> {
        match self.held_under(lock, epoch)? {
            Some(entry) if self.renew_lease(entry.lease)? => Ok(()),
            _ => Err(DirectoryError::LockLost { lock: lock.to_owned(), epoch: epoch.0 }),
        }
    }

    pub(super) fn release_lock(&self, lock: &str, epoch: Epoch) -> Result<(), DirectoryError> {
        let Some(entry) = self.held_under(lock, epoch)? else { return Ok(()) };
        // Where the condition does not hold, the lock has gone to another holder meanwhile, or the answer was lost.
        self.commit(&Transaction::default().expect(&entry.key, entry.revision).delete(&entry.key))?;
        self.drop_lease(entry.lease);
        Ok(())
    }

    fn held_under(&self, lock: &str, epoch: Epoch) -> Result<Option<Entry>, DirectoryError> {
        let entry = self.fresh_one(&keys::key(keys::LOCKS, lock)?)?;
        let held: Option<Holder> = record_of(entry.as_ref())?;
        Ok(entry.filter(|_| held.is_some_and(|held| held.epoch == epoch)))
    }

    pub(super) fn known_holder(&self, lock: &str) -> Result<Known<Option<Holder>>, DirectoryError> {
        let key = keys::key(keys::LOCKS, lock)?;
        self.known_one(&key)?.try_map(|entry| record_of(entry.as_ref()))
    }
}
