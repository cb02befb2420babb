//! Mistakes in files that people write: where one stands, what is wrong, what would be right.

mod mistake;

pub use mistake::Mistake;
