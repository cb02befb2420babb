//! Samples that are given away while the run goes on.

use crate::Observer;
use crate::samples::sample::{Context, Sample, part};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use weir_wire::client::ClientRequest;
use weir_wire::{Consumer, Producer, Record};

/// Slots of a ring that a sample takes: an empty record and two more.
const SLOTS: usize = 3;

/// Observers, one for each thread, that give samples away while the run goes on; at most about `most` wait to be taken.
///
/// A sample that finds no room is lost and counted: the load never waits for the code that takes them.
#[must_use]
pub fn stream(threads: u32, most: usize) -> (Vec<Box<dyn Observer>>, Stream) {
    let goes_on = Arc::new(());
    let (mut observers, mut lanes) = (Vec::new(), Vec::new());
    for lane in 0..threads {
        let (producer, consumer) = weir_wire::ring(part(most, lane, threads).max(1) * SLOTS);
        let context = Context::default();
        observers.push(Box::new(Giver { context, producer, _goes_on: Arc::clone(&goes_on) }) as Box<dyn Observer>);
        lanes.push(consumer);
    }
    (observers, Stream { goes_on, lanes, next: 0 })
}

/// Where samples are taken from while the run goes on.
#[derive(Debug)]
pub struct Stream {
    /// Held by each observer, too.
    goes_on: Arc<()>,
    lanes: Vec<Consumer>,
    next: usize,
}

impl Stream {
    /// Gives up to `most` samples that are there to `each`, those of a thread in the order in which they ended; returns
    /// how many, and never waits.
    pub fn take(&mut self, most: usize, mut each: impl FnMut(Sample)) -> usize {
        let mut taken = 0;
        for _ in 0..self.lanes.len() {
            let lane = self.next;
            self.next = (lane + 1) % self.lanes.len();
            taken += self.lanes[lane].drain(most - taken, |_, slots| {
                if let Some(sample) = Sample::from_slots(slots) {
                    each(sample);
                }
            });
            if taken == most {
                break;
            }
        }
        taken
    }

    /// Samples that were lost so far because too many waited.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lanes.iter().map(Consumer::dropped).sum()
    }

    /// Whether no more will come than are there: the run is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // Observers give it up after their last sample.
        let is_over = Arc::strong_count(&self.goes_on) == 1;
        // What they wrote before that is seen from here on.
        fence(Ordering::Acquire);
        is_over
    }
}

/// Gives the samples of one thread away.
struct Giver {
    context: Context,
    producer: Producer,
    _goes_on: Arc<()>,
}

impl Observer for Giver {
    fn begins(&mut self, at_ns: u64) {
        self.context.begin_ns = at_ns;
    }

    fn connected(&mut self, connection: u64, begin_ns: u64, ready_ns: u64) {
        self.context.connected(connection, begin_ns, ready_ns);
    }

    fn closes(&mut self, connection: u64) {
        self.context.closes(connection);
    }

    fn request(&mut self, request: &ClientRequest) {
        // What finds no room is counted by the ring.
        self.producer.push(Record::default(), &self.context.sample(request).to_slots());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample::tests::request;

    #[test]
    fn a_stream_has_a_bound_and_counts_what_is_lost() {
        // The ring has room for ten: its slots are a power of two.
        let (mut observers, mut stream) = stream(1, 8);
        observers[0].begins(500);
        for number in 0..12 {
            observers[0].request(&request(1000 + number));
        }
        let mut taken = Vec::new();
        assert_eq!((stream.take(3, |sample| taken.push(sample)), stream.lost(), stream.is_over()), (3, 2, false));
        drop(observers);
        assert!(stream.is_over());
        assert_eq!((stream.take(100, |sample| taken.push(sample)), stream.take(100, |_| ())), (7, 0));
        let starts: Vec<_> = taken.iter().map(|sample| sample.start_ns).collect();
        assert_eq!(starts, (510..520).collect::<Vec<_>>());
    }
}
