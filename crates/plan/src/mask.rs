//! Sets of nodes: a bit for each node.

/// The nodes of a mask.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}

/// All of 1 to 64 nodes.
pub(crate) fn all(nodes: u32) -> u64 {
    u64::MAX >> (64 - nodes.clamp(1, 64))
}
