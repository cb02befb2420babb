//! What a request is, where it goes, and the files that list many.

pub mod access_log;
pub(crate) mod alias;
pub(crate) mod base64;
pub mod cookies;
pub mod grpc_status;
pub mod host;
pub(crate) mod listed;
mod nul_list;
pub(crate) mod piece;
mod request;
mod scope;
mod statuses;
pub(crate) mod traceparent;
pub(crate) mod url;
mod url_file;
mod url_list;

pub use listed::{ListedRequest, Order};
pub use nul_list::{NulListError, parse_server_list, parse_uri_log};
pub use request::{Request, Version};
pub(crate) use scope::SCOPES_MAX;
pub use scope::{Scope, ScopeError};
pub(crate) use statuses::STATUS_CODES;
pub use statuses::{Statuses, StatusesError};
pub use url::{Url, UrlError};
pub use url_file::{UrlFileError, parse_url_file};
pub use url_list::{UrlListError, UrlListProblem, parse_url_list};
