//! Spreads new connections over nodes, so that two directors agree and a node that leaves moves few connections.
//!
//! A Maglev table (Eisenbud et al., NSDI 2016, section 3.4): each node has an order of its own over all entries, and the
//! nodes take turns to take the next free one. A connection's entry is a hash of the client's address and port.

use crate::flow_key::mapped;
use std::net::SocketAddr;

/// Entries of a table: a prime, so that each node's steps reach all of them.
pub const ENTRIES: usize = 4099;
/// Numbers of nodes are below this.
pub const NODES_MAX: u16 = 1024;
/// In an entry: there is no node.
pub const NO_NODE: u16 = u16::MAX;

/// `CLIENT_HASH_KEY` of `bpf/direct.bpf.c`.
const CLIENT_KEY: u64 = 0x0077_6569_7264_6972;
/// Of a node's first entry, and of its steps.
const OFFSET_KEY: u64 = 0x6f66_6673_6574;
const STEP_KEY: u64 = 0x736b_6970;

/// The table of these nodes; their order and repetitions do not matter.
#[must_use]
pub fn table(nodes: &[u16]) -> Vec<u16> {
    let mut nodes = nodes.to_vec();
    nodes.sort_unstable();
    nodes.dedup();
    let mut entries = vec![NO_NODE; ENTRIES];
    if nodes.is_empty() {
        return entries;
    }
    // Each node's next entry, and its step.
    let mut walks: Vec<(usize, usize)> = nodes.iter().map(|node| walk(*node)).collect();
    let mut free = ENTRIES;
    loop {
        for (node, (at, step)) in nodes.iter().zip(&mut walks) {
            // It ends: an entry is free, and the steps reach all entries.
            while entries[*at] != NO_NODE {
                *at = (*at + *step) % ENTRIES;
            }
            entries[*at] = *node;
            free -= 1;
            if free == 0 {
                return entries;
            }
        }
    }
}

/// The entry of a client's connection; the filter computes the same.
#[must_use]
pub fn entry(client: SocketAddr) -> usize {
    let octets = mapped(client).octets();
    let words = octets.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    let hash = words.fold(CLIENT_KEY, |hash, word| mix(hash ^ u64::from(word)));
    (mix(hash ^ u64::from(client.port())) % ENTRIES as u64) as usize
}

fn walk(node: u16) -> (usize, usize) {
    let hash = |key| mix(mix(key) ^ u64::from(node));
    let at = hash(OFFSET_KEY) % ENTRIES as u64;
    let step = hash(STEP_KEY) % (ENTRIES as u64 - 1) + 1;
    (at as usize, step as usize)
}

/// The finaliser of MurmurHash3 (64 bits).
fn mix(mut value: u64) -> u64 {
    value ^= value >> 33;
    value = value.wrapping_mul(0xff51_afd7_ed55_8ccd);
    value ^= value >> 33;
    value = value.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(table: &[u16], node: u16) -> usize {
        table.iter().filter(|entry| **entry == node).count()
    }

    #[test]
    fn two_tables_of_the_same_nodes_are_equal() {
        assert_eq!(table(&[3, 1, 7, 1000]), table(&[1000, 7, 3, 1, 1]));
        assert!(table(&[]).iter().all(|entry| *entry == NO_NODE));
        assert!(table(&[5]).iter().all(|entry| *entry == 5));
    }

    #[test]
    fn each_node_has_an_equal_share() {
        let nodes: Vec<u16> = (0..10).collect();
        let table = table(&nodes);
        for node in nodes {
            // The turns differ by one entry at most.
            assert!((409..=410).contains(&share(&table, node)), "{node}: {}", share(&table, node));
        }
    }

    #[test]
    fn a_node_that_leaves_moves_few_others() {
        for gone in 0..10u16 {
            let all: Vec<u16> = (0..10).collect();
            let rest: Vec<u16> = all.iter().copied().filter(|node| *node != gone).collect();
            let (before, after) = (table(&all), table(&rest));
            let moved = before.iter().zip(&after).filter(|(old, new)| **old != gone && old != new).count();
            // The paper's figure 12 has some 5 % for larger tables; a hash modulo the nodes would move 90 %.
            assert!(moved < ENTRIES / 10, "{moved} entries moved without {gone}");
        }
    }

    #[test]
    fn clients_are_spread_over_all_entries() {
        let table = table(&[0, 1, 2, 3]);
        let mut shares = [0; 4];
        for port in 1024..=u16::MAX {
            shares[usize::from(table[entry((std::net::Ipv4Addr::new(10, 0, 0, 2), port).into())])] += 1;
        }
        assert!(shares.iter().all(|share| (15_000..17_300).contains(share)), "{shares:?}");
    }
}
