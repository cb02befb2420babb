//! What came over TCP by a device, as it was on the wire.

use crate::namespace::Namespace;
use crate::slow_link::socket_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes of all segments that are kept.
const BYTES_MAX: usize = 256 << 20;
/// A frame of a virtual device may be as large as a packet of IPv4.
const FRAME_BYTES_MAX: usize = 128 << 10;
const PAUSE_MS: i32 = 20;

/// A segment of TCP over IPv4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The port that it comes from.
    pub from: u16,
    /// The port that it goes to.
    pub to: u16,
    /// The sequence number of its first byte.
    pub sequence: u32,
    /// Its bytes, at least one.
    pub bytes: Vec<u8>,
}

/// Listens to what comes into a device until it is asked.
#[derive(Debug)]
pub struct Tap {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<Segment>, usize)>,
}

impl Tap {
    /// At this device of a namespace.
    ///
    /// # Panics
    /// Without the right to listen, or without the device.
    pub fn new(namespace: &Namespace, device: &str) -> Self {
        let socket = namespace.within(|| socket_of(device)).expect("the device is there");
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        Self { is_over, thread: std::thread::spawn(move || listen(&socket, &over)) }
    }

    /// All segments with bytes, in their order.
    ///
    /// # Panics
    /// If there were too many to be kept.
    pub fn finish(self) -> Vec<Segment> {
        self.is_over.store(true, Ordering::Relaxed);
        let (segments, dropped) = self.thread.join().expect("no panic");
        assert_eq!(dropped, 0, "segments beyond {BYTES_MAX} bytes");
        segments
    }
}

fn listen(socket: &OwnedFd, is_over: &AtomicBool) -> (Vec<Segment>, usize) {
    let (mut segments, mut bytes, mut dropped) = (Vec::new(), 0, 0);
    let mut frame = vec![0; FRAME_BYTES_MAX];
    while !is_over.load(Ordering::Relaxed) {
        let mut ready = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the call reads and writes the one structure, which lives over it.
        if unsafe { libc::poll(&raw mut ready, 1, PAUSE_MS) } <= 0 {
            continue;
        }
        // SAFETY: the kernel writes at most as many bytes as the memory has, which lives over the call.
        let got = unsafe { libc::recv(socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
        let Some(segment) = usize::try_from(got).ok().and_then(|got| segment_of(&frame[..got])) else { continue };
        if bytes + segment.bytes.len() > BYTES_MAX {
            dropped += 1;
            continue;
        }
        bytes += segment.bytes.len();
        segments.push(segment);
    }
    (segments, dropped)
}

/// The segment of an Ethernet frame (RFC 894, RFC 791 section 3.1, RFC 9293 section 3.1); none of another protocol, or
/// without bytes.
fn segment_of(frame: &[u8]) -> Option<Segment> {
    let short = |bytes: &[u8], at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    if short(frame, 12)? != 0x0800 {
        return None;
    }
    let packet = frame.get(14..)?;
    let (head, length) = (usize::from(packet.first()? & 15) * 4, usize::from(short(packet, 2)?));
    if *packet.get(9)? != 6 {
        return None;
    }
    let segment = packet.get(head..length)?;
    let bytes = segment.get(usize::from(segment.get(12)? >> 4) * 4..)?;
    let sequence = u32::from_be_bytes(segment.get(4..8)?.try_into().ok()?);
    (!bytes.is_empty()).then(|| Segment {
        from: u16::from_be_bytes([segment[0], segment[1]]),
        to: u16::from_be_bytes([segment[2], segment[3]]),
        sequence,
        bytes: bytes.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_read_and_nothing_else() {
        let mut frame = vec![0; 14 + 20 + 20];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[17] = 43;
        frame[23] = 6;
        frame[34..42].copy_from_slice(&[1, 187, 0x9c, 0x41, 0, 0, 1, 2]);
        frame[46] = 0x50;
        frame.extend_from_slice(b"abc padding");
        let expected = Segment { from: 443, to: 40_001, sequence: 258, bytes: b"abc".to_vec() };
        assert_eq!(segment_of(&frame), Some(expected));
        for end in 0..57 {
            assert_eq!(segment_of(&frame[..end]), None, "{end}");
        }
        frame[23] = 17;
        assert_eq!(segment_of(&frame), None);
    }
}
