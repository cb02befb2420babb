//! What a member is known by: the cluster's authority, a key and a certificate of each member, and the way to get them.

mod authority;
mod etcd;
mod files;
mod fingerprint;
mod join;
mod key;
mod pem;
mod secret;
mod token;

pub use authority::{Authority, ETCD_COMMON_NAME};
pub use etcd::EtcdKeys;
pub(crate) use files::member_of;
pub use files::{Identity, IdentityError};
pub use join::{Admission, EtcdSeat, JoinError, Joined, Joining, SigningRequest, join};
pub use key::{KeyError, MemberKey, PublicKey};
pub use secret::ClusterSecret;
pub use token::{Token, TokenError, Tokens};
