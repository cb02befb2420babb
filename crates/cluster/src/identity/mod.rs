//! What a member is known by: the cluster's authority, a key and a certificate of each member, and the way to get them.

mod authority;
mod certificate;
mod etcd;
mod files;
mod fingerprint;
mod join;
mod key;
mod pem;
mod renewal;
mod secret;
mod token;

pub use authority::{Authority, ETCD_COMMON_NAME};
pub use certificate::{REVOKED, RevocationList, Validity, read_any_certificate};
pub use etcd::EtcdKeys;
pub use files::authority_validity;
pub(crate) use files::certificate_of;
pub use files::{Identity, IdentityError};
pub(crate) use files::{
    is_authority, keep_revoked, keep_revoked_members, keep_secret, load_revoked, load_secret, member_of,
    revoked_members,
};
pub use join::{Admission, EtcdSeat, JoinError, Joined, Joining, SigningRequest, join};
pub use key::{KeyError, MemberKey, PublicKey};
pub use renewal::Renewed;
pub(crate) use renewal::keep_renewed;
pub use secret::ClusterSecret;
pub use token::{Token, TokenError, Tokens};
