//! Why a script is stopped in the middle.

use rquickjs::{Ctx, Error, Exception, qjs};
use std::time::Duration;

/// Why a script does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Its time is over: the engine cuts the iteration.
    Ends,
    /// It computed longer than it may without waiting for anything.
    TooLong(Duration),
    /// It ended the run by `exec.test.abort()`.
    Abort(String),
}

impl Cut {
    /// Throws what no `catch` of the script takes.
    pub(super) fn throw(ctx: &Ctx<'_>) -> Error {
        match Exception::from_message(ctx.clone(), "interrupted") {
            Ok(exception) => {
                let value = exception.into_object().into_value();
                // SAFETY: the value belongs to this context and lives over the call.
                unsafe { qjs::JS_SetUncatchableError(ctx.as_raw().as_ptr(), value.as_raw()) };
                ctx.throw(value)
            }
            Err(error) => error,
        }
    }
}
