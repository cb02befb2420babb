//! Mistakes in how a load was asked for.

/// A mistake in how the command was called: exit status 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Usage {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}
