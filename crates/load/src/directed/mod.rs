//! Requests that a director outside the loop decides on: what is asked next, over which connection, and when.
//!
//! A [`Director`] is a state machine without clock and socket. The loop tells it what happens on its links (places for a
//! connection, by number) and carries out its [`Orders`]. It takes time from the loop, so it is for loads whose next
//! request depends on what came before: sessions over several connections, embedded objects of a page.

pub(crate) mod director;
pub(crate) mod ways;

pub use director::{Directed, Director, LINKS_MAX, Orders};
pub use ways::{Way, Ways};
