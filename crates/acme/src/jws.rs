//! The account's key and what it signs: JSON Web Signatures with ES256 (RFC 7515, RFC 7518 section 3.4).

use crate::error::AcmeError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

/// Bytes of an uncompressed point of P-256: its form, then both coordinates.
const POINT_BYTES: usize = 65;

/// The base64 of ACME: for URLs, without padding.
pub(crate) fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// By what the authority knows who signs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signer<'s> {
    /// The key itself, before there is an account.
    Key,
    /// The URL of the account.
    Account(&'s str),
}

/// The key of an account.
pub(crate) struct AccountKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl std::fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccountKey").field("thumbprint", &self.thumbprint()).finish_non_exhaustive()
    }
}

fn crypto(what: &'static str) -> impl Fn(ring::error::Unspecified) -> AcmeError {
    move |_| AcmeError::Crypto { what, why: "the system gives no random numbers".to_owned() }
}

impl AccountKey {
    /// A new key in PKCS #8.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub(crate) fn generate() -> Result<Vec<u8>, AcmeError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(made.map_err(crypto("the account's key"))?.as_ref().to_vec())
    }

    /// The key of these bytes; none if they are no key on P-256.
    pub(crate) fn read(pkcs8: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).ok()?;
        (pair.public_key().as_ref().len() == POINT_BYTES).then_some(Self { pair, random })
    }

    /// Both coordinates of the public key.
    fn coordinates(&self) -> (String, String) {
        let point = self.pair.public_key().as_ref();
        (base64url(&point[1..33]), base64url(&point[33..POINT_BYTES]))
    }

    /// The public key (RFC 7517, RFC 7518 section 6.2).
    pub(crate) fn jwk(&self) -> Value {
        let (x, y) = self.coordinates();
        json!({ "crv": "P-256", "kty": "EC", "x": x, "y": y })
    }

    /// The digest of the public key (RFC 7638): the members in the order of their names, without spaces.
    pub(crate) fn thumbprint(&self) -> String {
        let (x, y) = self.coordinates();
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        base64url(digest(&SHA256, canonical.as_bytes()))
    }

    /// What proves that the account asks for the challenge of this token (RFC 8555 section 8.1).
    pub(crate) fn key_authorization(&self, token: &str) -> String {
        format!("{token}.{}", self.thumbprint())
    }

    /// A signed request (RFC 8555 section 6.2); without a payload it is a POST-as-GET.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub(crate) fn sign(
        &self,
        signer: Signer<'_>,
        (url, nonce): (&str, &str),
        payload: Option<&Value>,
    ) -> Result<String, AcmeError> {
        let protected = match signer {
            Signer::Key => json!({ "alg": "ES256", "jwk": self.jwk(), "nonce": nonce, "url": url }),
            Signer::Account(account) => json!({ "alg": "ES256", "kid": account, "nonce": nonce, "url": url }),
        };
        let payload = payload.map(ToString::to_string).unwrap_or_default();
        let (protected, payload) = (base64url(protected.to_string()), base64url(payload));
        let signed = format!("{protected}.{payload}");
        let signature = self.pair.sign(&self.random, signed.as_bytes()).map_err(crypto("a signature"))?;
        let signature = base64url(signature);
        Ok(json!({ "protected": protected, "payload": payload, "signature": signature }).to_string())
    }

    /// Binds the account to one that the authority knows from elsewhere (RFC 8555 section 7.3.4): the public key,
    /// signed by the key that it gave out.
    pub(crate) fn bind(&self, key_id: &str, mac_key: &[u8], new_account_url: &str) -> Value {
        let protected = base64url(json!({ "alg": "HS256", "kid": key_id, "url": new_account_url }).to_string());
        let payload = base64url(self.jwk().to_string());
        let key = hmac::Key::new(hmac::HMAC_SHA256, mac_key);
        let signature = base64url(hmac::sign(&key, format!("{protected}.{payload}").as_bytes()));
        json!({ "protected": protected, "payload": payload, "signature": signature })
    }
}

/// The digest of a key authorization, as the certificate of TLS-ALPN-01 holds it (RFC 8737 section 3).
pub(crate) fn digest_of(key_authorization: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, key_authorization.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    /// The key of RFC 7515 appendix A.3, wrapped into PKCS #8 (RFC 5208, RFC 5915).
    fn key_of_the_rfc() -> AccountKey {
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
        let private = decode("jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI");
        let x = decode("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU");
        let y = decode("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
        let head = [
            0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
            0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01, 0x04, 0x20,
        ];
        let pkcs8 = [&head, &private[..], &[0xa1, 0x44, 0x03, 0x42, 0x00, 0x04], &x, &y].concat();
        AccountKey::read(&pkcs8).expect("a key")
    }

    fn members(text: &str) -> (Value, Vec<u8>, Vec<u8>, String) {
        let jws: Value = serde_json::from_str(text).expect("JSON");
        let member = |name: &str| jws[name].as_str().expect("text").to_owned();
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
        let (protected, payload) = (member("protected"), member("payload"));
        let signed = format!("{protected}.{payload}");
        let head = serde_json::from_slice(&decode(&protected)).expect("JSON");
        (head, decode(&payload), decode(&member("signature")), signed)
    }

    #[test]
    fn the_key_is_shown_as_rfc_7515_shows_it() {
        let jwk = key_of_the_rfc().jwk();
        assert_eq!(jwk["x"], "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU");
        assert_eq!(jwk["y"], "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
        // Computed by another implementation (Python: hashlib over the members in order).
        assert_eq!(key_of_the_rfc().thumbprint(), "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U");
        let authorization = key_of_the_rfc().key_authorization("token");
        assert_eq!(authorization, "token.oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U");
        assert!(!format!("{:?}", key_of_the_rfc()).contains("jpsQ"), "the private key is never printed");
    }

    #[test]
    fn the_signature_of_rfc_7515_holds_and_so_do_ours() {
        let key = key_of_the_rfc();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.pair.public_key().as_ref().to_vec());
        let of_the_rfc = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNv\
            bS9pc19yb290Ijp0cnVlfQ";
        let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
        public.verify(of_the_rfc.as_bytes(), &signature).expect("the key is that of the RFC");
        let text = key.sign(Signer::Key, ("https://a/x", "n1"), Some(&json!({ "a": 1 }))).expect("signs");
        let (head, payload, signature, signed) = members(&text);
        public.verify(signed.as_bytes(), &signature).expect("it holds");
        assert_eq!(head, json!({ "alg": "ES256", "jwk": key.jwk(), "nonce": "n1", "url": "https://a/x" }));
        assert_eq!(payload, br#"{"a":1}"#);
    }

    #[test]
    fn a_post_as_get_has_an_empty_payload_and_names_the_account() {
        let text = key_of_the_rfc().sign(Signer::Account("https://a/1"), ("https://a/x", "n"), None).expect("signs");
        let (head, payload, ..) = members(&text);
        assert_eq!(head, json!({ "alg": "ES256", "kid": "https://a/1", "nonce": "n", "url": "https://a/x" }));
        assert!(payload.is_empty());
    }

    #[test]
    fn a_binding_is_signed_by_the_key_that_was_given_out() {
        let bound = key_of_the_rfc().bind("kid-1", b"secret", "https://a/new");
        let (head, payload, signature, signed) = members(&bound.to_string());
        assert_eq!(head, json!({ "alg": "HS256", "kid": "kid-1", "url": "https://a/new" }));
        assert_eq!(serde_json::from_slice::<Value>(&payload).expect("JSON"), key_of_the_rfc().jwk());
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
        hmac::verify(&key, signed.as_bytes(), &signature).expect("it holds");
    }

    #[test]
    fn a_made_key_is_read_and_damaged_ones_are_not() {
        let pkcs8 = AccountKey::generate().expect("a key");
        assert!(AccountKey::read(&pkcs8).is_some());
        assert!((0..pkcs8.len()).all(|end| AccountKey::read(&pkcs8[..end]).is_none()));
    }
}
