//! Mistakes in files that people write: where one stands, what is wrong, what would be right, and which word was meant.

mod mistake;
mod nearest;

pub use mistake::Mistake;
pub use nearest::nearest;
