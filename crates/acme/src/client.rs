//! The client of one authority (RFC 8555 section 7): it blocks, and each of its steps has an end.

use crate::answers::Answers;
use crate::certificate::{ChallengeCertificate, Request};
use crate::error::AcmeError;
use crate::http::{Answer, Http};
use crate::jws::{AccountKey, Signer, base64url};
use crate::message::{Authorization, Challenge, Directory, Order, Problem, RenewalInfo, Status};
use crate::settings::{ChallengeKind, ExternalAccount, Settings};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Tries of a request whose nonce is refused (RFC 8555 section 6.5).
const NONCE_TRIES: u32 = 8;
/// How long an order may take, from its first request on.
const ORDER_PATIENCE: Duration = Duration::from_secs(300);
/// The pause between two looks at an order, without `Retry-After`: the first, and the longest.
const POLL_PAUSE: Duration = Duration::from_millis(500);
/// See [`POLL_PAUSE`].
const POLL_PAUSE_MAX: Duration = Duration::from_secs(15);
/// Authorizations of an order for one name.
const AUTHORIZATIONS_MAX: usize = 4;
/// Letters of a nonce.
const NONCE_LETTERS_MAX: usize = 512;
/// Bytes of a file with the key of an account from elsewhere.
const KEY_FILE_BYTES_MAX: u64 = 4096;
/// What an account is called in errors.
const AN_ACCOUNT: &str = "an account";

/// The client of one authority, with an account there.
#[derive(Debug)]
pub(crate) struct Client {
    http: Http,
    directory: Directory,
    key: AccountKey,
    /// The URL of the account.
    account: String,
    nonce: Option<String>,
}

/// When the authority wants a certificate to be renewed.
pub(crate) struct Renewal {
    /// Begin and end, in seconds since 1970.
    pub(crate) window_unix_s: (i64, i64),
    /// When to ask again.
    pub(crate) retry_after: Option<Duration>,
}

/// What was issued: the chain in PEM, and the key in PKCS #8.
pub(crate) struct Obtained {
    pub(crate) chain: String,
    pub(crate) key: Vec<u8>,
}

impl Client {
    /// Reads the directory, and finds or makes the account of this key.
    pub(crate) fn new(settings: &Settings, key: AccountKey) -> Result<Self, AcmeError> {
        let http = Http::new(&settings.directory, settings.ca.as_deref())?;
        let answer = http.get(&settings.directory)?;
        let directory: Directory = read(&settings.directory, "its directory", &answer)?;
        let mut client = Self { http, directory, key, account: String::new(), nonce: None };
        client.register(settings)?;
        Ok(client)
    }

    /// Finds or makes the account (RFC 8555 section 7.3): for a known key the authority names the account it has.
    fn register(&mut self, settings: &Settings) -> Result<(), AcmeError> {
        let url = self.directory.new_account.clone();
        let mut wanted = json!({ "termsOfServiceAgreed": true, "contact": settings.contact });
        if let Some(external) = &settings.external_account {
            wanted["externalAccountBinding"] = self.key.bind(&external.key_id, &mac_key(external)?, &url);
        }
        let answer = self.post(AN_ACCOUNT, &url, Some(&wanted))?;
        let Some(account) = answer.location else {
            return Err(AcmeError::NotAcme { url, why: "it does not name the account".to_owned() });
        };
        self.account = account;
        tracing::info!(account = self.account, "ACME account");
        Ok(())
    }

    /// Obtains a certificate for a name.
    ///
    /// `replaces` is the identifier of the one before (RFC 9773 section 5).
    pub(crate) fn obtain(
        &mut self,
        name: &str,
        challenges: &[ChallengeKind],
        replaces: Option<&str>,
        answers: &mut dyn Answers,
    ) -> Result<Obtained, AcmeError> {
        let until = Instant::now() + ORDER_PATIENCE;
        let (url, order) = self.order(name, replaces)?;
        for authorization in order.authorizations.iter().take(AUTHORIZATIONS_MAX) {
            self.prove(name, authorization, challenges, answers, until)?;
        }
        let order = self.wait_for_order(&url, until, |status| status != Status::Pending)?;
        let request = Request::new(name)?;
        if order.status == Status::Ready {
            let csr = json!({ "csr": base64url(&request.csr) });
            self.post("the certificate request", &order.finalize, Some(&csr))?;
        }
        let order = self.wait_for_order(&url, until, |status| status == Status::Valid)?;
        let Some(certificate) = order.certificate else {
            return Err(AcmeError::NotAcme { url, why: "the order does not name its certificate".to_owned() });
        };
        let answer = self.post("the certificate", &certificate, None)?;
        let chain = String::from_utf8(answer.body).map_err(|_| {
            let why = "its chain is no PEM".to_owned();
            AcmeError::Certificate { name: name.to_owned(), why }
        })?;
        Ok(Obtained { chain, key: request.key })
    }

    /// An order for one name, and its URL.
    fn order(&mut self, name: &str, replaces: Option<&str>) -> Result<(String, Order), AcmeError> {
        let url = self.directory.new_order.clone();
        let mut wanted = json!({ "identifiers": [{ "type": "dns", "value": name }] });
        if let Some(id) = replaces.filter(|_| self.directory.renewal_info.is_some()) {
            wanted["replaces"] = json!(id);
        }
        let answer = match self.post("the order", &url, Some(&wanted)) {
            // The certificate before was replaced already, or is of another account: it is no reason not to renew.
            Err(AcmeError::Refused { problem, .. })
                if wanted.get("replaces").is_some() && problem.status != 429 && problem.status < 500 =>
            {
                tracing::info!(name, %problem, "an order that replaces a certificate is refused");
                self.post("the order", &url, Some(&json!({ "identifiers": wanted["identifiers"] })))?
            }
            other => other?,
        };
        let location = answer.location.clone();
        let order = read(&url, "the order", &answer)?;
        let location = location.ok_or(AcmeError::NotAcme { url, why: "it does not name the order".to_owned() })?;
        Ok((location, order))
    }

    /// Proves control of a name, and removes the answer to the challenge again.
    fn prove(
        &mut self,
        name: &str,
        url: &str,
        challenges: &[ChallengeKind],
        answers: &mut dyn Answers,
        until: Instant,
    ) -> Result<(), AcmeError> {
        let authorization: Authorization = self.look(url, "the authorization")?;
        if authorization.status == Status::Valid {
            return Ok(());
        }
        let offered = |kind: &ChallengeKind| {
            let is_it = |challenge: &&Challenge| challenge.kind == kind.word() && challenge.has_token();
            authorization.challenges.iter().find(is_it).map(|challenge| (*kind, challenge))
        };
        let Some((kind, challenge)) = challenges.iter().find_map(offered) else {
            let offered: Vec<&str> = authorization.challenges.iter().map(|one| one.kind.as_str()).take(8).collect();
            let offered = if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
            return Err(AcmeError::NoChallenge { name: name.to_owned(), offered });
        };
        let key_authorization = self.key.key_authorization(&challenge.token);
        let placed = match kind {
            ChallengeKind::Http01 => answers.answer_http01(&challenge.token, &key_authorization),
            ChallengeKind::TlsAlpn01 => {
                answers.answer_tls_alpn01(name, &ChallengeCertificate::new(name, &key_authorization)?)
            }
        };
        tracing::info!(name, kind = kind.word(), "ACME challenge");
        let proved = placed
            .map_err(AcmeError::NotAnswered)
            .and_then(|()| self.post("the challenge", &challenge.url, Some(&json!({}))))
            .and_then(|_| self.wait_for_proof(name, kind, url, until));
        match kind {
            ChallengeKind::Http01 => answers.remove_http01(&challenge.token),
            ChallengeKind::TlsAlpn01 => answers.remove_tls_alpn01(name),
        }
        proved
    }

    fn wait_for_proof(&mut self, name: &str, kind: ChallengeKind, url: &str, until: Instant) -> Result<(), AcmeError> {
        let mut pause = POLL_PAUSE;
        loop {
            let answer = self.post("the authorization", url, None)?;
            let retry_after = answer.retry_after;
            let authorization: Authorization = read(url, "the authorization", &answer)?;
            match authorization.status {
                Status::Valid => return Ok(()),
                Status::Pending | Status::Processing | Status::Ready => {}
                Status::Invalid => {
                    let problem = authorization.challenges.into_iter().find_map(|challenge| challenge.error);
                    let problem = problem.unwrap_or_default();
                    return Err(AcmeError::Unproved { name: name.to_owned(), kind: kind.word(), problem });
                }
            }
            rest(&mut pause, retry_after, until, "the check of the name")?;
        }
    }

    /// Looks at an order until it is as wanted; one that is invalid is an error.
    fn wait_for_order(
        &mut self,
        url: &str,
        until: Instant,
        is_it: impl Fn(Status) -> bool,
    ) -> Result<Order, AcmeError> {
        let mut pause = POLL_PAUSE;
        loop {
            let answer = self.post("the order", url, None)?;
            let retry_after = answer.retry_after;
            let order: Order = read(url, "the order", &answer)?;
            if order.status == Status::Invalid {
                let problem = order.error.unwrap_or_default();
                return Err(AcmeError::Refused { what: "the order", problem, retry_after: None });
            }
            if is_it(order.status) {
                return Ok(order);
            }
            rest(&mut pause, retry_after, until, "the order")?;
        }
    }

    /// When the authority wants a certificate to be renewed; none where it does not say.
    pub(crate) fn renewal_window(&self, id: &str) -> Result<Option<Renewal>, AcmeError> {
        let Some(base) = &self.directory.renewal_info else { return Ok(None) };
        let url = format!("{}/{id}", base.trim_end_matches('/'));
        let answer = self.http.get(&url)?;
        let retry_after = answer.retry_after;
        let info: RenewalInfo = read(&url, "when to renew", &answer)?;
        Ok(info.window_unix_s().map(|window_unix_s| Renewal { window_unix_s, retry_after }))
    }

    /// A message by POST-as-GET.
    fn look<T: DeserializeOwned>(&mut self, url: &str, what: &'static str) -> Result<T, AcmeError> {
        let answer = self.post(what, url, None)?;
        read(url, what, &answer)
    }

    /// A signed request; one whose nonce is refused is sent again with the nonce that came with the refusal.
    fn post(&mut self, what: &'static str, url: &str, payload: Option<&Value>) -> Result<Answer, AcmeError> {
        let mut tries = 0;
        loop {
            let nonce = self.nonce()?;
            let signer = if self.account.is_empty() { Signer::Key } else { Signer::Account(&self.account) };
            let jws = self.key.sign(signer, (url, &nonce), payload)?;
            let answer = self.http.post(url, &jws)?;
            self.nonce = answer.nonce.clone().filter(|nonce| is_nonce(nonce));
            if (200..300).contains(&answer.status) {
                return Ok(answer);
            }
            let retry_after = answer.retry_after;
            let problem = problem_of(&answer);
            tries += 1;
            if problem.word() != "badNonce" || tries == NONCE_TRIES {
                return Err(AcmeError::Refused { what, problem, retry_after });
            }
        }
    }

    /// The nonce of the last answer, or a new one (RFC 8555 section 7.2).
    fn nonce(&mut self) -> Result<String, AcmeError> {
        if let Some(nonce) = self.nonce.take() {
            return Ok(nonce);
        }
        let url = &self.directory.new_nonce;
        let nonce = self.http.head(url)?.nonce.filter(|nonce| is_nonce(nonce));
        nonce.ok_or_else(|| AcmeError::NotAcme { url: url.clone(), why: "it gives no nonce".to_owned() })
    }
}

fn is_nonce(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=NONCE_LETTERS_MAX).contains(&text.len()) && text.bytes().all(is_letter)
}

/// Sleeps before the next look, as long as the authority wants it, else longer each time.
fn rest(
    pause: &mut Duration,
    retry_after: Option<Duration>,
    until: Instant,
    what: &'static str,
) -> Result<(), AcmeError> {
    let wanted = retry_after.unwrap_or(*pause).clamp(POLL_PAUSE, POLL_PAUSE_MAX);
    *pause = (*pause * 2).min(POLL_PAUSE_MAX);
    if Instant::now() + wanted > until {
        return Err(AcmeError::TimedOut { what, patience: ORDER_PATIENCE });
    }
    std::thread::sleep(wanted);
    Ok(())
}

/// A message of an answer that is no refusal.
fn read<T: DeserializeOwned>(url: &str, what: &'static str, answer: &Answer) -> Result<T, AcmeError> {
    if !(200..300).contains(&answer.status) {
        let retry_after = answer.retry_after;
        return Err(AcmeError::Refused { what, problem: problem_of(answer), retry_after });
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        let why = format!("{what} cannot be read: {error}");
        AcmeError::NotAcme { url: url.to_owned(), why }
    })
}

/// The problem that a refusal holds; its status alone where it holds none.
fn problem_of(answer: &Answer) -> Problem {
    let mut problem: Problem = serde_json::from_slice(&answer.body).unwrap_or_default();
    problem.status = answer.status;
    if problem.detail.is_empty() && problem.kind.is_empty() {
        problem.detail = format!("it answers with status {}", answer.status);
        problem.kind = "about:blank".to_owned();
    }
    problem
}

/// The key of an account from elsewhere.
fn mac_key(external: &ExternalAccount) -> Result<Vec<u8>, AcmeError> {
    use std::io::Read;
    let wrong = |why: String| AcmeError::File { path: external.key_file.clone(), why };
    let mut text = String::new();
    std::fs::File::open(&external.key_file)
        .and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| wrong(format!("{error}; give the file with the key that the authority gave you")))?;
    let key = URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='));
    key.map_err(|_| wrong("it is not base64url; copy the key as the authority gave it to you".to_owned()))
}
