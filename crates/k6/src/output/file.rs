//! A file that is written in a thread of its own.

use super::form::Output;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The bytes that are handed over at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// Blocks that may wait to be written: 16 MiB.
const BLOCKS_MAX: usize = 256;
/// How long a value waits at most before it is handed over, if others follow.
const HELD_MAX: Duration = Duration::from_millis(200);

/// The thread that writes a file.
#[derive(Debug)]
pub(crate) struct Writing {
    name: String,
    dropped: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<()>>,
}

/// Where values go.
#[derive(Debug)]
pub(super) struct Sender {
    blocks: SyncSender<Vec<u8>>,
    block: Vec<u8>,
    /// Values in it.
    held: u64,
    since: Instant,
    dropped: Arc<AtomicU64>,
}

/// Opens a file, with what stands at its beginning, and the thread that writes it.
pub(super) fn writing(output: &Output, begin: Vec<u8>) -> io::Result<(Sender, Writing)> {
    let (blocks, received) = sync_channel(BLOCKS_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    let is_packed = output.file.as_ref().is_some_and(|file| file.extension().is_some_and(|ending| ending == "gz"));
    let file: Box<dyn Write + Send> = match &output.file {
        None => Box::new(io::stdout()),
        Some(path) => Box::new(File::create(path)?),
    };
    let thread = std::thread::Builder::new().name("weir-k6-out".to_owned()).spawn(move || match is_packed {
        true => {
            let mut packed = GzEncoder::new(file, Compression::default());
            write_all(&received, &mut packed)?;
            packed.finish()?.flush()
        }
        false => {
            let mut file = file;
            write_all(&received, &mut file)
        }
    })?;
    let sender = Sender { blocks, block: begin, held: 0, since: Instant::now(), dropped: Arc::clone(&dropped) };
    Ok((sender, Writing { name: output.name(), dropped, thread }))
}

fn write_all(blocks: &Receiver<Vec<u8>>, file: &mut dyn Write) -> io::Result<()> {
    for block in blocks {
        file.write_all(&block)?;
    }
    file.flush()
}

impl Sender {
    /// Adds a value, which `write` writes down.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.block);
        self.held += 1;
        if self.block.len() >= BLOCK_BYTES || self.since.elapsed() >= HELD_MAX {
            let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK_BYTES));
            let held = std::mem::take(&mut self.held);
            self.since = Instant::now();
            // Users must not wait for the disk. A thread that ended tells why itself.
            if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.blocks.try_send(block) {
                self.dropped.fetch_add(held, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The run is over: there is time now. A thread that ended tells why itself.
        if self.blocks.send(std::mem::take(&mut self.block)).is_err() {
            self.dropped.fetch_add(self.held, Ordering::Relaxed);
        }
    }
}

impl Writing {
    /// Waits until all is written; what went wrong, in words.
    pub(crate) fn end(self) -> Option<String> {
        let written = self.thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread ended")));
        let dropped = self.dropped.load(Ordering::Relaxed);
        match written {
            Err(wrong) => Some(format!("{} is not whole: {wrong}; {dropped} values are missing at least", self.name)),
            Ok(()) if dropped > 0 => {
                Some(format!("{} lacks {dropped} values, which came faster than it could be written", self.name))
            }
            Ok(()) => None,
        }
    }
}
