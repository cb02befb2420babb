//! Who is known to be told of already.

/// Clients that are known to be told already: one for each place of a table, a power of two of them.
const NOTED: usize = 4096;

/// Which clients were seen since the last look, each with its place among them, as far as there is room: a client that is
/// not here may be seen again.
#[derive(Debug)]
pub(crate) struct Noted(Box<[(u64, u32)]>);

/// The client of no request: it would be one of a network of all ones, of which none is.
const NOBODY: u64 = u64::MAX;

impl Default for Noted {
    fn default() -> Self {
        Self(vec![(NOBODY, 0); NOTED].into_boxed_slice())
    }
}

impl Noted {
    /// The place of a client.
    pub(crate) fn of(&mut self, client: u64) -> &mut (u64, u32) {
        // The upper bits of the product depend on all bits of the number.
        let hash = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NOTED.ilog2());
        &mut self.0[hash as usize % NOTED]
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill((NOBODY, 0));
    }
}
