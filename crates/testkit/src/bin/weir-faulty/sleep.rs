//! Requests wait for a timer: all of them, or one of so many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::Work;
use crate::{blocking, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let length: Duration = options.millis("ms", 5)?;
    let poll = options.flag("poll")?;
    let each = options.number("each")?.unwrap_or(1);
    if each == 0 {
        return Err(Failure::Usage("--each must be above 0".to_owned()));
    }
    let listener = options.listen()?;
    // Counted over all connections, so that the share of all requests is exact.
    let served = Arc::new(AtomicU64::new(0));
    blocking::serve(&listener, move || {
        let served = Arc::clone(&served);
        move |request: &_| {
            let number = served.fetch_add(1, Ordering::Relaxed) + 1;
            if !number.is_multiple_of(each) {
                return http::ok(request);
            }
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
