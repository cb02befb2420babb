//! A recording that goes on for ever: short windows with pauses between them, for as long as the server runs and longer.

mod forever;
mod judge;
mod mark;
mod pace;
mod room;
mod shelf;

pub use forever::{Forever, record};
pub use judge::{Alerts, FigureSink, Outlets};
