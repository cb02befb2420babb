//! Samples that are kept until the run is over.

use crate::Observer;
use crate::samples::sample::{Context, Sample, part};
use std::sync::mpsc::{Receiver, Sender, channel};
use weir_wire::client::ClientRequest;

/// Where the random choice among more samples than may be kept begins.
const SEED: u64 = 1;

/// Observers, one for each thread, that keep samples; together at most `most` of them.
///
/// Where there are more requests, those that are kept are drawn: each request of a thread has the same chance, so the
/// kept ones tell the same of the whole run.
#[must_use]
pub fn keep(threads: u32, most: usize) -> (Vec<Box<dyn Observer>>, Kept) {
    let (sender, receiver) = channel();
    let observers = (0..threads).map(|lane| {
        Box::new(Keeper {
            context: Context::default(),
            most: part(most, lane, threads),
            seen: 0,
            samples: Vec::new(),
            random: fastrand::Rng::with_seed(SEED + u64::from(lane)),
            sender: sender.clone(),
        }) as Box<dyn Observer>
    });
    (observers.collect(), Kept { receiver })
}

/// Where kept samples are taken from when the run is over.
#[derive(Debug)]
pub struct Kept {
    receiver: Receiver<(Vec<Sample>, u64)>,
}

impl Kept {
    /// The samples in the order in which the requests began, and how many more requests there were.
    ///
    /// Before the run is over there are none.
    #[must_use]
    pub fn take(self) -> (Vec<Sample>, u64) {
        let (mut samples, mut left_out) = (Vec::new(), 0);
        for (own, seen) in self.receiver.try_iter() {
            left_out += seen - own.len() as u64;
            if samples.is_empty() {
                samples = own;
            } else {
                samples.extend(own);
            }
        }
        samples.sort_by_key(|sample| sample.start_ns);
        (samples, left_out)
    }
}

/// Keeps the samples of one thread, and hands them over when it ends.
struct Keeper {
    context: Context,
    most: usize,
    seen: u64,
    samples: Vec<Sample>,
    random: fastrand::Rng,
    sender: Sender<(Vec<Sample>, u64)>,
}

impl Observer for Keeper {
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
        self.seen += 1;
        if self.samples.len() < self.most {
            self.samples.push(self.context.sample(request));
            return;
        }
        // The n-th is kept with probability most/n, in the place of any other.
        let place = self.random.u64(0..self.seen) as usize;
        if let Some(kept) = self.samples.get_mut(place) {
            *kept = self.context.sample(request);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // If the receiver is gone, the samples are not wanted, and are lost.
        let _ = self.sender.send((std::mem::take(&mut self.samples), self.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample::tests::request;

    #[test]
    fn more_than_may_be_kept_are_drawn_evenly() {
        let (mut observers, kept) = keep(2, 1000);
        for observer in &mut observers {
            observer.begins(0);
            for number in 0..100_000 {
                observer.request(&request(number));
            }
        }
        drop(observers);
        let (samples, left_out) = kept.take();
        assert_eq!((samples.len(), left_out), (1000, 199_000));
        assert!(samples.is_sorted_by_key(|sample| sample.start_ns));
        // Starts are uniform in 0..100000: the mean's standard error is 100000/sqrt(12 * 1000) = 913; five of them.
        let mean = samples.iter().map(|sample| sample.start_ns as f64).sum::<f64>() / 1000.0;
        assert!((mean - 50_010.0).abs() < 4565.0, "{mean}");
    }
}
