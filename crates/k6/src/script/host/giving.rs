//! How functions are given to scripts, and errors thrown at them.

/// A function of the host.
macro_rules! give {
    ($ctx:expr, $host:expr, $name:literal, $function:expr) => {
        $host.set($name, rquickjs::Function::new($ctx.clone(), $function)?)?
    };
}
pub(super) use give;

/// Throws what is wrong at the script.
pub(super) fn thrown(ctx: &rquickjs::Ctx<'_>, words: impl std::fmt::Display) -> rquickjs::Error {
    rquickjs::Exception::throw_message(ctx, &words.to_string())
}
