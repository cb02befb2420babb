//! What HTTP means in all its versions: requests, responses, fields, ranges, codings, targets. No socket, no file.

pub(crate) mod access;
pub(crate) mod authority;
pub(crate) mod basic_user;
pub(crate) mod client_address;
pub(crate) mod client_certificate;
pub(crate) mod client_hints;
pub(crate) mod coding;
pub(crate) mod field_lines;
pub(crate) mod fields;
pub(crate) mod frames;
pub(crate) mod framing;
mod higher_version;
pub(crate) mod limits;
pub(crate) mod list_fields;
pub(crate) mod media_type;
pub(crate) mod parse;
pub(crate) mod pattern;
pub(crate) mod preface;
pub(crate) mod proxy_protocol;
pub(crate) mod query;
pub(crate) mod range;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod target;
