//! Clients' certificates: who has shown which, what tables want of them, and what upstreams are told.
//!
//! A handshake asks for a certificate where some table of the host wants one (`certificates/client_asking.rs`). As
//! HTTP/2 and HTTP/3 cannot ask again within a connection (RFC 9113 section 9.2.3), each request is judged by what the
//! handshake brought.

use super::hosts::Hosts;
use super::settings::Settings;
use crate::certificates::presented::{self, KnownClient};
use crate::exchange::life::{Certified, Exchange};
use crate::http::client_certificate::CertificateNeed;
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;
use std::rc::Rc;

/// The answer to a request over a connection that was opened for another host (RFC 9110 section 15.5.20).
pub(super) const ELSEWHERE: (u16, &str) = (
    421,
    "This connection was opened for another host, and this one asks for certificates. Please open one for this host.",
);
const NONE_SHOWN: (u16, &str) = (
    403,
    "This needs a certificate of the client, and the connection has shown none. Install one in your browser, or name \
     it to your program, and open a new connection.",
);
const NOT_GOOD: (u16, &str) = (
    403,
    "The certificate of the client is not good here: it is out of date, was revoked, or is from an authority that this \
     host does not know.",
);
const IN_THE_CLEAR: (u16, &str) =
    (403, "This needs a certificate of the client, which only a connection over TLS can show.");

/// What a client has shown of itself to the host that its request is for.
#[derive(Debug)]
pub(super) enum Shown {
    /// No host of the server asks, or it is not looked at.
    Unasked,
    /// The connection is for another host, which has got a certificate.
    OfAnotherHost,
    /// The connection is for another host, and the client has shown nothing over it.
    Elsewhere,
    /// The connection is none of TLS with this server.
    InTheClear,
    /// What its handshake brought.
    Client(Rc<KnownClient>),
}

impl Hosts {
    /// What the client of a request has shown to a host.
    #[cold]
    pub(super) fn shown(&self, host: u16, peer: &ClientPeer<'_>, clock: &Clock) -> Shown {
        let authorities = self.rules.hosts[usize::from(host)].client_authorities.as_ref();
        let Some(presented) = self.presented.get(peer.connection) else {
            // Before a reload no host asked, or a proxy speaks TLS with the client.
            let is_of_tls = peer.is_secure && !self.trusts_proxies();
            return if is_of_tls { Shown::Elsewhere } else { Shown::InTheClear };
        };
        if self.rules.names.find(presented.server_name()) != Some(host) {
            return if presented.has_certificate() { Shown::OfAnotherHost } else { Shown::Elsewhere };
        }
        match authorities {
            Some(authorities) => Shown::Client(presented.judge(authorities, clock.now_ms)),
            None => Shown::Unasked,
        }
    }
}

/// What a request lacks that these settings want: a status, and an explanation.
pub(super) fn lacking(settings: &Settings, shown: &Shown) -> Option<(u16, &'static str)> {
    let is_required = settings.certificate == CertificateNeed::Require;
    match shown {
        _ if settings.certificate == CertificateNeed::None => None,
        Shown::Elsewhere | Shown::OfAnotherHost => Some(ELSEWHERE),
        Shown::InTheClear if is_required => Some(IN_THE_CLEAR),
        Shown::Client(client) if is_required && !client.is_verified => {
            let has_none = client.told.field(crate::http::client_certificate::CertificatePart::Verify);
            Some(if has_none.as_deref() == Some("NONE") { NONE_SHOWN } else { NOT_GOOD })
        }
        _ => None,
    }
}

/// The name of the client by a certificate that was asked for.
pub(super) fn common_name<'s>(settings: &Settings, shown: &'s Shown) -> Option<&'s str> {
    match shown {
        Shown::Client(client) if settings.certificate != CertificateNeed::None => client.common_name.as_deref(),
        _ => None,
    }
}

/// Has an upstream or an application that was chosen told of the client's certificate.
#[inline]
pub(super) fn certify(settings: &Settings, shown: &Shown, out: &mut Exchange) {
    if settings.certificate != CertificateNeed::None || settings.certificate_fields.is_some() {
        let told = match shown {
            Shown::Client(client) if settings.certificate != CertificateNeed::None => Rc::clone(&client.told),
            _ => presented::nothing().told,
        };
        out.certify(Certified { told, fields: settings.certificate_fields.clone() });
    }
}
