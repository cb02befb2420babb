//! Requests wait for a timer.

use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::Work;
use crate::{blocking, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let length: Duration = options.millis("ms", 5)?;
    let poll = options.flag("poll")?;
    let listener = options.listen()?;
    blocking::serve(&listener, move || {
        move |request: &_| {
            if poll {
                // SAFETY: no descriptors, so that only the time-out ends it.
                unsafe { libc::poll(std::ptr::null_mut(), 0, length.as_millis() as libc::c_int) };
            } else {
                Work::Sleep(length).run();
            }
            http::ok(request)
        }
    })?;
    Ok(())
}
