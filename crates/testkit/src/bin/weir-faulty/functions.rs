//! Each request burns a known share of its time in each of two functions: what sampled stacks must tell.

use std::hint::black_box;
use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::Work;
use crate::{event, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let (hot, warm) = (options.millis("hot-ms", 6)?, options.millis("warm-ms", 2)?);
    let listener = options.listen()?;
    event::serve(
        &listener,
        || (),
        |request| {
            hot_function(hot);
            warm_function(warm);
            http::ok(request)
        },
    )?;
    Ok(())
}

#[inline(never)]
fn hot_function(length: Duration) {
    Work::Burn(length).run();
    // Something is left to be done, so that the call is one and no jump.
    black_box(&length);
}

#[inline(never)]
fn warm_function(length: Duration) {
    Work::Burn(length).run();
    // Other words, else the two would be merged to one.
    black_box(length.as_nanos());
}
