//! What the handlers of a recording share: what is recorded, and what is kept of it.

use crate::recording::Entry;
use crate::secrets::Masks;
use crate::trust::Trust;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use url::Url;

/// What is recorded, and how much of it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen.
    pub listen: String,
    /// The server that is recorded.
    pub to: Url,
    /// The cookie that tells users apart; all are one recording without.
    pub session_cookie: Option<String>,
    /// Whether secrets are kept as they are.
    pub keep_secrets: bool,
    /// Entries that are kept; further ones are passed on and counted.
    pub entries_max: usize,
    /// Bytes that are kept, of all entries together.
    pub bytes_max: u64,
    /// A body that is longer is kept by its size only.
    pub body_bytes_max: usize,
    /// Which certificates of the server are believed.
    pub trust: Trust,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    /// Entries with the number of their session; 0 has none.
    pub(super) entries: Vec<(usize, Entry)>,
    pub(super) bytes: u64,
    pub(super) masks: Masks,
    /// Values of the session's cookie, as the server gave them, and the session's number.
    pub(super) sessions: BTreeMap<String, usize>,
    pub(super) sessions_seen: usize,
    /// Changes since the begin: the writer of the file compares it.
    pub(super) version: u64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) agent: ureq::Agent,
    /// The origin by which a browser that names no host knows us: known once the endpoint listens.
    pub(super) own: OnceLock<String>,
    pub(super) store: Mutex<Store>,
    pub(super) dropped: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Shared {
    pub(super) fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        // A worker that panicked has left the entries as they were.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an entry, masked, unless the limits are reached.
    pub(super) fn keep(&self, mut entry: Entry) {
        let mut store = self.store();
        let session = self.session(&mut store, &entry);
        if !self.options.keep_secrets && store.masks.entry(&mut entry) {
            // A secret may have been on an earlier page before it was posted.
            let Store { entries, masks, .. } = &mut *store;
            entries.iter_mut().for_each(|(_, earlier)| masks.sweep(earlier));
        }
        let size = size(&entry);
        if store.entries.len() >= self.options.entries_max || store.bytes + size > self.options.bytes_max {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        store.bytes += size;
        store.version += 1;
        store.entries.push((session, entry));
    }

    /// The session of an entry: by the cookie that was sent, else by the one that is set.
    fn session(&self, store: &mut Store, entry: &Entry) -> usize {
        let Some(name) = &self.options.session_cookie else { return 0 };
        let sent = entry.request.headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case("cookie"));
        let sent = sent.flat_map(|(_, value)| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let sent = sent.filter(|(own, _)| own == name).map(|(_, value)| value.to_owned()).next();
        let headers = entry.response.as_ref().map_or(&[][..], |response| &response.headers);
        let set = headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case("set-cookie"));
        let set = set.filter_map(|(_, value)| value.split(';').next()?.trim().split_once('='));
        let mut set = set.filter(|(own, value)| own == name && !value.is_empty()).map(|(_, value)| value.to_owned());
        let set = set.next_back();
        let Some(first) = sent.as_ref().or(set.as_ref()) else { return 0 };
        let number = match store.sessions.get(first) {
            Some(number) => *number,
            None if store.sessions.len() >= self.options.entries_max => return 0,
            None => {
                store.sessions_seen += 1;
                store.sessions.insert(first.clone(), store.sessions_seen);
                store.sessions_seen
            }
        };
        // Servers give a new value when a user signs in: it is the same user.
        if let Some(set) = set
            && store.sessions.len() < self.options.entries_max
        {
            store.sessions.insert(set, number);
        }
        number
    }
}

/// What an entry takes, roughly.
fn size(entry: &Entry) -> u64 {
    let pairs =
        |pairs: &[(String, String)]| pairs.iter().map(|(name, value)| name.len() + value.len() + 64).sum::<usize>();
    let bytes = |body: &crate::recording::Body| body.bytes.as_ref().map_or(0, Vec::len);
    let request =
        entry.request.url.len() + pairs(&entry.request.headers) + entry.request.body.as_ref().map_or(0, bytes);
    let response = entry.response.as_ref().map_or(0, |response| pairs(&response.headers) + bytes(&response.body));
    (request + response + 512) as u64
}
