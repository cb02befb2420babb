//! What members say about keys: kinds 100 to 104 of messages.

use crate::fields::{FieldError, Reader, put_bytes};
use crate::identity::{ClusterSecret, KeyError, Renewed, RevocationList};
use ring::rand::{SecureRandom, SystemRandom};
use rustls_pki_types::CertificateDer;
use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// Keys of tickets that members have at a time.
pub const TICKETS_MAX: usize = 8;
const TICKET_KEY_BYTES: usize = 32;
const SECRET_BYTES_MAX: usize = 128;
const CERTIFICATE_BYTES_MAX: usize = 4 << 10;
const ADDRESS_BYTES_MAX: usize = 64;
/// Bytes of a list of revoked certificates: a thousand of them.
const LIST_BYTES_MAX: usize = 64 << 10;
/// Members of etcd that one member of the cluster has.
const ETCD_MAX: usize = 16;

/// A key of TLS session tickets. It is zeroed when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    /// When it was made: seconds since 1970.
    pub made_unix_s: u64,
    bytes: Zeroizing<[u8; TICKET_KEY_BYTES]>,
}

impl TicketKey {
    /// Makes one.
    ///
    /// # Errors
    /// [`KeyError::NoRandom`], if the system gives no random bytes.
    pub fn generate(made_unix_s: u64) -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; TICKET_KEY_BYTES]);
        SystemRandom::new().fill(&mut *bytes).map_err(|_| KeyError::NoRandom)?;
        Ok(Self { made_unix_s, bytes })
    }

    /// The key itself, for the server.
    pub fn expose(&self) -> &[u8; TICKET_KEY_BYTES] {
        &self.bytes
    }
}

impl Ord for TicketKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.made_unix_s, &self.bytes[..]).cmp(&(other.made_unix_s, &other.bytes[..]))
    }
}

impl PartialOrd for TicketKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey(.., made {})", self.made_unix_s)
    }
}

/// The keys that members have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The secret of datagrams.
    pub secret: ClusterSecret,
    /// Keys of tickets, at most [`TICKETS_MAX`].
    pub tickets: Vec<TicketKey>,
    /// The certificates that etcd refuses; none where none was ever removed.
    pub revoked: Option<RevocationList>,
}

/// What members say about keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysWord {
    /// To any member: which keys do we have in common?
    Ask,
    /// The answer; without a question: take these.
    Shared(Shared),
    /// To the node with the authority: sign my keys again.
    Renew,
    /// The node: they are signed.
    Renewed(Renewed),
    /// This member does not have the authority.
    NoAuthority,
}

impl Shared {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(&self.secret.encode(), out);
        let tickets = &self.tickets[..self.tickets.len().min(TICKETS_MAX)];
        out.push(tickets.len() as u8);
        for ticket in tickets {
            out.extend(ticket.made_unix_s.to_be_bytes());
            out.extend(*ticket.bytes);
        }
        out.push(u8::from(self.revoked.is_some()));
        if let Some(RevocationList { number, der }) = &self.revoked {
            out.extend(number.to_be_bytes());
            put_bytes(der, out);
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        let secret = ClusterSecret::decode(reader.bytes("secret", SECRET_BYTES_MAX)?);
        let secret = secret.ok_or(FieldError::Unknown("secret"))?;
        let count = usize::from(reader.u8()?);
        if count > TICKETS_MAX {
            return Err(FieldError::Bound { what: "keys of tickets", bytes: count, max: TICKETS_MAX });
        }
        let ticket = |_| {
            let made_unix_s = reader.u64()?;
            Ok::<_, FieldError>(TicketKey { made_unix_s, bytes: Zeroizing::new(reader.array()?) })
        };
        let tickets = (0..count).map(ticket).collect::<Result<_, _>>()?;
        let revoked = if reader.flag("revoked")? {
            let number = reader.u64()?;
            Some(RevocationList { number, der: reader.bytes("revoked", LIST_BYTES_MAX)?.to_vec() })
        } else {
            None
        };
        Ok(Self { secret, tickets, revoked })
    }
}

fn put_renewed(renewed: &Renewed, out: &mut Vec<u8>) {
    put_bytes(&renewed.certificate, out);
    let etcd = &renewed.etcd[..renewed.etcd.len().min(ETCD_MAX)];
    out.push(etcd.len() as u8);
    for (address, certificate) in etcd {
        put_bytes(address.to_string().as_bytes(), out);
        put_bytes(certificate, out);
    }
}

fn take_renewed(reader: &mut Reader<'_>) -> Result<Renewed, FieldError> {
    let certificate = |reader: &mut Reader<'_>| {
        Ok::<_, FieldError>(CertificateDer::from(reader.bytes("certificate", CERTIFICATE_BYTES_MAX)?.to_vec()))
    };
    let own = certificate(reader)?;
    let count = usize::from(reader.u8()?);
    if count > ETCD_MAX {
        return Err(FieldError::Bound { what: "certificates of etcd", bytes: count, max: ETCD_MAX });
    }
    let etcd = (0..count).map(|_| {
        let text = reader.text("address of etcd", ADDRESS_BYTES_MAX)?;
        let address = text.parse::<IpAddr>().ok().filter(|address| address.to_string() == text);
        Ok((address.ok_or(FieldError::Unknown("address of etcd"))?, certificate(reader)?))
    });
    Ok(Renewed { certificate: own, etcd: etcd.collect::<Result<_, FieldError>>()? })
}

impl KeysWord {
    /// The number of its kind.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Ask => 100,
            Self::Shared(_) => 101,
            Self::Renew => 102,
            Self::Renewed(_) => 103,
            Self::NoAuthority => 104,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ask | Self::Renew | Self::NoAuthority => {}
            Self::Shared(shared) => shared.put(out),
            Self::Renewed(renewed) => put_renewed(renewed, out),
        }
    }

    pub(crate) fn take(kind: u8, reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(match kind {
            100 => Self::Ask,
            101 => Self::Shared(Shared::take(reader)?),
            102 => Self::Renew,
            103 => Self::Renewed(take_renewed(reader)?),
            _ => Self::NoAuthority,
        })
    }
}
