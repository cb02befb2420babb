//! Reads and writes the fields of messages: numbers in network order, bytes behind their length.

use weir_keeper::{DecodeError, Flow, Seen, TcpState};

/// Bytes that are no message of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// They end too early.
    #[error("the message ends too early; run the same version of weir on all nodes")]
    Short,
    /// Bytes are left over.
    #[error("the message has {0} bytes too many; run the same version of weir on all nodes")]
    TooLong(usize),
    /// The version is not known.
    #[error("the {what} has version {found}, and this weir knows {known}; run the same version of weir on all nodes")]
    Version {
        /// What has it.
        what: &'static str,
        /// The version that it has.
        found: u8,
        /// The version that is known.
        known: u8,
    },
    /// A field has a value that is not known.
    #[error("the field {0} has a value that is not known; run the same version of weir on all nodes")]
    Unknown(&'static str),
    /// A field is larger than its bound.
    #[error("the field {what} has {bytes} bytes, and {max} are allowed; move the session when less of it is under way")]
    Bound {
        /// The field.
        what: &'static str,
        /// The bytes that it has.
        bytes: usize,
        /// The bytes that it may have.
        max: usize,
    },
}

impl From<DecodeError> for FieldError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Short => Self::Short,
            DecodeError::Long => Self::Unknown("state of the connection"),
            DecodeError::Unknown(what) => Self::Unknown(what),
        }
    }
}

/// Bytes that are still to be read.
#[derive(Debug)]
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FieldError> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(FieldError::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FieldError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, FieldError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FieldError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FieldError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn flag(&mut self, what: &'static str) -> Result<bool, FieldError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FieldError::Unknown(what)),
        }
    }

    /// Bytes behind their length, at most `max`.
    pub(crate) fn bytes(&mut self, what: &'static str, max: usize) -> Result<&'b [u8], FieldError> {
        let bytes = self.u32()? as usize;
        if bytes > max {
            return Err(FieldError::Bound { what, bytes, max });
        }
        let (found, rest) = self.0.split_at_checked(bytes).ok_or(FieldError::Short)?;
        self.0 = rest;
        Ok(found)
    }

    pub(crate) fn text(&mut self, what: &'static str, max: usize) -> Result<String, FieldError> {
        let bytes = self.bytes(what, max)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| FieldError::Unknown(what))
    }

    pub(crate) fn flow(&mut self) -> Result<Flow, FieldError> {
        Ok(Flow::decode(&mut self.0)?)
    }

    pub(crate) fn tcp(&mut self) -> Result<TcpState, FieldError> {
        Ok(TcpState::decode(&mut self.0)?)
    }

    pub(crate) fn seen(&mut self) -> Result<Option<Seen>, FieldError> {
        if self.flag("seen")? { Ok(Some(Seen::decode(&mut self.0)?)) } else { Ok(None) }
    }

    pub(crate) fn version(&mut self, what: &'static str, known: u8) -> Result<(), FieldError> {
        let found = self.u8()?;
        if found == known { Ok(()) } else { Err(FieldError::Version { what, found, known }) }
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<(), FieldError> {
        if self.0.is_empty() { Ok(()) } else { Err(FieldError::TooLong(self.0.len())) }
    }
}

/// Appends bytes behind their length.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    // Longer ones are refused by the bound of a message before they are sent.
    out.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(bytes);
}

/// Appends what was seen of a client, if anything was.
pub(crate) fn put_seen(seen: Option<&Seen>, out: &mut Vec<u8>) {
    out.push(u8::from(seen.is_some()));
    if let Some(seen) = seen {
        seen.encode(out);
    }
}
