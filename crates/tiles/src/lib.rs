//! A whole run in tiles, for views that zoom from minutes to single events.
//!
//! A *tile* is 1024 buckets of time of one width, a lane for each CPU and each task ([`Tile`]).
//! Level 0 is computed once for the whole run in one pass and kept with the levels above it, each of which is four
//! times as coarse ([`RunTiles::open`]); what lies below is computed from the segments when it is asked for, up to
//! single events ([`RunTiles::tile`]).
//! This crate knows neither how tiles are shown nor how they travel.

mod build;
mod error;
mod exact;
mod files;
mod follow;
mod lane;
mod locks;
mod place;
mod requests;
mod run_tiles;
mod tile;

pub use error::OpenError;
pub use exact::ExactTile;
pub use follow::{Doing, Follow, Sink};
pub use lane::{Entry, Lane, LaneBuilder};
pub use requests::{Slow, SlowStep};
pub use run_tiles::{RunTiles, TileError};
pub use tile::{BUCKETS, FINER, Tile};
