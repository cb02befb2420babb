//! Versions of sites.
//!
//! A manifest may have more bytes than an engine takes at once. So its pieces are put first, on a lease; the
//! transaction that makes the version current takes them off the lease. What a publisher leaves behind that dies
//! between the two goes by itself.

use super::core::{Agreed, TRIES, nonce, now_unix_s, record, record_of, revision, text};
use crate::atoms::{Digest, Manifest};
use crate::engine::{Commit, Engine, Entry, Span, Transaction, Write};
use crate::error::DirectoryError;
use crate::keys;
use crate::known::Known;
use crate::records::Publication;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Versions of a site that are kept, besides the current one.
pub const VERSIONS_KEPT: u64 = 64;
/// Bytes of a piece: an engine takes 1.5 MB at once, in base64.
pub const MANIFEST_PIECE_BYTES: usize = 512 << 10;
/// How long the pieces wait for their publication.
const PIECES_TTL: Duration = Duration::from_secs(60);
/// Old versions that one publication removes; there is mostly one.
const REMOVED_MAX: usize = 8;

/// Which version of a site is current.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pointer {
    current: u64,
    newest: u64,
    nonce: String,
}

/// A publication that is being made.
struct Draft<'a> {
    site: &'a str,
    pointer_key: String,
    pointer_revision: u64,
    expected: u64,
    publication: Publication,
    pieces: Vec<&'a [u8]>,
}

impl<E: Engine> Agreed<E> {
    pub(super) fn publish_version(
        &self,
        site: &str,
        manifest: &Manifest,
        expected: Option<u64>,
    ) -> Result<u64, DirectoryError> {
        let pointer_key = keys::key(keys::SITES, site)?;
        let manifest_text = manifest.to_text();
        let entry = self.fresh_one(&pointer_key)?;
        let pointer: Option<Pointer> = record_of(entry.as_ref())?;
        let (found, newest) = pointer.map_or((0, 0), |pointer| (pointer.current, pointer.newest));
        let expected = expected.unwrap_or(0);
        if found != expected {
            return Err(conflict(site, expected, found));
        }
        let draft = Draft {
            site,
            pointer_key,
            pointer_revision: revision(entry.as_ref()),
            expected,
            publication: Publication {
                version: newest + 1,
                manifest: Digest::of(manifest_text.as_bytes()),
                manifest_bytes: manifest_text.len() as u64,
                files: manifest.entries().len() as u64,
                bytes: manifest.bytes(),
                published_unix_s: now_unix_s(),
                nonce: nonce(),
            },
            pieces: manifest_text.as_bytes().chunks(MANIFEST_PIECE_BYTES).collect(),
        };
        let lease = self.grant(PIECES_TTL)?;
        let result = self.publish_draft(&draft, lease);
        // The pieces of a published version are off the lease; those of a failed one go with it.
        self.drop_lease(lease);
        result
    }

    fn publish_draft(&self, draft: &Draft<'_>, lease: u64) -> Result<u64, DirectoryError> {
        let Publication { version, nonce, .. } = &draft.publication;
        let pointer = Pointer { current: *version, newest: *version, nonce: nonce.clone() };
        let mut change = Transaction::default()
            .expect(&draft.pointer_key, draft.pointer_revision)
            .put(&draft.pointer_key, text(&pointer))
            .put(&version_key(draft.site, *version), text(&draft.publication));
        let begun = Instant::now();
        for (at, piece) in draft.pieces.iter().enumerate() {
            let key = piece_key(draft.site, &draft.publication, at);
            if begun.elapsed() > PIECES_TTL / 2 {
                self.renew_lease(lease)?;
            }
            self.commit(&Transaction::default().put_leased(&key, piece.to_vec(), lease))?;
            change.writes.push(Write::Keep { key });
        }
        change.writes.extend(self.removal(draft)?);
        match self.commit(&change)? {
            Commit::Done => Ok(*version),
            Commit::NotKept => Err(DirectoryError::TooSlow { site: draft.site.to_owned() }),
            Commit::Refused | Commit::Unclear => self.is_published(draft),
        }
    }

    /// A refused publication may be one that was carried out, and whose answer was lost.
    fn is_published(&self, draft: &Draft<'_>) -> Result<u64, DirectoryError> {
        let version = draft.publication.version;
        let found: Option<Publication> = record_of(self.fresh_one(&version_key(draft.site, version))?.as_ref())?;
        if found.is_some_and(|found| found.nonce == draft.publication.nonce) {
            return Ok(version);
        }
        let pointer: Option<Pointer> = record_of(self.fresh_one(&draft.pointer_key)?.as_ref())?;
        Err(conflict(draft.site, draft.expected, pointer.map_or(0, |pointer| pointer.current)))
    }

    /// Deletes the oldest versions beyond those that are kept.
    fn removal(&self, draft: &Draft<'_>) -> Result<Vec<Write>, DirectoryError> {
        let Some(last) = draft.publication.version.checked_sub(VERSIONS_KEPT).filter(|last| *last > 0) else {
            return Ok(Vec::new());
        };
        let mut writes = Vec::new();
        for entry in self.fresh(Span::Prefix(&versions_prefix(draft.site)))? {
            let old: Publication = record(&entry)?;
            if old.version <= last && old.version != draft.expected && writes.len() < 2 * REMOVED_MAX {
                writes.push(Write::DeletePrefix { prefix: pieces_prefix(draft.site, &old) });
                writes.push(Write::Delete { key: entry.key });
            }
        }
        Ok(writes)
    }

    pub(super) fn current_version(&self, site: &str) -> Result<Known<Option<Publication>>, DirectoryError> {
        let pointer_key = keys::key(keys::SITES, site)?;
        // A publication may come between the two reads, and remove what was current: then they are done again.
        for _ in 0..TRIES {
            let pointer = self.known_one(&pointer_key)?;
            let Some(found) = record_of::<Pointer>(pointer.value().as_ref())? else {
                return pointer.try_map(|_| Ok(None));
            };
            let version = self.known_one(&version_key(site, found.current))?;
            if version.value().is_some() {
                return pointer.with(version).try_map(|(_, version)| record_of(version.as_ref()));
            }
        }
        Err(DirectoryError::Contended { what: site_named(site), tries: TRIES })
    }

    pub(super) fn kept_versions(&self, site: &str) -> Result<Known<Vec<Publication>>, DirectoryError> {
        keys::key(keys::SITES, site)?;
        let read = |entries: Vec<Entry>| entries.iter().map(record).collect();
        self.known(Span::Prefix(&versions_prefix(site)))?.try_map(read)
    }

    pub(super) fn named_sites(&self) -> Result<Known<Vec<String>>, DirectoryError> {
        let name = |entry: &Entry| entry.key.strip_prefix(keys::SITES).unwrap_or_default().to_owned();
        self.known(Span::Prefix(keys::SITES))?.try_map(|entries| Ok(entries.iter().map(name).collect()))
    }

    pub(super) fn manifest_of(&self, site: &str, version: u64) -> Result<Known<Manifest>, DirectoryError> {
        keys::key(keys::SITES, site)?;
        let missing = || DirectoryError::Missing { what: format!("version {version} of the site {site}") };
        let publication = self.known_one(&version_key(site, version))?;
        let publication = publication.try_map(|entry| record_of::<Publication>(entry.as_ref())?.ok_or_else(missing))?;
        let pieces = publication.value().manifest_bytes.div_ceil(MANIFEST_PIECE_BYTES as u64);
        let mut bytes = publication.try_map(|publication| Ok::<_, DirectoryError>((publication, Vec::new())))?;
        for at in 0..usize::try_from(pieces).unwrap_or(usize::MAX) {
            let piece = self.known_one(&piece_key(site, &bytes.value().0, at))?;
            // Version and pieces go together: a publication has removed both meanwhile.
            let piece = piece.try_map(|piece| piece.ok_or_else(missing))?;
            bytes = bytes.with(piece).try_map(|((publication, mut bytes), piece)| {
                bytes.extend_from_slice(&piece.value);
                Ok::<_, DirectoryError>((publication, bytes))
            })?;
        }
        bytes.try_map(|(publication, bytes)| {
            Manifest::with_digest(&bytes, &publication.manifest).map_err(|error| DirectoryError::Manifest {
                site: site.to_owned(),
                version,
                error,
            })
        })
    }

    pub(super) fn roll_back_to(&self, site: &str, to: u64) -> Result<(), DirectoryError> {
        let pointer_key = keys::key(keys::SITES, site)?;
        let nonce = nonce();
        let mut is_unclear = false;
        for _ in 0..TRIES {
            let entry = self.fresh_one(&pointer_key)?;
            let pointer: Option<Pointer> = record_of(entry.as_ref())?;
            let Some(pointer) = pointer else {
                return Err(DirectoryError::Missing { what: site_named(site) });
            };
            if pointer.nonce == nonce {
                return Ok(());
            }
            if is_unclear {
                return Err(self.unsure());
            }
            if self.fresh_one(&version_key(site, to))?.is_none() {
                return Err(DirectoryError::Missing { what: format!("version {to} of the site {site}") });
            }
            let pointer = Pointer { current: to, newest: pointer.newest, nonce: nonce.clone() };
            // A version is removed only with a change of the pointer.
            let change =
                Transaction::default().expect(&pointer_key, revision(entry.as_ref())).put(&pointer_key, text(&pointer));
            match self.commit(&change)? {
                Commit::Done => return Ok(()),
                commit => is_unclear = commit == Commit::Unclear,
            }
        }
        Err(DirectoryError::Contended { what: site_named(site), tries: TRIES })
    }
}

fn conflict(site: &str, expected: u64, found: u64) -> DirectoryError {
    DirectoryError::Conflict { what: site_named(site), expected, found }
}

fn site_named(site: &str) -> String {
    format!("the site {site}")
}

fn versions_prefix(site: &str) -> String {
    format!("{}{site}/", keys::VERSIONS)
}

/// Numbers have a fixed width, so that keys stand in their order.
fn version_key(site: &str, version: u64) -> String {
    format!("{}{version:020}", versions_prefix(site))
}

fn pieces_prefix(site: &str, publication: &Publication) -> String {
    format!("{}{site}/{:020}-{}/", keys::MANIFESTS, publication.version, publication.nonce)
}

fn piece_key(site: &str, publication: &Publication, at: usize) -> String {
    format!("{}{at:05}", pieces_prefix(site, publication))
}
