//! Content that a node lacks, in pieces from other nodes, and the answers to nodes that lack some.

use super::keeping::Keeping;
use crate::cluster::published::Published;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use weir_cluster::{
    Answering, INQUIRED_MAX, Keeping as Stand, LinkClient, Member, Message, NodeAnswers, NodeNumber, PIECE_BYTES_MAX,
    Role,
};
use weir_directory::Digest;
use weir_directory::atoms::{AtomError, ContentStore, File};

/// How long another node has for a piece.
const PATIENCE: Duration = Duration::from_secs(5);
/// Tries of a piece at one node whose link breaks.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);
/// Contents that come at a time.
const AT_A_TIME: usize = 4;

/// Some content could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// No node sends it.
    #[error("the content of {path} does not come: {}; see that a node with this version runs", why.join(", "))]
    NoSource { path: String, why: Vec<String> },
    /// It cannot be kept here.
    #[error(transparent)]
    Kept(#[from] AtomError),
}

/// A source does not send a piece.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    /// It may do so in a moment.
    #[error("{0}")]
    Again(String),
    /// It will not.
    #[error("{0}")]
    Gone(String),
}

/// A part of some content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) total_bytes: u64,
    pub(super) modified_unix_s: u64,
    pub(super) bytes: Vec<u8>,
}

/// A node that may have content.
pub(super) trait Source: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// A piece; none if it does not have the content.
    fn piece(&self, digest: &Digest, from: u64, bytes: u32) -> Result<Option<Piece>, SourceError>;
}

/// Another node over a link of its own, so that sessions that move do not wait behind content.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) number: NodeNumber,
    pub(super) name: String,
    pub(super) link: LinkClient,
}

impl Peer {
    /// How the node stands to contents, in their order; none if it does not say so.
    pub(super) fn inquire(&self, digests: &[Digest]) -> Option<Vec<Stand>> {
        let mut stands = Vec::with_capacity(digests.len());
        for part in digests.chunks(INQUIRED_MAX) {
            let asked = Message::Inquire { digests: part.iter().map(|digest| digest.0).collect() };
            match self.link.ask(&asked, PATIENCE) {
                Ok(Message::Keeping { contents }) if contents.len() == part.len() => stands.extend(contents),
                _ => return None,
            }
        }
        Some(stands)
    }
}

impl Source for Peer {
    fn name(&self) -> &str {
        &self.name
    }

    fn piece(&self, digest: &Digest, from: u64, bytes: u32) -> Result<Option<Piece>, SourceError> {
        match self.link.ask(&Message::Fetch { digest: digest.0, from, bytes }, PATIENCE) {
            Ok(Message::Piece { total_bytes, modified_unix_s, bytes }) => {
                Ok(Some(Piece { total_bytes, modified_unix_s, bytes }))
            }
            Ok(Message::Absent { .. }) => Ok(None),
            Ok(Message::Failed { why }) => Err(SourceError::Again(why)),
            Ok(_) => Err(SourceError::Gone("it answers something else; run the same weir everywhere".to_owned())),
            Err(error) if error.is_unsent() => Err(SourceError::Gone(error.to_string())),
            Err(error) => Err(SourceError::Again(error.to_string())),
        }
    }
}

/// Which of the sources are likely to have some content.
pub(super) type Likely<'l> = &'l (dyn Fn(&Digest) -> Vec<usize> + Sync);

/// Fetches contents, several at a time; each is verified by its digest before it is kept.
///
/// # Errors
/// The first that did not come. The others are kept all the same.
pub(super) fn fetch_all(
    store: &ContentStore,
    files: &[&File],
    sources: &[&dyn Source],
    likely: Likely<'_>,
) -> Result<(), FetchError> {
    let (next, last_good) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut failed = None;
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            // First the one that had the content before.
            let first = last_good.load(Ordering::Relaxed);
            let mut order: Vec<usize> = Vec::with_capacity(sources.len());
            for at in [first].into_iter().chain(likely(&file.digest)).chain(0..sources.len()) {
                if at < sources.len() && !order.contains(&at) {
                    order.push(at);
                }
            }
            let ordered: Vec<&dyn Source> = order.iter().map(|at| sources[*at]).collect();
            match fetch(store, file, &ordered) {
                Ok(good) => last_good.store(order[good], Ordering::Relaxed),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_A_TIME.min(files.len())).map(|_| scope.spawn(work)).collect();
        // A thread that panicked has fetched nothing more; what is missing comes at the next look.
        threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(()))).fold(Ok(()), Result::and)
    })
}

/// Fetches one content; which source had its last piece.
fn fetch(store: &ContentStore, file: &File, sources: &[&dyn Source]) -> Result<usize, FetchError> {
    if file.bytes == 0 {
        store.receive(&file.digest, 0, &mut io::empty())?;
        return Ok(0);
    }
    let mut reading =
        Reading { sources, at: 0, file, from: 0, piece: Vec::new(), taken: 0, modified_unix_s: 0, why: Vec::new() };
    loop {
        match store.receive(&file.digest, file.bytes, &mut reading) {
            Ok(()) => {
                let modified = UNIX_EPOCH + Duration::from_secs(reading.modified_unix_s);
                // Only so that all nodes say the same about it.
                let _ = store.open_content(&file.digest).map(|content| content.set_modified(modified));
                return Ok(reading.at);
            }
            Err(AtomError::Digest { .. }) => reading.blame("sends other bytes than those of the digest"),
            Err(AtomError::File { .. }) if reading.at >= sources.len() => {}
            Err(error) => return Err(error.into()),
        }
        if reading.at >= sources.len() {
            return Err(FetchError::NoSource { path: file.path.clone(), why: reading.why });
        }
    }
}

/// Some content as it comes: what one source does not send is asked of the next, from the same place on.
struct Reading<'a> {
    sources: &'a [&'a dyn Source],
    at: usize,
    file: &'a File,
    /// What has come.
    from: u64,
    piece: Vec<u8>,
    taken: usize,
    modified_unix_s: u64,
    /// Why sources did not send it.
    why: Vec<String>,
}

impl Reading<'_> {
    /// Leaves a source, and begins again at the next.
    fn blame(&mut self, why: &str) {
        self.leave(why);
        (self.from, self.taken) = (0, 0);
        self.piece.clear();
    }

    fn leave(&mut self, why: &str) {
        if let Some(source) = self.sources.get(self.at) {
            self.why.push(format!("{} {why}", source.name()));
        }
        self.at += 1;
    }

    fn next_piece(&mut self) -> io::Result<()> {
        let left = self.file.bytes - self.from;
        let wanted = u32::try_from(left.min(PIECE_BYTES_MAX as u64)).unwrap_or(0);
        let mut tries = 0;
        while let Some(source) = self.sources.get(self.at) {
            match source.piece(&self.file.digest, self.from, wanted) {
                Ok(Some(piece)) if piece.total_bytes == self.file.bytes && piece.bytes.len() == wanted as usize => {
                    self.from += u64::from(wanted);
                    self.modified_unix_s = piece.modified_unix_s;
                    (self.piece, self.taken) = (piece.bytes, 0);
                    return Ok(());
                }
                Ok(Some(_)) => self.leave("has it with another length"),
                Ok(None) => self.leave("does not have it"),
                Err(SourceError::Again(_)) if tries + 1 < TRIES => {
                    tries += 1;
                    std::thread::sleep(PAUSE);
                }
                Err(error) => {
                    tries = 0;
                    self.leave(&format!("does not send it ({error})"));
                }
            }
        }
        Err(io::Error::other("no node sends it"))
    }
}

impl Read for Reading<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            if self.from == self.file.bytes {
                return Ok(0);
            }
            self.next_piece()?;
        }
        let bytes = buffer.len().min(self.piece.len() - self.taken);
        buffer[..bytes].copy_from_slice(&self.piece[self.taken..self.taken + bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

/// What a node with published sites answers: content, and what [`NodeAnswers`] does.
pub(super) struct ContentAnswers {
    pub(super) sessions: NodeAnswers,
    pub(super) published: Arc<Published>,
    pub(super) keeping: Arc<Keeping>,
}

impl Answering for ContentAnswers {
    fn answer(&self, peer: &Member, request: Message) -> Message {
        let is_node = peer.role == Role::Node;
        let refused = || Message::Failed { why: format!("{} is no node; only nodes fetch content", peer.name) };
        let (digest, from, bytes) = match request {
            Message::Fetch { .. } | Message::Inquire { .. } if !is_node => return refused(),
            Message::Fetch { digest, from, bytes } => (digest, from, bytes),
            Message::Inquire { digests } => {
                return Message::Keeping { contents: self.keeping.vouch(&self.published.store, &digests) };
            }
            other => return self.sessions.answer(peer, other),
        };
        match piece_of(&self.published.store, &Digest(digest), from, bytes) {
            Ok(Piece { total_bytes, modified_unix_s, bytes }) => Message::Piece { total_bytes, modified_unix_s, bytes },
            Err(AtomError::Missing { .. }) => Message::Absent { digest },
            Err(error) => Message::Failed { why: error.to_string() },
        }
    }

    fn is_quick(&self, request: &Message) -> bool {
        self.sessions.is_quick(request)
    }
}

pub(super) fn piece_of(store: &ContentStore, digest: &Digest, from: u64, bytes: u32) -> Result<Piece, AtomError> {
    let content = store.open_content(digest)?;
    let failed = |error| AtomError::File { path: digest.to_string().into(), error };
    let metadata = content.metadata().map_err(failed)?;
    let left = metadata.len().saturating_sub(from).min(u64::from(bytes)).min(PIECE_BYTES_MAX as u64);
    let mut piece = vec![0; usize::try_from(left).unwrap_or(0)];
    content.read_exact_at(&mut piece, from).map_err(failed)?;
    let modified = metadata.modified().ok().and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    Ok(Piece { total_bytes: metadata.len(), modified_unix_s: modified.unwrap_or_default().as_secs(), bytes: piece })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const NONE: Likely<'_> = &|_| Vec::new();

    /// A node that has these contents, and breaks off behind so many pieces.
    struct Fake {
        name: &'static str,
        contents: Vec<(Digest, Vec<u8>)>,
        pieces_max: usize,
        asked: Mutex<Vec<(u64, u32)>>,
    }

    impl Fake {
        fn new(name: &'static str, contents: &[(Digest, &[u8])]) -> Self {
            let contents = contents.iter().map(|(digest, bytes)| (*digest, bytes.to_vec())).collect();
            Self { name, contents, pieces_max: usize::MAX, asked: Mutex::default() }
        }
    }

    impl Source for Fake {
        fn name(&self) -> &str {
            self.name
        }

        fn piece(&self, digest: &Digest, from: u64, bytes: u32) -> Result<Option<Piece>, SourceError> {
            let mut asked = self.asked.lock().expect("is whole");
            asked.push((from, bytes));
            if asked.len() > self.pieces_max {
                return Err(SourceError::Gone("it is gone".to_owned()));
            }
            let Some((_, content)) = self.contents.iter().find(|(of, _)| of == digest) else { return Ok(None) };
            let (from, total_bytes) = (from as usize, content.len() as u64);
            let bytes = content[from..(from + bytes as usize).min(content.len())].to_vec();
            Ok(Some(Piece { total_bytes, modified_unix_s: 1_000_000, bytes }))
        }
    }

    fn file(content: &[u8]) -> File {
        File { path: "a".to_owned(), digest: Digest::of(content), bytes: content.len() as u64, mode: 0o644 }
    }

    fn store() -> (tempfile::TempDir, ContentStore) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = ContentStore::open(folder.path(), 1 << 30).expect("a store");
        (folder, store)
    }

    #[test]
    fn content_comes_in_pieces_and_goes_on_at_another_node() {
        let content: Vec<u8> = (0..(600u32 << 10)).map(|at| (at >> 5) as u8).collect();
        let wanted = file(&content);
        let (_folder, store) = store();
        let mut first = Fake::new("n1", &[(wanted.digest, &content)]);
        first.pieces_max = 1;
        let (none, last) = (Fake::new("n2", &[]), Fake::new("n3", &[(wanted.digest, &content)]));
        fetch_all(&store, &[&wanted], &[&first, &none, &last], NONE).expect("it comes");
        assert!(store.verify(&wanted.digest).expect("is there"));
        let piece = PIECE_BYTES_MAX as u32;
        let second = u64::from(piece);
        assert_eq!(*first.asked.lock().expect("is whole"), [(0, piece), (second, piece)]);
        assert_eq!(*none.asked.lock().expect("is whole"), [(second, piece)]);
        assert_eq!(*last.asked.lock().expect("is whole"), [(second, piece), (2 * second, 600 * 1024 - 2 * piece)]);
        let modified = store.open_content(&wanted.digest).expect("is there").metadata().expect("is there").modified();
        assert_eq!(modified.expect("has one"), UNIX_EPOCH + Duration::from_secs(1_000_000));
    }

    #[test]
    fn other_bytes_than_those_of_the_digest_are_refused() {
        let (good, bad) = (b"good".as_slice(), b"evil".as_slice());
        let wanted = file(good);
        let (_folder, store) = store();
        let (liar, long) = (Fake::new("n1", &[(wanted.digest, bad)]), Fake::new("n2", &[(wanted.digest, b"longer")]));
        let refused = fetch_all(&store, &[&wanted], &[&liar, &long], NONE).expect_err("is refused").to_string();
        assert!(refused.contains("n1 sends other bytes") && refused.contains("n2 has it with another"), "{refused}");
        assert!(!store.has(&wanted.digest));
        let honest = Fake::new("n3", &[(wanted.digest, good)]);
        fetch_all(&store, &[&wanted], &[&liar, &honest], NONE).expect("it comes from the other");
        assert!(store.verify(&wanted.digest).expect("is there"));
    }

    #[test]
    fn one_that_is_nowhere_does_not_keep_the_others() {
        let contents: Vec<Vec<u8>> = (0..20u8).map(|at| vec![at; usize::from(at)]).collect();
        let files: Vec<File> = contents.iter().map(|content| file(content)).collect();
        let (_folder, store) = store();
        let had: Vec<(Digest, &[u8])> =
            files.iter().zip(&contents).skip(2).map(|(file, content)| (file.digest, content.as_slice())).collect();
        let source = Fake::new("n1", &had);
        let missing =
            fetch_all(&store, &files.iter().collect::<Vec<_>>(), &[&source], NONE).expect_err("one is missing");
        assert!(missing.to_string().contains("n1 does not have it"), "{missing}");
        let there = files.iter().filter(|file| store.has(&file.digest)).count();
        assert_eq!(there, 19, "the empty one needs no node");
    }

    #[test]
    fn pieces_end_with_the_content() {
        let (_folder, store) = store();
        let content = b"0123456789";
        let digest = file(content).digest;
        store.receive(&digest, 10, &mut &content[..]).expect("is kept");
        let piece = |from, bytes| piece_of(&store, &digest, from, bytes).expect("is there").bytes;
        assert_eq!((piece(0, 4), piece(8, 4), piece(10, 4)), (b"0123".to_vec(), b"89".to_vec(), Vec::new()));
        assert!(piece(u64::MAX, u32::MAX).is_empty());
    }
}
