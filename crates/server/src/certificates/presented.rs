//! What the connections of a loop have shown of themselves: the host that they named, and the client's certificate.

use super::client_authorities::ClientAuthorities;
use super::distinguished_name;
use crate::http::client_certificate::{CertificatePart, ToldCertificate};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// How long what was found out about a certificate holds: lists and lives of certificates end while connections go on.
const JUDGED_FOR_MS: u64 = 60_000;

/// What a connection has shown.
#[derive(Debug)]
pub(crate) struct Presented {
    /// The host that the client has named in its handshake, in lower case.
    server_name: Option<String>,
    /// The client's certificate, then those that lead to its authority; empty without one.
    chain: Vec<CertificateDer<'static>>,
    judged: RefCell<Option<Judged>>,
}

/// What some authorities say.
#[derive(Debug)]
struct Judged {
    by: Arc<ClientAuthorities>,
    until_ms: u64,
    client: Rc<KnownClient>,
}

/// What is known of a client by its certificate.
#[derive(Debug, Default)]
pub(crate) struct KnownClient {
    pub(crate) told: Rc<ToldCertificate>,
    pub(crate) is_verified: bool,
    /// For the log; none of a certificate without one.
    pub(crate) common_name: Option<String>,
}

impl Presented {
    pub(crate) fn new(server_name: Option<String>, chain: Vec<CertificateDer<'static>>) -> Self {
        Self { server_name: server_name.map(|name| name.to_ascii_lowercase()), chain, judged: RefCell::default() }
    }

    /// The name of the host, empty if the client has given none.
    pub(crate) fn server_name(&self) -> &[u8] {
        self.server_name.as_deref().unwrap_or_default().as_bytes()
    }

    pub(crate) fn has_certificate(&self) -> bool {
        !self.chain.is_empty()
    }

    /// What these authorities say of the certificate.
    pub(crate) fn judge(&self, by: &Arc<ClientAuthorities>, now_ms: u64) -> Rc<KnownClient> {
        let mut judged = self.judged.borrow_mut();
        if let Some(known) = judged.as_ref().filter(|known| Arc::ptr_eq(&known.by, by) && now_ms < known.until_ms) {
            return Rc::clone(&known.client);
        }
        let client = Rc::new(self.look(by));
        let until_ms = now_ms + JUDGED_FOR_MS;
        *judged = Some(Judged { by: Arc::clone(by), until_ms, client: Rc::clone(&client) });
        client
    }

    fn look(&self, by: &ClientAuthorities) -> KnownClient {
        let Some(first) = self.chain.first() else { return nothing() };
        let failed = |why: String| KnownClient {
            told: Rc::new(ToldCertificate::verified(format!("FAILED:{}", one_line(&why)))),
            ..KnownClient::default()
        };
        if let Err(error) = by.judge(&self.chain) {
            return failed(error.to_string());
        }
        let Ok(certificate) = webpki::EndEntityCert::try_from(first) else {
            return failed("it cannot be read".to_owned());
        };
        let mut told = ToldCertificate::verified("SUCCESS".to_owned());
        let text = |content| distinguished_name::text(content).unwrap_or_default();
        told.set(CertificatePart::Subject, text(certificate.subject()));
        told.set(CertificatePart::Issuer, text(certificate.issuer()));
        told.set(CertificatePart::Serial, hexadecimal(certificate.serial()));
        let digest = ring::digest::digest(&ring::digest::SHA256, first);
        told.set(CertificatePart::Fingerprint, hexadecimal(digest.as_ref()).to_ascii_lowercase());
        told.set(CertificatePart::Certificate, STANDARD.encode(first));
        let common_name = distinguished_name::common_name(certificate.subject());
        KnownClient { told: Rc::new(told), is_verified: true, common_name }
    }
}

/// A client without a certificate.
pub(crate) fn nothing() -> KnownClient {
    KnownClient { told: Rc::new(ToldCertificate::verified("NONE".to_owned())), ..KnownClient::default() }
}

fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_ascii() && !letter.is_ascii_control() { letter } else { ' ' }).collect()
}

/// Hexadecimal digits, without the zeros that make a number a positive one.
fn hexadecimal(bytes: &[u8]) -> String {
    let bytes = if bytes.len() > 1 && bytes.len() < 32 { bytes.strip_prefix(&[0]).unwrap_or(bytes) } else { bytes };
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// What the connections of a loop have shown, by their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct PresentedByClients(Rc<RefCell<HashMap<u64, Rc<Presented>>>>);

impl PresentedByClients {
    /// Keeps what a connection has shown until that ends.
    pub(crate) fn enter(&self, connection: u64, presented: Presented) -> PresentedEntry {
        self.0.borrow_mut().insert(connection, Rc::new(presented));
        PresentedEntry { clients: self.clone(), connection }
    }

    pub(crate) fn get(&self, connection: u64) -> Option<Rc<Presented>> {
        self.0.borrow().get(&connection).map(Rc::clone)
    }
}

/// The entry of a connection, which is dropped with it.
#[derive(Debug)]
pub(crate) struct PresentedEntry {
    clients: PresentedByClients,
    pub(crate) connection: u64,
}

impl Drop for PresentedEntry {
    fn drop(&mut self) {
        self.clients.0.borrow_mut().remove(&self.connection);
    }
}
