//! Requests wait behind a slow one in the only worker.

use crate::options::{Failure, Options};
use crate::work::Work;
use crate::{event, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let length = options.millis("ms", 20)?;
    let work = Work::new(length, options.flag("sleep")?);
    let listener = options.listen()?;
    event::serve(
        &listener,
        || (),
        |request| {
            if request.path == "/slow" {
                work.run();
            }
            http::ok(request)
        },
    )?;
    Ok(())
}
