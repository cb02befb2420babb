//! The head of a response, as far as it decides anything: the status and the length of the content.

/// What a block of fields says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The status; 0 in a block of trailers, which has none.
    pub status: u16,
    /// The length of the content in bytes, if it is told.
    pub length: Option<u64>,
}

/// What no head of a response may say (RFC 9113 8.2 and 8.3, RFC 9114 4.2 and 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAHead(pub(crate) &'static str);

/// Adds a line for a field; a line's end within it would be another field's begin.
pub(crate) fn keep_field(fields: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let plain = |byte: &u8| if *byte == b'\n' { b' ' } else { *byte };
    fields.extend(name.iter().map(plain));
    fields.extend_from_slice(b": ");
    fields.extend(value.iter().map(plain));
    fields.push(b'\n');
}

/// The status comes before everything else, and once.
pub(crate) fn set_status(head: &mut Head, status: u16, fields: u32) -> Result<(), NotAHead> {
    if fields > 1 {
        return Err(NotAHead("the status does not come first, or comes twice"));
    }
    head.status = status;
    Ok(())
}

pub(crate) fn status(digits: &[u8]) -> Result<u16, NotAHead> {
    match decimal(digits) {
        Some(number @ 100..=999) if digits.len() == 3 => Ok(number as u16),
        _ => Err(NotAHead("its status is not a number of three digits")),
    }
}

pub(crate) fn set_length(head: &mut Head, digits: &[u8]) -> Result<(), NotAHead> {
    let length = decimal(digits).ok_or(NotAHead("its length is not a number"))?;
    if head.length.replace(length).is_some_and(|other| other != length) {
        return Err(NotAHead("it gives two lengths"));
    }
    Ok(())
}

/// A number of digits only, as RFC 9110 8.6 wants it.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
