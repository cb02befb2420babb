//! Datagrams of a connected UDP socket: many with one call each way where the kernel can (UDP_GRO, UDP_SEGMENT), with
//! the time at which each came.

use crate::connect::kernel::Kernel;
use std::io;
use std::os::fd::RawFd;

/// Receptions of one call. Each may be several datagrams that came together.
pub(crate) const RECEPTIONS: usize = 8;
/// Bytes of a reception: the most that the kernel puts together.
const RECEPTION_BYTES: usize = 64 << 10;
/// Room for what the kernel says beside a reception: its time, the size of its datagrams, and its traffic class.
const CONTROL_WORDS: usize = 16;
/// The bits of a traffic class that tell of congestion (RFC 3168 5).
const ECN_BITS: u8 = 3;

/// One reception: datagrams of one size, the last of which may be shorter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reception {
    pub(crate) bytes: usize,
    /// Bytes of each datagram.
    pub(crate) datagram_bytes: usize,
    /// The congestion bits.
    pub(crate) ecn: u8,
    /// When the first of it came, by CLOCK_REALTIME; 0 = not known.
    pub(crate) came_real_ns: u64,
}

/// What one call received.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Box<[u8]>,
    receptions: [Reception; RECEPTIONS],
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; RECEPTIONS * RECEPTION_BYTES].into_boxed_slice(),
            receptions: [Reception::default(); RECEPTIONS],
        }
    }

    /// A reception of the last call.
    pub(crate) fn reception(&self, place: usize) -> (Reception, &[u8]) {
        let reception = self.receptions[place];
        let begin = place * RECEPTION_BYTES;
        (reception, &self.bytes[begin..begin + reception.bytes])
    }
}

/// CLOCK_REALTIME in nanoseconds, by which the kernel tells when datagrams came.
pub(crate) fn real_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result; the clock exists on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    nanoseconds(time)
}

fn nanoseconds(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Kernel {
    /// Receives what is there, without waiting; returns how many receptions there are, fewer than [`RECEPTIONS`] where
    /// nothing more was there.
    pub(crate) fn receive_datagrams(&mut self, fd: RawFd, inbox: &mut Inbox) -> io::Result<usize> {
        self.calls.receive += 1;
        let mut controls = [[0u64; CONTROL_WORDS]; RECEPTIONS];
        let bytes = inbox.bytes.as_mut_ptr();
        let mut pieces: [libc::iovec; RECEPTIONS] = std::array::from_fn(|place| {
            // SAFETY: each piece lies within the buffer, which has room for all of them.
            let piece = unsafe { bytes.add(place * RECEPTION_BYTES) };
            libc::iovec { iov_base: piece.cast(), iov_len: RECEPTION_BYTES }
        });
        // SAFETY: all-zero headers are valid: they name nothing.
        let mut messages: [libc::mmsghdr; RECEPTIONS] = unsafe { std::mem::zeroed() };
        for ((message, piece), control) in messages.iter_mut().zip(&mut pieces).zip(&mut controls) {
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = size_of_val(control);
        }
        // SAFETY: the headers, and all that they name, outlive the call; the count is theirs, and no time is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_recvmmsg,
                fd,
                messages.as_mut_ptr(),
                RECEPTIONS as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (reception, message) in inbox.receptions.iter_mut().zip(&messages[..count]) {
            *reception = told(message);
        }
        Ok(count)
    }

    /// Gives datagrams of one size to the kernel, the last of which may be shorter, without waiting.
    pub(crate) fn send_datagrams(&mut self, fd: RawFd, bytes: &[u8], datagram_bytes: Option<u16>) -> io::Result<()> {
        let Some(datagram_bytes) = datagram_bytes else { return self.send(fd, bytes).map(drop) };
        self.calls.send += 1;
        let mut control = [0u64; CONTROL_WORDS];
        let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: an all-zero header is valid: it names nothing. The kernel only reads what it is given here; the control
        // buffer is aligned and has room for one message of two bytes.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut piece;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as usize;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_UDP;
            (*head).cmsg_type = libc::UDP_SEGMENT;
            (*head).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
            libc::CMSG_DATA(head).cast::<u16>().write_unaligned(datagram_bytes);
            libc::syscall(libc::SYS_sendmsg, fd, &raw const message, libc::MSG_NOSIGNAL)
        };
        usize::try_from(sent).map(drop).map_err(|_| io::Error::last_os_error())
    }

    /// Stops telling the network that congestion bits are heeded, where they do not arrive.
    pub(crate) fn stop_ecn(&mut self, fd: RawFd, is_v6: bool) {
        self.calls.other += 1;
        let none: libc::c_int = 0;
        let (level, option) = match is_v6 {
            true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            false => (libc::IPPROTO_IP, libc::IP_TOS),
        };
        // SAFETY: `none` outlives the call and its size is given. Where it fails the bits stay, which harms nothing.
        unsafe { libc::setsockopt(fd, level, option, (&raw const none).cast(), size_of_val(&none) as u32) };
    }
}

/// What the kernel says of a reception.
fn told(message: &libc::mmsghdr) -> Reception {
    let bytes = message.msg_len as usize;
    let mut reception = Reception { bytes, datagram_bytes: bytes, ..Reception::default() };
    // SAFETY: the kernel filled the header and the control buffer that it names, which both are still there; each message
    // that the macros find lies within them, and has as many bytes as its type says.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&raw const message.msg_hdr);
        while let Some(control) = head.as_ref() {
            let data = libc::CMSG_DATA(head);
            match (control.cmsg_level, control.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    reception.came_real_ns = nanoseconds(data.cast::<libc::timespec>().read_unaligned());
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = data.cast::<libc::c_int>().read_unaligned();
                    reception.datagram_bytes = usize::try_from(size).unwrap_or(bytes).clamp(1, bytes.max(1));
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => reception.ecn = data.read() & ECN_BITS,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    reception.ecn = data.cast::<libc::c_int>().read_unaligned() as u8 & ECN_BITS;
                }
                _ => {}
            }
            head = libc::CMSG_NXTHDR(&raw const message.msg_hdr, head);
        }
    }
    reception
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::datagram_socket::prepare;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    #[test]
    fn datagrams_come_as_they_were_sent_and_say_when() {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (one, other) = (one.expect("a port"), other.expect("a port"));
        one.connect(other.local_addr().expect("an address")).expect("it connects");
        other.connect(one.local_addr().expect("an address")).expect("it connects");
        [&one, &other].iter().for_each(|socket| prepare(socket.as_raw_fd(), false));
        let mut kernel = Kernel::new(&crate::Sockets::default()).expect("an epoll instance");
        let before_ns = real_ns();
        let bytes: Vec<u8> = (0..2500u32).map(|number| number as u8).collect();
        kernel.send_datagrams(one.as_raw_fd(), &bytes, Some(1000)).expect("they are sent");
        kernel.send_datagrams(one.as_raw_fd(), b"alone", None).expect("it is sent");
        let mut inbox = Inbox::new();
        let count = kernel.receive_datagrams(other.as_raw_fd(), &mut inbox).expect("they came");
        let mut found = Vec::new();
        for place in 0..count {
            let (reception, bytes) = inbox.reception(place);
            assert!((before_ns..=real_ns()).contains(&reception.came_real_ns), "{reception:?}");
            assert_eq!(reception.ecn, 2);
            found.extend(bytes.chunks(reception.datagram_bytes).map(<[u8]>::to_vec));
        }
        assert_eq!(found, [&bytes[..1000], &bytes[1000..2000], &bytes[2000..], b"alone"]);
        let blocked = kernel.receive_datagrams(other.as_raw_fd(), &mut inbox).expect_err("nothing more");
        assert_eq!(blocked.kind(), io::ErrorKind::WouldBlock);
        assert_eq!((kernel.calls.send, kernel.calls.receive), (2, 2));
    }
}
