//! Which node keeps which content: a function of the published versions, the popularity that is gossiped, the living
//! nodes with their budgets, the wishes of policies, and the epoch. Each node computes it alike.
//!
//! - `catalogue.rs` is what is published: contents by digest, with the paths that lead to them and how often they are
//!   asked for.
//! - `level.rs` puts rates into steps.
//! - `wishes.rs` is what policies want of it.
//! - `place.rs` places: the copies that each content has in any case by consistent hashing, and further ones of what is
//!   popular, in the order of `weir plan`'s policy `top`.
//!
//! Nothing here has a clock, a socket or a file.

mod catalogue;
mod level;
mod place;
mod wishes;

pub use catalogue::{Catalogue, Content, ContentDigest, Published};
pub use level::level_of;
pub use place::{Placement, PlacementInputs, PlacementNode, PlacementSettings, Short, place};
pub use wishes::{Copies, Fits, Wishes};
