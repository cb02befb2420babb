//! Answers what other members ask about keys, and asks for a renewal.

use super::held::Keyring;
use super::word::KeysWord;
use crate::identity::{Authority, IdentityError, Renewed, certificate_of, keep_renewed};
use crate::link::{Answering, LinkClient, LinkError, Members, Trust, TrustError};
use crate::message::Message;
use crate::name::Member;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long a member has for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers about keys, and has another one answer what else is asked.
pub struct KeyringAnswers {
    inner: Arc<dyn Answering>,
    keyring: Arc<Keyring>,
    members: Arc<Members>,
}

impl KeyringAnswers {
    /// Answers from these keys.
    pub fn new(inner: Arc<dyn Answering>, keyring: Arc<Keyring>, members: Arc<Members>) -> Self {
        Self { inner, keyring, members }
    }

    fn of_keys(&self, peer: &Member, word: &KeysWord) -> Result<Message, IdentityError> {
        let now = SystemTime::now();
        Ok(Message::keys(match word {
            KeysWord::Ask => KeysWord::Shared(self.keyring.shared()),
            KeysWord::Shared(told) => {
                if let Some(removed) = told.secret.without() {
                    self.members.remove(removed.clone());
                }
                self.keyring.take(told, now)?;
                return Ok(Message::Noted);
            }
            KeysWord::Renew if self.keyring.has_authority() => {
                // Its key is in memory only while it signs.
                let authority = Authority::load(self.keyring.directory())?;
                KeysWord::Renewed(authority.renew(self.keyring.directory(), peer, now)?)
            }
            KeysWord::Renew | KeysWord::Renewed(_) | KeysWord::NoAuthority => KeysWord::NoAuthority,
        }))
    }
}

impl Answering for KeyringAnswers {
    fn answer(&self, peer: &Member, request: Message) -> Message {
        let Message::Keys(word) = &request else { return self.inner.answer(peer, request) };
        // A link may have been opened before its member was removed.
        if self.members.is_removed(&peer.name) {
            return Message::Failed { why: format!("{} was removed from the cluster", peer.name) };
        }
        self.of_keys(peer, word).unwrap_or_else(|error| Message::Failed { why: error.to_string() })
    }

    fn is_quick(&self, request: &Message) -> bool {
        self.inner.is_quick(request)
    }
}

/// A certificate was not renewed.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// No member that answers has the authority.
    #[error(
        "no node that answers has the cluster's authority{}; start the node of weir cluster init, or copy its \
         authority.key and its folders issued and issued-etcd to another node", faults(.0)
    )]
    NoAuthority(Vec<LinkError>),
    /// The node with the authority does not sign.
    #[error("the node with the authority does not sign: {0}")]
    Refused(String),
    /// A file cannot be read or written.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The certificate is not for the key of the links.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

fn faults(faults: &[LinkError]) -> String {
    faults.iter().map(|fault| format!("; {fault}")).collect()
}

/// Has a member's certificate signed again, and keeps it in its directory: by the authority that is there, or by the
/// one of these nodes that has it. Says whether its etcd has a new certificate too.
///
/// # Errors
/// [`RenewError`]; the certificate is the one of before then.
pub fn renew(keyring: &Keyring, own: &Member, nodes: &[&LinkClient], now: SystemTime) -> Result<bool, RenewError> {
    let directory = keyring.directory();
    if keyring.has_authority() {
        let renewed = Authority::load(directory)?.renew(directory, own, now)?;
        return Ok(keep_renewed(directory, &renewed)?);
    }
    let renewed = ask(nodes)?;
    Ok(keep_renewed(directory, &renewed)?)
}

/// Has links show the certificate that is in the directory now, which this process or another one has renewed; whether
/// it is another one than before.
///
/// # Errors
/// [`RenewError`], if it cannot be read, or is for another key; the one of before is shown then.
pub fn show_newest(keyring: &Keyring, trust: &Trust) -> Result<bool, RenewError> {
    Ok(trust.show(certificate_of(keyring.directory())?)?)
}

fn ask(nodes: &[&LinkClient]) -> Result<Renewed, RenewError> {
    let mut failed = Vec::new();
    for node in nodes {
        match node.ask(&Message::keys(KeysWord::Renew), PATIENCE) {
            Ok(Message::Keys(word)) => {
                if let KeysWord::Renewed(renewed) = &*word {
                    return Ok(renewed.clone());
                }
            }
            Ok(Message::Failed { why }) => return Err(RenewError::Refused(why)),
            // An earlier version of weir.
            Ok(_) => {}
            Err(error) => failed.push(error),
        }
    }
    Err(RenewError::NoAuthority(failed))
}
