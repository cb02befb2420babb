//! Drives responses into a sink: as much as it takes, and no byte twice.

use crate::exchange::life::{Exchange, Source};
use crate::files::resource::Content;
use crate::http::response::Piece;
use crate::io::epoll;
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};

/// Pieces in one system call.
pub(crate) const PIECES_MAX: usize = 32;
/// Up to this size several pieces are copied together: a plain send is cheaper than a vector and a copy of this.
pub(crate) const COPIED_BYTES_MAX: usize = 4096;

/// Where responses go: a socket, or something that looks like one to a test.
pub(crate) trait Sink {
    /// What is taken of the middle of a file is a multiple of this.
    const UNIT_BYTES: u64 = 1;
    /// Bytes given to one connection before the others have their turn: eight whole segments of the loopback's, as what is
    /// over would be a small one, for which the reader is woken up as for a large one. Elsewhere segments are so small that
    /// it makes no difference.
    const TURN_BYTES_MAX: u64 = 8 * 65_483;

    /// Takes some of the pieces; `more` says that content of a file follows at once.
    fn send(&mut self, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize>;
    /// Takes some of a file, as long as it is unchanged; 0 means that the file has ended before.
    ///
    /// # Errors
    ///
    /// `StaleNetworkFileHandle` if it has changed: bytes of two versions must never look like one file.
    fn send_file(&mut self, file: &File, is_unchanged: &dyn Fn() -> bool, start: u64, len: u64) -> io::Result<u64>;
}

/// How far sending came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Everything was taken.
    All,
    /// The sink is full; it will say when it has room.
    Blocked,
    /// The sink could take more, but it is the turn of others.
    Yielded,
    /// The sink took all that there is; more comes of an application.
    Starved,
}

/// Sends the responses in order, as many in one call as fit, and moves their offsets. Returns the bytes taken too.
pub(crate) fn flush<S: Sink>(queue: &mut [Exchange], sink: &mut S) -> (io::Result<Sent>, u64) {
    let mut total = 0;
    // How nearly every response goes.
    if let [only] = &mut *queue
        && only.is_one_piece(COPIED_BYTES_MAX)
        && let Ok(taken) = sink.send(&[IoSlice::new(&only.response.head)], false)
    {
        total = taken as u64;
        only.response.offset = total;
        if taken == only.response.head.len() {
            return (Ok(Sent::All), total);
        }
    }
    let outcome = loop {
        match step(queue, sink, (S::TURN_BYTES_MAX - total) as usize) {
            Ok(Step::Last { bytes }) => {
                total += bytes;
                break Ok(Sent::All);
            }
            Ok(Step::Took { bytes, full }) => {
                total += bytes;
                if full {
                    break Ok(Sent::Blocked);
                }
                if total >= S::TURN_BYTES_MAX {
                    // A connection with nothing left to send does not wait for room.
                    let is_over = queue.iter().all(Exchange::is_finished);
                    break Ok(if is_over { Sent::All } else { Sent::Yielded });
                }
            }
            Ok(Step::Nothing) => break Ok(Sent::All),
            Ok(Step::Starved) => break Ok(Sent::Starved),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(Sent::Blocked),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    (outcome, total)
}

enum Step {
    /// The sink took these bytes; `full` says that it has no room for more.
    Took {
        bytes: u64,
        full: bool,
    },
    /// It took these bytes, and there are no others.
    Last {
        bytes: u64,
    },
    Nothing,
    /// An application has to give something first.
    Starved,
}

/// One system call, of so many bytes at most.
fn step<S: Sink>(queue: &mut [Exchange], sink: &mut S, bytes_max: usize) -> io::Result<Step> {
    let mut pieces = [const { MaybeUninit::<IoSlice<'_>>::uninit() }; PIECES_MAX];
    let (mut count, mut wanted) = (0, 0);
    let (mut file, mut refill) = (None, None);
    let mut is_last = true;
    'gather: for (place, exchange) in queue.iter().enumerate() {
        for piece in exchange.response.rest() {
            if count == PIECES_MAX || wanted == bytes_max {
                is_last = false;
                break 'gather;
            }
            let bytes = match piece {
                Piece::Head(bytes) => bytes,
                Piece::Content { start, len } => match content(&exchange.source, start, len)? {
                    Bytes::Memory(bytes) => bytes,
                    Bytes::File(handle) => {
                        file = Some((handle, start, len));
                        break 'gather;
                    }
                },
            };
            let room = bytes_max - wanted;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            pieces[count].write(IoSlice::new(now));
            count += 1;
            wanted += now.len();
            if !later.is_empty() {
                is_last = false;
                break 'gather;
            }
        }
        if exchange.continues() {
            is_last = false;
            if count == 0 && exchange.is_awaited() {
                return Ok(Step::Starved);
            }
            refill = (count == 0).then_some(place);
            break 'gather;
        }
    }
    if let Some(place) = refill {
        queue[place].refill()?;
        return Ok(Step::Took { bytes: 0, full: false });
    }
    if count > 0 {
        // SAFETY: the first `count` of them were written, and what may be uninitialised has the layout of what is not.
        let pieces = unsafe { std::slice::from_raw_parts(pieces.as_ptr().cast::<IoSlice<'_>>(), count) };
        let taken = sink.send(pieces, file.is_some())?;
        let (bytes, full) = (taken as u64, taken < wanted);
        let is_last = is_last && !full && file.is_none();
        advance(queue, bytes);
        return Ok(if is_last { Step::Last { bytes } } else { Step::Took { bytes, full } });
    }
    let Some((handle, start, len)) = file else { return Ok(Step::Nothing) };
    let is_unchanged = || {
        let exchange = queue.iter().find(|exchange| !exchange.response.is_finished());
        exchange.is_some_and(Exchange::is_unchanged)
    };
    let bytes_max = (bytes_max as u64).next_multiple_of(S::UNIT_BYTES);
    let taken = sink.send_file(handle, &is_unchanged, start, len.min(bytes_max))?;
    if taken == 0 {
        // The file became shorter than the head has promised, so there is no honest way to go on.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    advance(queue, taken);
    // The kernel may stop early without being full, so only its refusal counts as that.
    Ok(Step::Took { bytes: taken, full: false })
}

/// Where content lies.
pub(super) enum Bytes<'a> {
    Memory(&'a [u8]),
    File(&'a File),
}

/// Some of the content of a response.
///
/// # Errors
///
/// `UnexpectedEof` if the content is shorter.
pub(super) fn content(source: &Source, start: u64, len: u64) -> io::Result<Bytes<'_>> {
    let bytes: &[u8] = match source.content() {
        Some(Content::File(file)) => return Ok(Bytes::File(file)),
        Some(Content::Memory(bytes)) => bytes,
        None => source.stored().ok_or(io::ErrorKind::NotFound)?,
    };
    let place = usize::try_from(start).ok().zip(usize::try_from(start + len).ok());
    let slice = place.and_then(|(start, end)| bytes.get(start..end));
    slice.map(Bytes::Memory).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn advance(queue: &mut [Exchange], mut taken: u64) {
    for exchange in queue {
        let step = taken.min(exchange.response.len() - exchange.response.offset);
        exchange.response.offset += step;
        taken -= step;
        if taken == 0 {
            break;
        }
    }
}

/// A connected, non-blocking socket.
#[derive(Debug)]
pub(crate) struct Socket<'c> {
    pub(crate) fd: RawFd,
    /// Memory to copy small pieces together in.
    pub(crate) copied: &'c mut Vec<u8>,
}

impl Sink for Socket<'_> {
    fn send(&mut self, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let flags = if more { libc::MSG_MORE } else { 0 };
        if let [piece] = pieces {
            return epoll::send_bytes(self.fd, piece, flags);
        }
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        if bytes > COPIED_BYTES_MAX {
            return epoll::send(self.fd, pieces, flags);
        }
        self.copied.clear();
        for piece in pieces {
            self.copied.extend_from_slice(piece);
        }
        epoll::send_bytes(self.fd, self.copied, flags)
    }

    fn send_file(&mut self, file: &File, is_unchanged: &dyn Fn() -> bool, start: u64, len: u64) -> io::Result<u64> {
        // Only before the call: what the kernel has taken lies with it by pages of the file, not as a copy.
        if !is_unchanged() {
            return Err(io::ErrorKind::StaleNetworkFileHandle.into());
        }
        let start = libc::off64_t::try_from(start).map_err(|_| io::ErrorKind::InvalidInput)?;
        let taken = epoll::send_file(self.fd, file.as_raw_fd(), start, usize::try_from(len).unwrap_or(usize::MAX))?;
        Ok(taken as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::counters::LoopCounters;
    use crate::counters::host_counts::HostLedger;
    use crate::files::head::Persistence;
    use crate::files::resource::{Description, Resource};
    use crate::files::root::Root;
    use crate::files::shared_content::SharedContent;
    use crate::files::watcher::Watcher;
    use crate::http::parse;
    use crate::http::request::Head;
    use crate::http::response::{Response, Variant};
    use crate::io::clock::Clock;
    use crate::policy::client_peer::ClientPeer;
    use crate::site::{Share, Site};
    use proptest::prelude::*;
    use std::os::unix::fs::FileExt;
    use std::rc::Rc;
    use std::sync::Arc;

    /// A sink that has room for so many bytes.
    #[derive(Default)]
    struct Bucket {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Bucket {
        fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.room -= taken;
            self.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }
    }

    impl Sink for Bucket {
        fn send(&mut self, pieces: &[IoSlice<'_>], _more: bool) -> io::Result<usize> {
            self.take(&pieces.iter().flat_map(|piece| piece.iter().copied()).collect::<Vec<u8>>())
        }

        fn send_file(&mut self, file: &File, is_unchanged: &dyn Fn() -> bool, start: u64, len: u64) -> io::Result<u64> {
            assert!(is_unchanged());
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, start)?;
            Ok(self.take(&bytes)? as u64)
        }
    }

    fn peer() -> ClientPeer<'static> {
        ClientPeer {
            client: std::net::Ipv4Addr::LOCALHOST.into(),
            connection: 1,
            socket: None,
            is_secure: false,
            leased: None,
        }
    }

    fn respond(directory: &std::path::Path, memory_bytes_max: u64, head: &str) -> Exchange {
        let options = Options { cached_file_bytes_max: memory_bytes_max, ..Options::new(directory) };
        let root = Root::open_directory(directory).expect("opens");
        let watcher = Rc::new(Watcher::deaf());
        let share = Share {
            shared_content: Arc::new(SharedContent::new()),
            watcher,
            files_max: 4,
            hosts: HostLedger::default(),
            policy_client: None,
            challenges: Default::default(),
        };
        let mut site = Site::new(root, &options.site_kind(), &options.site_bounds(), &share);
        let Head::Complete(request, _) = parse::parse(head.as_bytes(), &options.limits) else { panic!("not a head") };
        let mut exchange = Exchange::default();
        let (clock, counters) = (Clock::new(), LoopCounters::default());
        let page = site.respond(&request, &peer(), Persistence::Stays, &clock, &counters, &mut exchange);
        assert!(page.is_none(), "no page with includes");
        exchange
    }

    fn source_of(exchange: &Exchange) -> Source {
        match &exchange.source {
            Source::Content(resource) => Source::Content(Rc::clone(resource)),
            Source::Head | Source::Stored(_) | Source::Application(_) => Source::Head,
        }
    }

    fn run(queue: &mut [Exchange], room: usize) -> Vec<u8> {
        let mut bucket = Bucket { room, ..Bucket::default() };
        let (outcome, taken) = flush(queue, &mut bucket);
        assert_eq!(taken, bucket.bytes.len() as u64);
        let finished = queue.iter().all(|exchange| exchange.response.is_finished());
        assert_eq!(outcome.expect("no error"), if finished { Sent::All } else { Sent::Blocked });
        bucket.bytes
    }

    #[test]
    fn an_unfinished_response_continues_elsewhere_to_the_byte() {
        let directory = tempfile::tempdir().expect("a directory");
        let content: Vec<u8> = (0..20_000_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(directory.path().join("f.bin"), &content).expect("writes");
        let heads = [
            "GET /f.bin HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /f.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=5-9000\r\n\r\n",
            "GET /f.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-99,5000-9999,-3\r\n\r\n",
            "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
        ];
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(head in proptest::sample::select(heads.to_vec()), cut in 0_usize..21_000, here in any::<bool>(), there in any::<bool>())| {
            let memory = |held: bool| if held { 1 << 20 } else { 0 };
            let mut begun = [respond(directory.path(), memory(here), head)];
            let stream = {
                let mut whole = [Exchange { response: begun[0].response.clone(), source: source_of(&begun[0]), ..Exchange::default() }];
                run(&mut whole, usize::MAX)
            };
            let mut bytes = run(&mut begun, cut);
            let carried = serde_json::to_vec(&begun[0].response).expect("serialises");
            drop(begun);
            let response: Response = serde_json::from_slice(&carried).expect("restores");
            // Elsewhere the content is found again by its identity.
            let file = File::open(directory.path().join("f.bin")).expect("opens");
            let of = Description { path: Box::default(), content_type: String::new(), own_coding: None, variant: Variant::Identity, varies: false, is_governed: false, asks_hints: false, now_s: 0 };
            let resource = Resource::load(file, &SharedContent::new(), memory(there), &of).expect("loads");
            prop_assert!(response.resource.is_none_or(|id| id == resource.id));
            let mut resumed = [Exchange { response, source: Source::Content(Rc::new(resource)), ..Exchange::default() }];
            bytes.extend(run(&mut resumed, usize::MAX));
            prop_assert!(bytes == stream);
        });
    }

    #[test]
    fn many_responses_in_small_steps_keep_their_order() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("f.bin"), vec![9; 3000]).expect("writes");
        let head = "GET /f.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9,20-2000\r\n\r\n";
        let mut queue: Vec<Exchange> = (0..40).map(|i| respond(directory.path(), (i % 2) << 20, head)).collect();
        let whole: Vec<u8> = queue
            .iter()
            .flat_map(|exchange| {
                let (response, source) = (exchange.response.clone(), source_of(exchange));
                run(&mut [Exchange { response, source, ..Exchange::default() }], usize::MAX)
            })
            .collect();
        let mut bytes = Vec::new();
        for _ in 0..whole.len() {
            bytes.extend(run(&mut queue, 777));
            if queue.iter().all(|exchange| exchange.response.is_finished()) {
                break;
            }
        }
        assert!(bytes == whole);
    }
}
