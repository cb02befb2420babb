//! A scenario before it is written: users, steps, and texts with places for values.

mod address;
mod multipart;
mod plan;
mod text;
mod toml;

pub(crate) use address::Address;
pub(crate) use multipart::{Field, multipart, urlencoded};
pub(crate) use plan::{Ask, Body, Choice, Data, Does, Group, Plan, Step, Take};
pub(crate) use text::{Part, Text, name_of};
pub(crate) use toml::written;
pub(crate) use weir_scenario::form::encode as encoded;
