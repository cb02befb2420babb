//! Answers requests for files below one root.

mod absent;
mod asked;
pub(crate) mod assembly;
mod changes;
mod destination;
mod elsewhere;
mod elsewhere_file;
mod governed;
mod kept_listings;
pub(crate) mod kept_pages;
pub(crate) mod listing;
mod listings;
pub(crate) mod looked_up;
mod moved;
mod multipart;
mod part;
mod response;
pub(crate) mod settings;
mod slash;
mod state;
mod waits;
mod warm;
mod warming;

pub(crate) use part::Part;
pub(crate) use response::options;
pub(crate) use slash::redirect;
pub(crate) use state::{Share, Site};
