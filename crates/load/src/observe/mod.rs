//! Those who look at a run while it goes on.

mod observer;
mod secured;

pub use observer::Observer;
pub use secured::Secured;
