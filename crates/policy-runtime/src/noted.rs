//! A small table of clients that the statistics have noted in this period.

/// Places of the table, a power of two; each holds one client.
const NOTED: usize = 4096;

/// Maps a client to its place among the clients of this period. A collision replaces the entry, and the client may then
/// get a second place.
#[derive(Debug)]
pub(crate) struct Noted(Box<[(u64, u32)]>);

/// The number of no client: it would stand for a network of all ones, which does not exist.
const NO_CLIENT: u64 = u64::MAX;

impl Default for Noted {
    fn default() -> Self {
        Self(vec![(NO_CLIENT, 0); NOTED].into_boxed_slice())
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
        self.0.fill((NO_CLIENT, 0));
    }
}
