//! No fault: what a measurement shows without one.

use std::thread;

use crate::options::{Failure, Options};
use crate::{event, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let threads = options.number("threads")?.unwrap_or(2).clamp(1, 64);
    let listener = options.listen()?;
    thread::scope(|scope| {
        // The last one is this thread.
        for _ in 1..threads {
            scope.spawn(|| event::serve(&listener, || (), http::ok));
        }
        event::serve(&listener, || (), http::ok)
    })?;
    Ok(())
}
