//! Requests wait for a lock that another thread holds most of the time.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::options::{Failure, Options};
use crate::work::{monotonic, set_name, sleep_until};
use crate::{blocking, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let hold = options.millis("hold-ms", 20)?;
    let gap = options.millis("gap-ms", 5)?;
    let listener = options.listen()?;
    let lock = Arc::new(Mutex::new(0_u64));

    let held = Arc::clone(&lock);
    thread::spawn(move || {
        set_name(c"weir-lock");
        let mut next = monotonic();
        loop {
            let guard = held.lock().unwrap_or_else(PoisonError::into_inner);
            sleep_until(monotonic().max(next + hold));
            drop(guard);
            next = monotonic() + gap;
            sleep_until(next);
        }
    });

    blocking::serve(&listener, move || {
        let lock = Arc::clone(&lock);
        move |request: &_| {
            // What is guarded takes no time: all of the delay is the other thread's.
            *lock.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            http::ok(request)
        }
    })?;
    Ok(())
}
