//! Subscribers of transactions: each has a bounded queue, and the agent never waits for one.

use crate::protocol::Filter;
use crate::transaction::Transaction;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The queue between the agent and a subscriber.
#[derive(Debug)]
struct Queue {
    waiting: Mutex<VecDeque<Arc<Transaction>>>,
    came: Condvar,
    most: usize,
    missed: AtomicU64,
    /// One of both has gone.
    ended: AtomicBool,
}

/// The agent's end.
#[derive(Debug)]
pub struct Subscriber {
    filter: Filter,
    queue: Arc<Queue>,
}

impl Subscriber {
    /// Hands over what fits the filter; returns how many were missed, `None` = the other end has gone.
    pub fn give(&self, transactions: &[Arc<Transaction>]) -> Option<u64> {
        if self.queue.ended.load(Ordering::Relaxed) {
            return None;
        }
        let mut missed = 0;
        let mut waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for transaction in transactions.iter().filter(|transaction| self.filter.wants(transaction)) {
            if waiting.len() < self.queue.most {
                waiting.push_back(Arc::clone(transaction));
            } else {
                missed += 1;
            }
        }
        drop(waiting);
        self.queue.missed.fetch_add(missed, Ordering::Relaxed);
        self.queue.came.notify_one();
        Some(missed)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.queue.ended.store(true, Ordering::Relaxed);
        self.queue.came.notify_one();
    }
}

/// The subscriber's end of the queue; dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
}

impl Subscription {
    /// Both ends of a new queue for so many transactions.
    #[must_use]
    pub fn new(filter: Filter, most: usize) -> (Subscriber, Self) {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            came: Condvar::new(),
            most,
            missed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        (Subscriber { filter, queue: Arc::clone(&queue) }, Self { queue })
    }

    /// What has come, all of it; waits so long if nothing has.
    #[must_use]
    pub fn take(&self, most_wait: Duration) -> Vec<Arc<Transaction>> {
        let waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |waiting: &mut VecDeque<_>| waiting.is_empty() && !self.queue.ended.load(Ordering::Relaxed);
        let waited = self.queue.came.wait_timeout_while(waiting, most_wait, idle);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.drain(..).collect()
    }

    /// How many found no room since this was last asked.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.queue.missed.swap(0, Ordering::Relaxed)
    }

    /// The agent has ended: nothing more comes.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.queue.ended.load(Ordering::Relaxed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.queue.ended.store(true, Ordering::Relaxed);
    }
}
