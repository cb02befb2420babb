//! Requests wait for a timer.

use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::Work;
use crate::{blocking, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let length: Duration = options.millis("ms", 5)?;
    let listener = options.listen()?;
    blocking::serve(&listener, move || {
        move |request: &_| {
            Work::Sleep(length).run();
            http::ok(request)
        }
    })?;
    Ok(())
}
