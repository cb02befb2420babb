//! The keys that a member has in common with the others, as it knows them: what is newer takes the place of what was.

use super::word::{Shared, TICKETS_MAX, TicketKey};
use crate::identity::{
    Authority, IdentityError, is_authority, keep_revoked, keep_revoked_members, keep_secret, load_revoked, load_secret,
    revoked_members,
};
use crate::name::NodeName;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A new key of tickets is made once the newest is so old.
const TICKETS_TURN: Duration = Duration::from_secs(12 * 3_600);
/// A member waits for so long for each one before it, of which so many count.
const TICKETS_WAIT: Duration = Duration::from_secs(10);
const TICKETS_RANKS: u32 = 200;
/// After so long no ticket is opened with a key: a session may be resumed for half a day at least.
const TICKETS_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// How far the clock of another member may be ahead.
const CLOCK_SKEW: Duration = Duration::from_secs(3_600);

/// The keys that a member has in common with the others.
#[derive(Debug)]
pub struct Keyring {
    directory: PathBuf,
    /// Those of tickets are in memory only: on a disk they would outlive their use.
    shared: Mutex<Shared>,
}

impl Keyring {
    /// Takes them from a member's directory.
    ///
    /// # Errors
    /// [`IdentityError`], if a file is missing or holds something else.
    pub fn open(directory: &Path) -> Result<Self, IdentityError> {
        let (secret, revoked) = (load_secret(directory)?, load_revoked(directory)?);
        let shared = Mutex::new(Shared { secret, tickets: Vec::new(), revoked });
        Ok(Self { directory: directory.to_owned(), shared })
    }

    /// What is known now.
    pub fn shared(&self) -> Shared {
        self.lock().clone()
    }

    /// The directory that keeps them.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether the authority is in this directory.
    pub fn has_authority(&self) -> bool {
        is_authority(&self.directory)
    }

    /// Takes what is newer, and keeps it.
    ///
    /// # Errors
    /// [`IdentityError`], if a file cannot be written; then nothing has changed but what was written before.
    pub fn take(&self, told: &Shared, now: SystemTime) -> Result<(), IdentityError> {
        let mut shared = self.lock();
        if told.secret.is_newer_than(&shared.secret) {
            keep_secret(&self.directory, &told.secret)?;
            shared.secret.clone_from(&told.secret);
        }
        if let Some(list) = told.revoked.as_ref().filter(|list| Some(*list) > shared.revoked.as_ref()) {
            keep_revoked(&self.directory, list)?;
            shared.revoked = Some(list.clone());
        }
        shared.tickets = of_both(&shared.tickets, &told.tickets, now);
        Ok(())
    }

    /// Takes what another process of this machine has written, such as `weir cluster remove`.
    ///
    /// # Errors
    /// [`IdentityError`], if a file cannot be read.
    pub fn look(&self) -> Result<(), IdentityError> {
        let written = load_secret(&self.directory)?;
        let mut shared = self.lock();
        if written.is_newer_than(&shared.secret) {
            shared.secret = written;
        }
        Ok(())
    }

    /// Makes a new key of tickets if the newest one has had its time. Of the members that do so the first by rank makes
    /// it, and the others hear of it before their turn comes.
    ///
    /// # Errors
    /// [`IdentityError`], if the system gives no random bytes.
    pub fn turn_tickets(&self, rank: u32, now: SystemTime) -> Result<(), IdentityError> {
        let mut shared = self.lock();
        let life = TICKETS_TURN + TICKETS_WAIT * rank.min(TICKETS_RANKS);
        let turn = unix_s(now).saturating_sub(life.as_secs());
        if shared.tickets.last().is_some_and(|newest| newest.made_unix_s > turn) {
            return Ok(());
        }
        let made = TicketKey::generate(unix_s(now))?;
        shared.tickets = of_both(&shared.tickets, &[made], now);
        Ok(())
    }

    /// Has the authority's list of revoked certificates name these members, at the node with the authority; whether
    /// there is a new list, which there is only for other members than before.
    ///
    /// # Errors
    /// [`IdentityError`], if this node has no authority, or a file cannot be read or written.
    pub fn revoke(&self, removed: &BTreeSet<NodeName>, now: SystemTime) -> Result<bool, IdentityError> {
        if revoked_members(&self.directory)? == *removed {
            return Ok(false);
        }
        let mut list = Authority::load(&self.directory)?.revoke(&self.directory, removed, now)?;
        let mut shared = self.lock();
        if let Some(known) = &shared.revoked {
            // Within one second, or where the clock was set back.
            list.number = list.number.max(known.number + 1);
        }
        keep_revoked(&self.directory, &list)?;
        shared.revoked = Some(list);
        keep_revoked_members(&self.directory, removed)?;
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // What it guards is whole after each statement.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys of tickets of both that are not too old, the newest last.
fn of_both(known: &[TicketKey], told: &[TicketKey], now: SystemTime) -> Vec<TicketKey> {
    let oldest = unix_s(now).saturating_sub(TICKETS_KEPT.as_secs());
    let latest = unix_s(now) + CLOCK_SKEW.as_secs();
    let all: BTreeSet<&TicketKey> = known.iter().chain(told).collect();
    let kept = all.into_iter().filter(|key| (oldest..=latest).contains(&key.made_unix_s)).cloned();
    let mut kept: Vec<TicketKey> = kept.collect();
    kept.drain(..kept.len().saturating_sub(TICKETS_MAX));
    kept
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
