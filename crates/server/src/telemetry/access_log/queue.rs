//! What the loops hand to the thread that writes the log: a bounded queue of blocks, whose memory goes back to the
//! loops.
//!
//! The standard library's channel spins and yields before it sleeps: on a CPU that a loop and the writer share that
//! cost ten context switches for each block.

use crate::telemetry::access_log::block::Block;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Blocks on their way to the writer, of all loops.
const BLOCKS_MAX: usize = 16;

#[derive(Default)]
struct Blocks {
    full: VecDeque<Block>,
    /// Memory of blocks that were written.
    spare: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Queue {
    blocks: Mutex<Blocks>,
    /// Blocks have come, or the last sender has gone.
    has_come: Condvar,
    senders: AtomicUsize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Blocks> {
        // A thread that panicked with the lock held left whole blocks.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes both ends.
pub(super) fn queue() -> (Sender, Receiver) {
    let queue = Arc::new(Queue { senders: AtomicUsize::new(1), ..Queue::default() });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

/// A loop's end.
pub(super) struct Sender(Arc<Queue>);

impl Sender {
    /// Hands over a block for an empty one; where there is no room, or the writer is just taking one out, it comes
    /// back.
    pub(super) fn try_send(&self, block: Block) -> Result<Vec<u8>, Block> {
        let mut blocks = match self.0.blocks.try_lock() {
            Ok(blocks) => blocks,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(block),
        };
        if blocks.full.len() >= BLOCKS_MAX {
            return Err(block);
        }
        blocks.full.push_back(block);
        let spare = blocks.spare.pop().unwrap_or_default();
        drop(blocks);
        self.0.has_come.notify_one();
        Ok(spare)
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Its blocks were handed over before.
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            // If the writer has read the count and does not sleep yet, it has the lock.
            drop(self.0.lock());
            self.0.has_come.notify_all();
        }
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

/// Why there is no block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nothing {
    /// None has come so far.
    Yet,
    /// None will come any more.
    More,
}

/// The writer's end.
pub(super) struct Receiver(Arc<Queue>);

impl Receiver {
    /// The next block, waiting at most so long.
    pub(super) fn receive(&self, patience: Duration) -> Result<Block, Nothing> {
        let deadline = Instant::now() + patience;
        let mut blocks = self.0.lock();
        loop {
            if let Some(block) = blocks.full.pop_front() {
                return Ok(block);
            }
            if self.0.senders.load(Ordering::Acquire) == 0 {
                return Err(Nothing::More);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Nothing::Yet);
            }
            let waited = self.0.has_come.wait_timeout(blocks, left);
            blocks = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives the memory of a block that was written to the loops.
    pub(super) fn give_back(&self, mut text: Vec<u8>) {
        text.clear();
        let mut blocks = self.0.lock();
        // A block that grew while the writer was behind goes.
        if text.capacity() <= crate::telemetry::access_log::block::KEPT_AFTER_MAX && blocks.spare.len() < BLOCKS_MAX {
            blocks.spare.push(text);
        }
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> Block {
        Block { text: number.to_string().into_bytes(), lines: number }
    }

    #[test]
    fn blocks_come_in_their_order_until_the_last_sender_has_gone() {
        let (sender, receiver) = queue();
        let thread = std::thread::spawn(move || {
            let mut lines = Vec::new();
            loop {
                match receiver.receive(Duration::from_secs(10)) {
                    Ok(block) => {
                        lines.push(block.lines);
                        receiver.give_back(block.text);
                    }
                    Err(nothing) => return (lines, nothing),
                }
            }
        });
        let second = sender.clone();
        for number in 0..1000 {
            let mut back = Err(block(number));
            while let Err(block) = back {
                back = [&sender, &second][number as usize % 2].try_send(block);
            }
            assert!(back.is_ok_and(|spare| spare.is_empty()), "an empty one comes back");
        }
        drop((sender, second));
        let (lines, nothing) = thread.join().expect("it ends");
        assert_eq!((lines, nothing), ((0..1000).collect(), Nothing::More));
    }

    #[test]
    fn no_more_than_its_bound_are_kept_and_no_sender_waits_for_room() {
        let (sender, receiver) = queue();
        let kept = (0..100).filter(|&number| sender.try_send(block(number)).is_ok()).count();
        assert_eq!(kept, BLOCKS_MAX);
        for _ in 0..kept {
            receiver.receive(Duration::ZERO).expect("one of them");
        }
        assert_eq!(receiver.receive(Duration::from_millis(1)).err(), Some(Nothing::Yet));
    }
}
