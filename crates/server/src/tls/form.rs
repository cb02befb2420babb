//! The form of a TLS session that is written down: numbers are big-endian, and texts stand behind their length.

pub(super) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

pub(super) fn take<const BYTES: usize>(rest: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (taken, after) = rest.split_first_chunk::<BYTES>()?;
    *rest = after;
    Some(*taken)
}

pub(super) fn get<'b>(rest: &mut &'b [u8], bytes_max: usize) -> Option<&'b [u8]> {
    let length = usize::try_from(u32::from_be_bytes(take(rest)?)).ok()?;
    if length > bytes_max {
        return None;
    }
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}
