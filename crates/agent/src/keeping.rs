//! The thread that hands batches to the keeper: a slow or failing keeper does not hold up the agent.

use crate::journal;
use crate::keeper::{Batch, Found, KeepError, Keeper, Sought};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Batches that wait; beyond, the oldest is given up.
const MOST_WAITING: usize = 60;
/// Questions that wait.
const MOST_QUESTIONS: usize = 16;
const AGAIN_AFTER: Duration = Duration::from_secs(1);

struct Question {
    sought: Sought,
    most: usize,
    answer: Sender<Result<Found, KeepError>>,
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    questions: VecDeque<Question>,
    ending: bool,
    given_up: u64,
    /// Why the last attempt did not work.
    error: Option<KeepError>,
}

struct Queue {
    waiting: Mutex<Waiting>,
    came: Condvar,
}

impl Queue {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the keeper.
#[derive(Clone)]
pub(crate) struct KeptBy(Arc<Queue>);

impl KeptBy {
    /// Exemplars that are kept; the answer comes later. `None` = too many questions wait.
    pub(crate) fn find(&self, sought: Sought, most: usize) -> Option<Receiver<Result<Found, KeepError>>> {
        let (answer, answered) = channel();
        let mut waiting = self.0.waiting();
        if waiting.questions.len() >= MOST_QUESTIONS || waiting.ending {
            return None;
        }
        waiting.questions.push_back(Question { sought, most, answer });
        drop(waiting);
        self.0.came.notify_one();
        Some(answered)
    }
}

/// The thread, from the agent's side.
pub(crate) struct Keeping {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Keeping {
    /// Starts it; journals of batches that are kept are removed from the folder.
    pub(crate) fn start(keeper: Box<dyn Keeper>, journals: Option<PathBuf>) -> std::io::Result<Self> {
        let queue = Arc::new(Queue { waiting: Mutex::default(), came: Condvar::new() });
        let own = Arc::clone(&queue);
        let run = move || run(&own, keeper, journals.as_deref());
        let thread = std::thread::Builder::new().name("arm-keeper".to_owned()).spawn(run)?;
        Ok(Self { queue, thread: Some(thread) })
    }

    pub(crate) fn asker(&self) -> KeptBy {
        KeptBy(Arc::clone(&self.queue))
    }

    /// Hands over a batch; returns the number of one that was given up for it.
    pub(crate) fn keep(&self, batch: Batch) -> Option<u64> {
        let mut waiting = self.queue.waiting();
        waiting.batches.push_back(batch);
        // The first may be in work; what it is given up for comes behind it.
        let given_up = (waiting.batches.len() > MOST_WAITING).then(|| waiting.batches.remove(1)).flatten();
        waiting.given_up += u64::from(given_up.is_some());
        drop(waiting);
        self.queue.came.notify_one();
        given_up.map(|batch| batch.number)
    }

    /// Why the last attempt to keep did not work.
    pub(crate) fn error(&self) -> Option<KeepError> {
        self.queue.waiting().error.clone()
    }

    /// Keeps what waits, if it can be kept, and ends.
    pub(crate) fn end(&mut self) {
        self.queue.waiting().ending = true;
        self.queue.came.notify_one();
        if let Some(thread) = self.thread.take() {
            // A keeper that panicked has kept nothing more; the journal has what it did not.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(queue: &Queue, mut keeper: Box<dyn Keeper>, journals: Option<&std::path::Path>) {
    loop {
        let idle = |waiting: &mut Waiting| {
            !waiting.ending && waiting.questions.is_empty() && (waiting.batches.is_empty() || waiting.error.is_some())
        };
        let waited = queue.came.wait_timeout_while(queue.waiting(), AGAIN_AFTER, idle);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let questions = std::mem::take(&mut waiting.questions);
        let batch = waiting.batches.pop_front();
        let ending = waiting.ending;
        drop(waiting);
        for question in questions {
            // The caller may have gone.
            let _ = question.answer.send(keeper.find(&question.sought, question.most));
        }
        let Some(batch) = batch else {
            if ending {
                return;
            }
            continue;
        };
        let kept = keeper.keep(&batch);
        if let (Ok(()), Some(folder)) = (&kept, journals) {
            journal::remove(folder, batch.number);
        }
        let mut waiting = queue.waiting();
        waiting.error = kept.err();
        if waiting.error.is_some() {
            waiting.batches.push_front(batch);
            if ending {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Wanted;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    /// Keeps numbers, unless it is broken.
    struct Notes {
        kept: Arc<Mutex<Vec<u64>>>,
        broken: Arc<AtomicBool>,
    }

    impl Keeper for Notes {
        fn last_batch(&mut self) -> Result<u64, KeepError> {
            Ok(0)
        }

        fn keep(&mut self, batch: &Batch) -> Result<(), KeepError> {
            if self.broken.load(Ordering::SeqCst) {
                return Err(KeepError("the disk is full".to_owned()));
            }
            self.kept.lock().expect("whole").push(batch.number);
            Ok(())
        }

        fn find(&mut self, _: &Sought, _: usize) -> Result<Found, KeepError> {
            Ok(Found::default())
        }
    }

    fn wait_for(what: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(Instant::now() < until, "it does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_cannot_be_kept_now_is_kept_later_in_order_and_the_oldest_are_given_up() {
        let (kept, broken) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(true)));
        let notes = Notes { kept: Arc::clone(&kept), broken: Arc::clone(&broken) };
        let mut keeping = Keeping::start(Box::new(notes), None).expect("a thread");
        let batch = |number| Batch { number, ..Batch::default() };
        assert_eq!(keeping.keep(batch(1)), None);
        wait_for(|| keeping.error().is_some());
        // Questions are answered meanwhile.
        let answer = keeping.asker().find(Sought::Related(Wanted::Span(1)), 1).expect("room");
        assert_eq!(answer.recv_timeout(Duration::from_secs(10)).expect("an answer"), Ok(Found::default()));
        let given_up: Vec<u64> =
            (2..=MOST_WAITING as u64 + 3).filter_map(|number| keeping.keep(batch(number))).collect();
        assert!((1..=3).contains(&given_up.len()), "{given_up:?}");
        broken.store(false, Ordering::SeqCst);
        keeping.end();
        let kept = kept.lock().expect("whole").clone();
        let expected: Vec<u64> = (1..=MOST_WAITING as u64 + 3).filter(|number| !given_up.contains(number)).collect();
        assert_eq!(kept, expected);
    }
}
