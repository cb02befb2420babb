//! Fields of a head as HTTP/2 and HTTP/3 carry them, in memory that is used again.

/// Bytes that a field counts beside its name and its value (RFC 7541 section 4.1, RFC 9204 section 3.2.1).
pub(crate) const ENTRY_BYTES: usize = 32;

/// A block of fields that cannot be read: the connection is lost, as the tables of both sides differ from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// Fields of one block, in memory that is used again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    /// What was read, and while a block is read what is not kept yet.
    pub(crate) bytes: Vec<u8>,
    /// Where each field ends: its name, its value.
    ends: Vec<(u32, u32)>,
    /// There were more or larger ones than were wanted; they are not here.
    pub(crate) is_too_large: bool,
}

impl Fields {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.is_too_large = false;
    }

    /// Keeps what was appended from a place on, with its name's end, if it is within the bounds; `size` counts all.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        (start, name_end): (usize, usize),
        size: &mut usize,
        bounds: Bounds,
    ) -> Result<(), Unreadable> {
        *size += self.bytes.len() - start + ENTRY_BYTES;
        if *size / 16 > bounds.bytes_max {
            // Short blocks can say much again and again; reading that for nothing has an end.
            return Err(Unreadable);
        }
        if *size > bounds.bytes_max || self.ends.len() == bounds.fields_max {
            self.is_too_large = true;
            self.bytes.truncate(start);
        } else {
            // A block is bounded far below this type.
            self.ends.push((name_end as u32, self.bytes.len() as u32));
        }
        Ok(())
    }

    /// Adds a field.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        // What is copied comes from a block, which is bounded far below this type, and from the configuration.
        let name_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len() as u32));
    }

    /// Names and values in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, end)| {
            let (name_end, end) = (name_end as usize, end as usize);
            let field = (&self.bytes[start..name_end], &self.bytes[name_end..end]);
            start = end;
            field
        })
    }
}

/// How much of a block is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes as the standard counts them: names, values, 32 for each field.
    pub(crate) bytes_max: usize,
    pub(crate) fields_max: usize,
}
