//! Hashes by their names in scripts.

use digest::DynDigest;

/// A hash and the size of its blocks, in bytes.
fn hasher(name: &str) -> Option<(Box<dyn DynDigest>, usize)> {
    Some(match name {
        "md4" => (Box::new(md4::Md4::default()), 64),
        "md5" => (Box::new(md5::Md5::default()), 64),
        "sha1" => (Box::new(sha1::Sha1::default()), 64),
        "sha256" => (Box::new(sha2::Sha256::default()), 64),
        "sha384" => (Box::new(sha2::Sha384::default()), 128),
        "sha512" => (Box::new(sha2::Sha512::default()), 128),
        "sha512_224" => (Box::new(sha2::Sha512_224::default()), 128),
        "sha512_256" => (Box::new(sha2::Sha512_256::default()), 128),
        "ripemd160" => (Box::new(ripemd::Ripemd160::default()), 64),
        _ => return None,
    })
}

/// The hash of bytes by the algorithm of this name.
pub(crate) fn hash(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut hasher, _) = hasher(name)?;
    hasher.update(bytes);
    Some(hasher.finalize().into_vec())
}

/// HMAC (RFC 2104).
pub(crate) fn hmac(name: &str, key: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let (_, block) = hasher(name)?;
    let mut padded = if key.len() > block { hash(name, key)? } else { key.to_vec() };
    padded.resize(block, 0);
    let with = |pad: u8, rest: &[u8]| {
        let mut all: Vec<u8> = padded.iter().map(|byte| byte ^ pad).collect();
        all.extend_from_slice(rest);
        hash(name, &all)
    };
    with(0x5c, &with(0x36, bytes)?)
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
