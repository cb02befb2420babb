//! Answers to the challenges of ACME (RFC 8555 section 8), by which an authority finds out that a name is this server's.
//!
//! All loops look into one table. While it is empty that costs a load of an atomic number, for each request in the clear
//! and for each handshake.

use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use thiserror::Error;

/// The protocol of a handshake that is a challenge (RFC 8737 section 4).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";
/// Where a challenge of HTTP-01 is asked for (RFC 8555 section 8.3).
const WELL_KNOWN: &str = "/.well-known/acme-challenge/";
/// Answers of either kind at once.
const ANSWERS_MAX: usize = 1024;
/// Letters of a token, of a key authorization, and of a name.
const LETTERS_MAX: usize = 512;

/// Why a challenge is not answered.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ChallengeError {
    /// There are too many at once.
    #[error("{ANSWERS_MAX} challenges are answered already; try again when some of them are over")]
    Full,
    /// It is no token, or no key authorization.
    #[error("it is no token of ACME with its key authorization")]
    NotToken,
    /// The key of the certificate cannot be used.
    #[error("cannot use the key of a challenge: {0}")]
    Unusable(rustls::Error),
}

/// How far a host is that obtains its certificate by ACME, as the admin page tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ObtainedStatus {
    /// The host.
    pub host: String,
    /// `wanted`, `valid`, `due` or `expired`.
    pub state: String,
    /// Until when its certificate is valid, in seconds since 1970; none without one.
    pub not_after_unix_s: Option<i64>,
    /// When the next attempt is made, in seconds since 1970.
    pub next_attempt_unix_s: i64,
    /// Attempts that failed, one after the other.
    pub failures: u32,
    /// Why the last attempt failed; none if it did not.
    pub last_error: Option<String>,
}

impl ObtainedStatus {
    /// Of a host that has no certificate yet.
    #[must_use]
    pub fn new(host: String) -> Self {
        let (not_after_unix_s, last_error) = (None, None);
        Self { host, state: "wanted".to_owned(), not_after_unix_s, next_attempt_unix_s: 0, failures: 0, last_error }
    }
}

/// Answers to challenges, for a server that runs: a clone is the same table.
#[derive(Debug, Clone, Default)]
pub struct Challenges(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Answers of both kinds.
    count: AtomicUsize,
    answers: RwLock<Answers>,
    status: RwLock<Vec<ObtainedStatus>>,
}

#[derive(Debug, Default)]
struct Answers {
    /// Key authorizations by tokens.
    http01: HashMap<Box<str>, Arc<str>>,
    /// Certificates by names in lower case.
    tls_alpn01: HashMap<Box<str>, Arc<CertifiedKey>>,
}

impl Challenges {
    /// Answers requests in the clear for `/.well-known/acme-challenge/TOKEN`, for any host of a configuration.
    ///
    /// # Errors
    ///
    /// [`ChallengeError::NotToken`], [`ChallengeError::Full`]
    pub fn answer_http01(&self, token: &str, key_authorization: &str) -> Result<(), ChallengeError> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_token = |text: &str| !text.is_empty() && text.len() <= LETTERS_MAX && text.bytes().all(is_letter);
        let is_good =
            is_token(token) && key_authorization.split_once('.').is_some_and(|(of, key)| of == token && is_token(key));
        if !is_good {
            return Err(ChallengeError::NotToken);
        }
        self.change(|answers| answers.http01.insert(token.into(), key_authorization.into()).is_some())
    }

    /// Ends that.
    pub fn remove_http01(&self, token: &str) {
        let _ = self.change(|answers| answers.http01.remove(token).is_some());
    }

    /// Answers handshakes with the protocol `acme-tls/1` for this name by a certificate in DER, with its key in PKCS #8.
    ///
    /// # Errors
    ///
    /// [`ChallengeError::Unusable`], [`ChallengeError::NotToken`], [`ChallengeError::Full`]
    pub fn answer_tls_alpn01(&self, name: &str, certificate: Vec<u8>, key: Vec<u8>) -> Result<(), ChallengeError> {
        if name.is_empty() || name.len() > LETTERS_MAX {
            return Err(ChallengeError::NotToken);
        }
        let key = PrivateKeyDer::Pkcs8(key.into());
        let key = ring::sign::any_supported_type(&key).map_err(ChallengeError::Unusable)?;
        // That they belong together is not checked: rustls knows no critical extension of ACME, and refuses to look.
        let key = CertifiedKey::new(vec![CertificateDer::from(certificate)], key);
        let name = name.to_ascii_lowercase().into_boxed_str();
        self.change(|answers| answers.tls_alpn01.insert(name, Arc::new(key)).is_some())
    }

    /// Ends that.
    pub fn remove_tls_alpn01(&self, name: &str) {
        let _ = self.change(|answers| answers.tls_alpn01.remove(&*name.to_ascii_lowercase()).is_some());
    }

    /// What the admin page tells of the hosts that obtain their certificates.
    pub fn set_status(&self, status: Vec<ObtainedStatus>) {
        *self.0.status.write().unwrap_or_else(PoisonError::into_inner) = status;
    }

    pub(crate) fn status(&self) -> Vec<ObtainedStatus> {
        self.0.status.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there is any answer.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) != 0
    }

    /// The answer to a request for this target; none where it is not for a challenge that is known.
    pub(crate) fn http01(&self, target: &str) -> Option<Arc<str>> {
        let token = target.strip_prefix(WELL_KNOWN)?;
        let token = token.split('?').next().unwrap_or(token);
        let answers = self.0.answers.read().unwrap_or_else(PoisonError::into_inner);
        answers.http01.get(token).cloned()
    }

    /// The certificate for a handshake of a challenge.
    pub(crate) fn tls_alpn01(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let answers = self.0.answers.read().unwrap_or_else(PoisonError::into_inner);
        answers.tls_alpn01.get(name).cloned()
    }

    /// Changes the table; what is beyond the bound is taken out again.
    fn change(&self, what: impl FnOnce(&mut Answers) -> bool) -> Result<(), ChallengeError> {
        let mut answers = self.0.answers.write().unwrap_or_else(PoisonError::into_inner);
        if answers.http01.len() + answers.tls_alpn01.len() >= ANSWERS_MAX {
            // Removals still work: they only shrink it.
            let before = (answers.http01.len(), answers.tls_alpn01.len());
            let (http01, tls_alpn01) = (answers.http01.clone(), answers.tls_alpn01.clone());
            what(&mut answers);
            if (answers.http01.len(), answers.tls_alpn01.len()) > before {
                *answers = Answers { http01, tls_alpn01 };
                return Err(ChallengeError::Full);
            }
        } else {
            what(&mut answers);
        }
        self.0.count.store(answers.http01.len() + answers.tls_alpn01.len(), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_challenge_is_answered_until_it_is_over() {
        let (challenges, clone) = {
            let one = Challenges::default();
            (one.clone(), one)
        };
        assert!(!challenges.is_any());
        challenges.answer_http01("tok-1_", "tok-1_.print").expect("a token");
        assert!(clone.is_any());
        let of = |target| clone.http01(target).as_deref().map(str::to_owned);
        assert_eq!(of("/.well-known/acme-challenge/tok-1_").as_deref(), Some("tok-1_.print"));
        assert_eq!(of("/.well-known/acme-challenge/tok-1_?x").as_deref(), Some("tok-1_.print"));
        for other in ["/.well-known/acme-challenge/", "/.well-known/acme-challenge/tok", "/", "/tok-1_", ""] {
            assert_eq!(of(other), None, "{other}");
        }
        challenges.remove_http01("tok-1_");
        assert!(!clone.is_any() && of("/.well-known/acme-challenge/tok-1_").is_none());
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let challenges = Challenges::default();
        for (token, authorization) in
            [("", ".x"), ("a/b", "a/b.x"), ("a", "b.x"), ("a", "a"), ("a", "a.x\r\n"), ("a", "a."), ("..", "...x")]
        {
            let answer = challenges.answer_http01(token, authorization);
            assert_eq!(answer, Err(ChallengeError::NotToken), "{token} {authorization}");
        }
        assert!(challenges.answer_tls_alpn01("a.example", vec![1], vec![2]).is_err());
        assert!(!challenges.is_any());
    }

    #[test]
    fn there_is_room_for_so_many_and_then_for_others() {
        let challenges = Challenges::default();
        for number in 0..ANSWERS_MAX {
            challenges.answer_http01(&format!("t{number}"), &format!("t{number}.x")).expect("there is room");
        }
        assert_eq!(challenges.answer_http01("more", "more.x"), Err(ChallengeError::Full));
        assert!(challenges.http01("/.well-known/acme-challenge/more").is_none());
        challenges.answer_http01("t0", "t0.y").expect("it is in the place of another one");
        challenges.remove_http01("t1");
        challenges.answer_http01("more", "more.x").expect("there is room again");
    }

    proptest! {
        #[test]
        fn no_target_finds_what_is_not_there(target: String) {
            let challenges = Challenges::default();
            challenges.answer_http01("a", "a.x").expect("a token");
            let is_it = target.split('?').next() == Some("/.well-known/acme-challenge/a");
            prop_assert_eq!(challenges.http01(&target).is_some(), is_it);
        }
    }
}
