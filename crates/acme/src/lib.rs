//! Certificates by ACME (RFC 8555), as Let's Encrypt and others issue them: a blocking client, the directory that keeps
//! what it obtains, and the manager that decides what is due.
//!
//! | module | what it does |
//! |---|---|
//! | `jws` | the account's key, and what it signs (RFC 7515, RFC 7638) |
//! | `message` | what the authority sends, as JSON |
//! | `http` | bounded requests over TLS |
//! | `client` | nonces, the account, orders, challenges, the chain |
//! | `certificate` | keys, certificate requests, the certificate of TLS-ALPN-01 (RFC 8737) |
//! | `x509` | until when a certificate is valid, and its identifier for ARI (RFC 9773) |
//! | `storage` | the directory on disk |
//! | `schedule` | when something is due, without a clock |
//! | `manager` | puts them together |
//!
//! The client speaks to one authority, and proves control of one name for each certificate by HTTP-01 or TLS-ALPN-01.
//! The caller answers these challenges: see [`Answers`].
//!
//! # Bounds
//!
//! Each request ends within 30 seconds, each response is cut at 256 KiB, and an order is given up after 5 minutes.
//! After a failure a name waits for a minute, which doubles with each further one up to a day; the state on disk keeps
//! that over restarts.

mod answers;
mod certificate;
mod client;
mod error;
mod http;
mod jws;
mod manager;
mod message;
mod schedule;
mod settings;
mod storage;
mod x509;

pub use answers::Answers;
pub use certificate::ChallengeCertificate;
pub use error::AcmeError;
pub use manager::{HostState, HostStatus, Manager};
pub use message::{Problem, read_any as read_any_message};
pub use settings::{ChallengeKind, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, Settings};
pub use storage::certificate_file;
pub use x509::Validity;
