//! The authority of a cluster, which signs the certificates of its members.

use super::files::{self, Identity, IdentityError};
use super::key::{KeyError, MemberKey, PublicKey};
use super::secret::ClusterSecret;
use crate::name::{Member, NodeName, Role};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, PublicKeyData, SerialNumber,
};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustls_pki_types::CertificateDer;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The common name in the certificate of each member of etcd, which the others ask for.
pub const ETCD_COMMON_NAME: &str = "weir-etcd";
/// How long the authority's certificate is valid. It is renewed by hand, as each member has a copy of it.
const AUTHORITY_VALID: Duration = Duration::from_secs(30 * 365 * 86_400);
/// How long those of members are valid unless the cluster was made otherwise. A member that must go is removed by its
/// name, not by time.
pub(super) const MEMBER_VALID: Duration = Duration::from_secs(365 * 86_400);
/// Bytes of a serial number; with the first bit 0 it is a positive number of as many (RFC 5280, section 4.1.2.2).
const SERIAL_BYTES: usize = 16;
/// How far the clock of another node may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(86_400);

/// The authority's certificate and key. They stay on the node that made them.
#[derive(Debug)]
pub struct Authority {
    certificate: CertificateDer<'static>,
    pub(super) key: MemberKey,
    /// How long a member's certificate is valid.
    life: Duration,
}

impl Authority {
    /// Makes the authority of a new cluster and the identity of its first member, and keeps both in a directory.
    ///
    /// # Errors
    /// [`IdentityError`], if the directory holds a cluster already or cannot be written.
    pub fn init(directory: &Path, first: &NodeName, now: SystemTime) -> Result<(Self, Identity), IdentityError> {
        Self::init_for(directory, first, MEMBER_VALID, now)
    }

    /// The same with certificates of members that are valid for so long; they are renewed when a third of it is left.
    ///
    /// # Errors
    /// [`IdentityError`], if the directory holds a cluster already or cannot be written.
    pub fn init_for(
        directory: &Path,
        first: &NodeName,
        life: Duration,
        now: SystemTime,
    ) -> Result<(Self, Identity), IdentityError> {
        files::refuse_existing(directory)?;
        let key = MemberKey::generate()?;
        let mut params = params_of(&key);
        set_validity(&mut params, AUTHORITY_VALID, now);
        let certificate = params.self_signed(&key)?.der().clone();
        let authority = Self { certificate, key, life };
        let member = MemberKey::generate()?;
        let named = Member { name: first.clone(), role: Role::Node };
        let identity = Identity {
            certificate: authority.issue(&named, &member.public(), now)?,
            authority: authority.certificate.clone(),
            secret: ClusterSecret::generate()?,
            member: named,
            key: member,
        };
        files::save_authority(directory, &authority.key, life)?;
        identity.save(directory)?;
        files::enter(directory, &identity.member, &identity.certificate)?;
        Ok((authority, identity))
    }

    /// Reads the authority from the directory of the node that made it.
    ///
    /// # Errors
    /// [`IdentityError`], if this node has no authority, or a file cannot be used.
    pub fn load(directory: &Path) -> Result<Self, IdentityError> {
        let key = files::load_authority(directory)?;
        let life = files::load_life(directory)?.unwrap_or(MEMBER_VALID);
        Ok(Self { certificate: files::load_authority_certificate(directory)?, key, life })
    }

    /// Signs the authority's own certificate anew, for the same key and the same name, and keeps it in the directory of the
    /// node that has the authority. Members that have the one of before believe what is signed from now on, and those that
    /// have the new one believe what was signed before: both certificates are of one key.
    ///
    /// # Errors
    /// [`IdentityError`], if this node has no authority, or a file cannot be read or written.
    pub fn renew_itself(directory: &Path, now: SystemTime) -> Result<Self, IdentityError> {
        let authority = Self::load(directory)?;
        let mut params = params_of(&authority.key);
        set_validity(&mut params, AUTHORITY_VALID, now);
        let certificate = params.self_signed(&authority.key)?.der().clone();
        files::save_authority_certificate(directory, &certificate)?;
        Ok(Self { certificate, ..authority })
    }

    /// Signs a certificate for a member's key.
    ///
    /// # Errors
    /// [`IdentityError::Certificate`], if it cannot be made.
    pub fn issue(
        &self,
        member: &Member,
        key: &PublicKey,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, IdentityError> {
        let names = vec![member.name.in_certificate(), member.role.in_certificate()];
        self.sign(member.name.as_str(), names, key, now)
    }

    /// Signs a certificate for a member of etcd at this address.
    pub(super) fn issue_etcd(
        &self,
        address: IpAddr,
        key: &PublicKey,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, IdentityError> {
        // Only an address: a name of DNS could be that of a member of the cluster.
        self.sign(ETCD_COMMON_NAME, vec![address.to_string()], key, now)
    }

    fn sign(
        &self,
        common_name: &str,
        names: Vec<String>,
        key: &PublicKey,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, IdentityError> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named(common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // etcd's gateway asks its own server with the certificate of that server.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        // The second certificate of a key needs another number than the first: a list of revoked ones has numbers.
        let mut serial = [0; SERIAL_BYTES];
        SystemRandom::new().fill(&mut serial).map_err(|_| KeyError::NoRandom)?;
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        set_validity(&mut params, self.life, now);
        Ok(params.signed_by(key, &self.issuer())?.der().clone())
    }

    /// What signs.
    pub(super) fn issuer(&self) -> Issuer<'_, &MemberKey> {
        Issuer::new(params_of(&self.key), &self.key)
    }

    /// The certificate of the authority.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }
}

/// The authority's parameters follow from its key, so that only certificate and key are kept.
fn params_of(key: &MemberKey) -> CertificateParams {
    let digest = digest(&SHA256, key.der_bytes());
    let id: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("weir cluster {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn set_validity(params: &mut CertificateParams, life: Duration, now: SystemTime) {
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    // A short life is not made long at its front: a third of it would be more than all that is ahead.
    params.not_before = epoch + since_1970.saturating_sub(CLOCK_SKEW.min(life));
    params.not_after = epoch + since_1970 + life;
}
