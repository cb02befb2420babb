//! Connection ids that lead back to a loop.
//!
//! The kernel chooses among the sockets of an address by the client's address and port. A client that moves, or whose
//! router gives it another port, would come to another loop. So the first two bytes of each id, as a number modulo the
//! count of loops, are the loop's number, and a filter at the sockets goes by that.
//! The kernel keeps choosing for packets of the handshake: they carry ids that the client has made up, and a client may
//! not move before the handshake is over (RFC 9000 section 9). The three bytes that follow are the server's tag: by it
//! a server that has taken the sockets over tells which datagrams are for the old one. The first ten bits of the tag of
//! a cluster's node are its number: the director goes by them. The rest of an id is random.

use super::handed::{ID_BYTES, Place};
use quinn_proto::{ConnectionId, ConnectionIdGenerator};
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Ids that are made of one call for randomness.
const IDS_AT_ONCE: usize = 32;

/// Makes the ids of one loop.
#[derive(Debug)]
pub(super) struct LoopIds {
    index: u16,
    loops: u16,
    /// Its lower three bytes.
    tag: u32,
    random: SystemRandom,
    pool: [u8; IDS_AT_ONCE * ID_BYTES],
    used: usize,
}

impl LoopIds {
    /// Those that lead to a socket.
    pub(super) fn new(place: Place) -> Self {
        let Place { tag, index, count } = place;
        let pool = [0; IDS_AT_ONCE * ID_BYTES];
        Self { index, loops: count.max(1), tag, random: SystemRandom::new(), pool, used: pool.len() }
    }
}

impl ConnectionIdGenerator for LoopIds {
    fn generate_cid(&mut self) -> ConnectionId {
        if self.used == self.pool.len() {
            // Linux has randomness from the start; without any, ids would repeat, and QUIC refuses those.
            let _ = self.random.fill(&mut self.pool);
            self.used = 0;
        }
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&self.pool[self.used..self.used + ID_BYTES]);
        self.used += ID_BYTES;
        let number = u16::from_be_bytes([id[0], id[1]]);
        // The largest numbers have no whole row of loops.
        let row = (number / self.loops).min(u16::MAX / self.loops - 1);
        id[..2].copy_from_slice(&(row * self.loops + self.index).to_be_bytes());
        id[2..5].copy_from_slice(&self.tag.to_be_bytes()[1..]);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Has the kernel lead datagrams to the sockets of an address by their ids. The sockets have the numbers in which they
/// were bound; any of them stands for all.
pub(super) fn lead_to_sockets(socket: &impl AsRawFd, count: u16) -> io::Result<()> {
    let ld = |size: u32, at: u32| filter(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
    let mut program = [
        // A packet with a long header is left to the kernel, by a number that no socket has.
        ld(libc::BPF_B, 0),
        filter(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 3, 0, 0x80),
        ld(libc::BPF_H, 1),
        filter(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, u32::from(count)),
        filter(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    attach(socket.as_raw_fd(), &program)
}

fn filter(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn attach(fd: RawFd, program: &libc::sock_fprog) -> io::Result<()> {
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
    // SAFETY: the kernel copies the program, which the structure points to; both live over the call.
    crate::io::epoll::check(unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(program).cast(), len) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::handed::address_of;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_is_too_short_or_has_an_id_of_another_length_has_no_address() {
        for datagram in [&[][..], &[0x40], &[0x40; 8], &[0xc0; 5], &[0xc0, 0, 0, 0, 1, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
            assert_eq!(address_of(datagram), None);
        }
    }

    #[test]
    fn ids_lead_to_their_loop_and_are_made_of_randomness() {
        for loops in [1, 2, 3, 7, 64, 1000, 1024] {
            for index in [0, loops / 2, loops - 1] {
                let narrow = |number: usize| u16::try_from(number).expect("few");
                let mut ids = LoopIds::new(Place { tag: 0x00_ab_cd, index: narrow(index), count: narrow(loops) });
                let made: HashSet<ConnectionId> = (0..1000).map(|_| ids.generate_cid()).collect();
                // With 1,024 loops 30 bits are random: two of 1,000 are alike about once in 2,000 times. QUIC's endpoint
                // then asks for another one. Five pairs by chance: less than once in 10^18 times.
                assert!(made.len() > 995, "{} of 1,000 ids are different", made.len());
                let leads = |id: &ConnectionId| usize::from(u16::from_be_bytes([id[0], id[1]])) % loops == index;
                assert!(made.iter().all(leads));
                for id in &made {
                    let short = [&[0x40], &id[..], &[1, 2, 3]].concat();
                    let long = [&[0xc0, 0, 0, 0, 1, 8], &id[..], &[0]].concat();
                    let (tag, number) = address_of(&short).expect("is there");
                    assert_eq!((tag, usize::from(number) % loops), (0x00_ab_cd, index));
                    assert_eq!(address_of(&long), address_of(&short));
                }
            }
        }
    }
}
