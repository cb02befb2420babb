//! Keys of TLS session tickets on their way from the node process to its server, by their socket: each as the seconds
//! since 1970 at which it was made and its 32 bytes.

use weir_cluster::TicketKey;
use weir_server::TicketSecret;
use zeroize::Zeroizing;

const TIME_BYTES: usize = 8;
const ONE_BYTES: usize = TIME_BYTES + 32;

/// The bytes of a frame.
pub(super) fn framed(keys: &[TicketKey]) -> Zeroizing<Vec<u8>> {
    // All room at once, so that no copy is left behind by growing.
    let mut bytes = Zeroizing::new(Vec::with_capacity(keys.len() * ONE_BYTES));
    for key in keys {
        bytes.extend(key.made_unix_s.to_be_bytes());
        bytes.extend(key.expose());
    }
    bytes
}

/// The keys of a frame; what is left over at its end is none.
pub(super) fn unframed(bytes: &[u8]) -> Vec<TicketSecret> {
    let one = |chunk: &[u8]| {
        let (made, key) = chunk.split_first_chunk::<TIME_BYTES>()?;
        let mut secret =
            TicketSecret { made_unix_s: u64::from_be_bytes(*made), bytes: Zeroizing::new([0; ONE_BYTES - TIME_BYTES]) };
        secret.bytes.copy_from_slice(key);
        Some(secret)
    };
    bytes.chunks_exact(ONE_BYTES).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_arrive_as_they_are() {
        let keys = [7, 8].map(|made| TicketKey::generate(made).expect("random bytes"));
        let read = unframed(&framed(&keys));
        assert_eq!(read.len(), 2);
        for (read, key) in read.iter().zip(&keys) {
            assert_eq!((read.made_unix_s, &*read.bytes), (key.made_unix_s, key.expose()));
        }
        assert!(unframed(&framed(&keys)[..ONE_BYTES - 1]).is_empty());
    }
}
