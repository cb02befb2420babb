//! What the loops share of files: their bytes, their compressed forms and their digests, each made once.
//!
//! Each loop has a cache of its own, so that a hit takes no lock; the content that the caches hold lies here, once for
//! all of them. If several loops want one file, one reads it and the others wait for it. A thread beside the loops
//! makes compressed forms; requests meanwhile are answered without them. A digest is made once, by the first that needs
//! it.

use crate::files::compress;
use crate::files::digest::{digest_of, of_ring};
use crate::files::stamp::Stamp;
use crate::http::coding;
use crate::http::response::{Digest, Variant};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Forms that wait to be made; more are refused and counted, and asked for again.
const JOBS_MAX: usize = 256;
/// How long after a change two contents may have one stamp: the clock of many file systems moves only so often.
const AMBIGUOUS: Duration = Duration::from_millis(50);
/// Entries before the table is first swept of those that no cache holds.
const SWEEP_MIN: usize = 1024;
/// Bytes of a file that are digested at once.
const DIGEST_BYTES: usize = 1 << 20;
/// The thread gives way to the loops.
const NICENESS: i32 = 10;

/// Bytes of files by their stamp, as long as some cache or response holds them.
#[derive(Debug)]
pub(crate) struct SharedContent {
    files: Mutex<Table>,
    jobs: SyncSender<Job>,
    waiting: Mutex<Option<Receiver<Job>>>,
    /// Jobs that found no room.
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    by_stamp: HashMap<Stamp, Weak<Shared>>,
    sweep_at: usize,
}

/// One content of one file.
#[derive(Debug)]
pub(crate) struct Shared {
    filling: Mutex<()>,
    bytes: OnceLock<Arc<[u8]>>,
    encodings: [Form; 3],
    digest: OnceLock<Digest>,
    digest_asked: AtomicBool,
}

#[derive(Debug, Default)]
struct Form {
    asked: AtomicBool,
    /// None where it is hardly smaller than the plain bytes.
    made: OnceLock<Option<Compressed>>,
}

/// A compressed form.
#[derive(Debug, Clone)]
pub(crate) struct Compressed {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) digest: Digest,
}

/// What is known of a compressed form.
#[derive(Debug)]
pub(crate) enum Made<'s> {
    Ready(&'s Compressed),
    /// It is not worth its while.
    Useless,
    /// It is being made, or could not be asked for.
    Later,
}

/// A form to be made, with the file to read where the bytes are not in memory, or the digest of the plain bytes.
#[derive(Debug)]
enum Job {
    Form { shared: Arc<Shared>, variant: Variant, file: Option<(File, Stamp)> },
    Digest { shared: Arc<Shared>, file: Option<File> },
}

impl SharedContent {
    pub(crate) fn new() -> Self {
        let (jobs, waiting) = sync_channel(JOBS_MAX);
        Self { files: Mutex::default(), jobs, waiting: Mutex::new(Some(waiting)), refused: AtomicU64::new(0) }
    }

    /// Starts the thread that makes forms; it ends when the shelf goes.
    ///
    /// # Errors
    ///
    /// The system's refusal of a thread.
    pub(crate) fn start(&self) -> io::Result<()> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(waiting) = waiting else { return Ok(()) };
        std::thread::Builder::new().name("weir-forms".to_owned()).spawn(move || work(&waiting)).map(drop)
    }

    /// The content with this stamp, which may have been read already. A file that was changed just now is not shared,
    /// as its next content may look the same.
    pub(crate) fn take(&self, stamp: Stamp) -> Arc<Shared> {
        if stamp.is_ambiguous(AMBIGUOUS) {
            return Arc::new(Shared::new());
        }
        let mut table = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = table.by_stamp.get(&stamp).and_then(Weak::upgrade) {
            return shared;
        }
        if table.by_stamp.len() >= table.sweep_at.max(SWEEP_MIN) {
            table.by_stamp.retain(|_, shared| shared.strong_count() > 0);
            table.sweep_at = 2 * table.by_stamp.len();
        }
        let shared = Arc::new(Shared::new());
        table.by_stamp.insert(stamp, Arc::downgrade(&shared));
        shared
    }

    /// A compressed form, or the promise to make it; `file` is where the bytes are if they are not in memory.
    pub(crate) fn form<'s>(&self, shared: &'s Arc<Shared>, variant: Variant, file: Option<(&File, Stamp)>) -> Made<'s> {
        let Some(form) = coding::place(variant).map(|place| &shared.encodings[place]) else { return Made::Useless };
        match form.made.get() {
            Some(Some(compressed)) => Made::Ready(compressed),
            Some(None) => Made::Useless,
            None => {
                self.ask(&form.asked, || {
                    let file = file.map(|(file, stamp)| file.try_clone().map(|file| (file, stamp))).transpose()?;
                    Ok(Job::Form { shared: Arc::clone(shared), variant, file })
                });
                Made::Later
            }
        }
    }

    /// Has the digest of the plain bytes made beside the loops. If the queue is full the caller has to ask again.
    pub(crate) fn digest(&self, shared: &Arc<Shared>, file: Option<&File>) {
        if shared.digest.get().is_some() || shared.digest_asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let job = file.map(File::try_clone).transpose().map(|file| Job::Digest { shared: Arc::clone(shared), file });
        if job.map_or(true, |job| self.jobs.try_send(job).is_err()) {
            shared.digest_asked.store(false, Ordering::Relaxed);
        }
    }

    /// How many jobs found no room since the last question.
    pub(crate) fn take_refused(&self) -> u64 {
        if self.refused.load(Ordering::Relaxed) == 0 { 0 } else { self.refused.swap(0, Ordering::Relaxed) }
    }

    fn ask(&self, asked: &AtomicBool, job: impl FnOnce() -> io::Result<Job>) {
        if asked.swap(true, Ordering::Relaxed) {
            return;
        }
        if job().map_or(true, |job| self.jobs.try_send(job).is_err()) {
            asked.store(false, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Shared {
    fn new() -> Self {
        let (bytes, digest) = (OnceLock::new(), OnceLock::new());
        Self {
            filling: Mutex::default(),
            bytes,
            encodings: Default::default(),
            digest,
            digest_asked: AtomicBool::new(false),
        }
    }

    /// The bytes, read from the file unless another loop has read them. None if the file changed meanwhile; `read` says
    /// whether it was this call that read.
    pub(crate) fn fill(&self, file: &File, stamp: Stamp, read: &mut bool) -> io::Result<Option<Arc<[u8]>>> {
        let _alone = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = self.bytes.get() {
            return Ok(Some(Arc::clone(bytes)));
        }
        *read = true;
        // The bound on memory is an option and may be absurd, but then the file is not that large.
        let mut bytes = vec![0; usize::try_from(stamp.size()).unwrap_or(usize::MAX)];
        let complete = file.read_exact_at(&mut bytes, 0);
        if Stamp::of(&file.metadata()?) != stamp {
            return Ok(None);
        }
        complete?;
        Ok(Some(Arc::clone(self.bytes.get_or_init(|| bytes.into()))))
    }

    /// The digest of the file's bytes, made when it is first wanted; reads and computes, so it is not for a loop.
    pub(crate) fn digest(&self, file: Option<&File>) -> Option<Digest> {
        if let Some(digest) = self.digest.get() {
            return Some(*digest);
        }
        let digest = match (self.bytes.get(), file) {
            (Some(bytes), _) => digest_of(bytes),
            (None, file) => digest_file(file?)?,
        };
        Some(*self.digest.get_or_init(|| digest))
    }
}

impl Shared {
    /// The digest, if it was made already.
    pub(crate) fn known_digest(&self) -> Option<Digest> {
        self.digest.get().copied()
    }
}

/// The thread beside the loops.
fn work(waiting: &Receiver<Job>) {
    // SAFETY: the call takes no pointers; 0 is this thread, and a refusal leaves its priority as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
    for job in waiting {
        let (shared, variant, file) = match job {
            Job::Form { shared, variant, file } => (shared, variant, file),
            Job::Digest { shared, file } => {
                if shared.digest(file.as_ref()).is_none() {
                    // It could not be read now; the next caller that wants it asks again.
                    shared.digest_asked.store(false, Ordering::Relaxed);
                }
                continue;
            }
        };
        let Some(form) = coding::place(variant).map(|place| &shared.encodings[place]) else { continue };
        let read = match &file {
            Some((file, stamp)) => read_whole(file, *stamp),
            None => shared.bytes.get().map(Arc::clone),
        };
        // A file that has changed is another content by now; this one needs no form any more.
        let made = read.and_then(|bytes| compress::compress(&bytes, variant)).map(|bytes| {
            let digest = digest_of(&bytes);
            Compressed { bytes: bytes.into(), digest }
        });
        let _ = form.made.set(made);
    }
}

/// The bytes of a file; none if it cannot be read or is not what it was.
fn read_whole(file: &File, stamp: Stamp) -> Option<Arc<[u8]>> {
    let mut bytes = vec![0; usize::try_from(stamp.size()).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    (Stamp::of(&file.metadata().ok()?) == stamp).then(|| bytes.into())
}

/// The digest of a file; none if it cannot be read or changes meanwhile.
fn digest_file(file: &File) -> Option<Digest> {
    let stamp = Stamp::of(&file.metadata().ok()?);
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let mut piece = vec![0; DIGEST_BYTES];
    let mut at = 0;
    while at < stamp.size() {
        let read = file.read_at(&mut piece, at).ok().filter(|&read| read > 0)?;
        context.update(&piece[..read]);
        at += read as u64;
    }
    (Stamp::of(&file.metadata().ok()?) == stamp).then(|| of_ring(&context.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn file(content: &[u8]) -> (File, Stamp) {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(content, 0).expect("writes");
        let begin = Instant::now();
        loop {
            let stamp = Stamp::of(&file.metadata().expect("stats"));
            if !stamp.is_ambiguous(AMBIGUOUS) {
                return (file, stamp);
            }
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn of_many_that_want_a_file_one_reads_it() {
        let shared_content = SharedContent::new();
        let (file, stamp) = file(&[7; 100_000]);
        let reads: Vec<bool> = std::thread::scope(|scope| {
            let want = || {
                let mut read = false;
                let shared = shared_content.take(stamp);
                let bytes = shared.fill(&file, stamp, &mut read).expect("reads").expect("is still");
                assert_eq!(bytes.len(), 100_000);
                (shared, read)
            };
            let first = want();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(want)).collect();
            let others = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            std::iter::once(first).chain(others.collect::<Vec<_>>()).map(|(_, read)| read).collect()
        });
        assert_eq!(reads.iter().filter(|read| **read).count(), 1);
        let mut read = false;
        shared_content.take(stamp).fill(&file, stamp, &mut read).expect("reads");
        assert!(read, "content that no cache holds is not kept");
    }

    #[test]
    fn what_changed_just_now_is_not_shared() {
        let shared_content = SharedContent::new();
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(b"x", 0).expect("writes");
        let stamp = Stamp::of(&file.metadata().expect("stats"));
        let (one, other) = (shared_content.take(stamp), shared_content.take(stamp));
        assert!(!Arc::ptr_eq(&one, &other) || !stamp.is_ambiguous(AMBIGUOUS));
    }

    #[test]
    fn digests_are_those_of_sha_256() {
        let (file, stamp) = file(b"abc");
        // From FIPS 180-4's examples.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let shared = Shared::new();
        assert_eq!(shared.digest(None), None, "nothing to read");
        assert_eq!(shared.digest(Some(&file)).expect("reads").to_string(), expected);
        assert_eq!(shared.digest(None).expect("is known").to_string(), expected);
        let other = Shared::new();
        other.fill(&file, stamp, &mut false).expect("reads");
        assert_eq!(other.digest(None).expect("is in memory").to_string(), expected);
    }

    #[test]
    fn more_jobs_than_there_is_room_for_are_refused_and_counted() {
        let shared_content = SharedContent::new();
        for _ in 0..JOBS_MAX + 3 {
            assert!(matches!(shared_content.form(&Arc::new(Shared::new()), Variant::Gzip, None), Made::Later));
        }
        assert_eq!(shared_content.take_refused(), 3);
        assert_eq!(shared_content.take_refused(), 0);
    }
}
