//! Keys of the members of etcd that a cluster runs itself. A certificate is for one address; it names no member of the
//! cluster, so that links refuse it, and etcd refuses all others for its members.

use super::authority::Authority;
use super::files::{self, IdentityError};
use super::key::MemberKey;
use super::pem::pem;
use crate::name::NodeName;
use rustls_pki_types::CertificateDer;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub(super) const CERTIFICATE: &str = "etcd.crt";
const KEY: &str = "etcd.key";
/// Which member of the cluster has etcd's certificate for which address, at the node with the authority.
pub(super) const ISSUED: &str = "issued-etcd";

/// The files of a member of etcd, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdKeys {
    /// The cluster's authority.
    pub authority: PathBuf,
    /// Its certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl EtcdKeys {
    /// The paths in a member's directory; whether the files are there is not looked at.
    #[must_use]
    pub fn of(directory: &Path) -> Self {
        Self {
            authority: directory.join(files::AUTHORITY_CERTIFICATE),
            certificate: directory.join(CERTIFICATE),
            key: directory.join(KEY),
        }
    }
}

impl Authority {
    /// Makes the keys of the first member of etcd, at an address of the node that has the authority.
    ///
    /// # Errors
    /// [`IdentityError`], if the address has a certificate already, or a file cannot be written.
    pub fn make_etcd_keys(
        &self,
        directory: &Path,
        member: &NodeName,
        address: IpAddr,
        now: SystemTime,
    ) -> Result<EtcdKeys, IdentityError> {
        let key = MemberKey::generate()?;
        let certificate = self.issue_etcd(address, &key.public(), now)?;
        enter(directory, member, address, &certificate)?;
        save(directory, &key, &certificate)
    }
}

/// Keeps the keys of a member of etcd.
pub(super) fn save(
    directory: &Path,
    key: &MemberKey,
    certificate: &CertificateDer<'_>,
) -> Result<EtcdKeys, IdentityError> {
    files::write_file(&directory.join(KEY), pem("PRIVATE KEY", key.pkcs8()).as_bytes())?;
    files::write_file(&directory.join(CERTIFICATE), pem("CERTIFICATE", certificate).as_bytes())?;
    Ok(EtcdKeys::of(directory))
}

/// Whether an address has a certificate already.
pub(super) fn is_issued(directory: &Path, address: IpAddr) -> bool {
    entry(directory, address).exists()
}

/// Enters the certificate of an address; of two that ask for one address only the first gets it.
pub(super) fn enter(
    directory: &Path,
    member: &NodeName,
    address: IpAddr,
    certificate: &CertificateDer<'_>,
) -> Result<(), IdentityError> {
    files::make_directory(&directory.join(ISSUED))?;
    let path = entry(directory, address);
    let text = format!("{member}\n{}", pem("CERTIFICATE", certificate).as_str());
    match files::create(&path, text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(IdentityError::EtcdTaken(address)),
        Err(source) => Err(IdentityError::File { path, source }),
        Ok(()) => Ok(()),
    }
}

fn entry(directory: &Path, address: IpAddr) -> PathBuf {
    directory.join(ISSUED).join(address.to_string())
}
