//! The buffers that receptions fill (io_uring_register_buf_ring(3)): their ring, and behind it their bytes.

use io_uring::{IoUring, types};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

/// How many there are, a power of two.
pub(super) const BUFFERS: u16 = 512;
/// Bytes of one: most heads of requests fit, and a longer one takes several.
pub(super) const BUFFER_BYTES: usize = 2048;
/// Their group.
pub(super) const GROUP: u16 = 0;
/// Bytes of their ring.
const RING_BYTES: usize = BUFFERS as usize * size_of::<types::BufRingEntry>();

/// Buffers, each either ours or the kernel's.
#[derive(Debug)]
pub(super) struct Buffers {
    memory: *mut u8,
    tail: u16,
}

// SAFETY: the memory is this value's alone, and is reached by it only.
unsafe impl Send for Buffers {}

impl Buffers {
    const BYTES: usize = RING_BYTES + BUFFERS as usize * BUFFER_BYTES;

    /// Makes them, all the kernel's; they must live as long as the ring.
    pub(super) fn new(ring: &IoUring) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh private mapping touches nothing that exists.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut buffers = Self { memory: memory.cast(), tail: 0 };
        // SAFETY: the memory is page-aligned and large enough; the ring's owner unmaps it after the ring is closed.
        unsafe { ring.submitter().register_buf_ring_with_flags(memory as u64, BUFFERS, GROUP, 0) }?;
        (0..BUFFERS).for_each(|buffer| buffers.give_back(buffer));
        buffers.publish();
        Ok(buffers)
    }

    /// The bytes of a buffer that is ours.
    #[inline]
    pub(super) fn bytes(&self, buffer: u16) -> &[u8] {
        // SAFETY: the place lies within the memory, and the kernel writes nothing to what it has not been given back.
        unsafe { std::slice::from_raw_parts(self.place(buffer), BUFFER_BYTES) }
    }

    /// Lets the kernel have a buffer, once it is shown the tail.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: u16) {
        let place = self.place(buffer) as u64;
        let index = usize::from(self.tail % BUFFERS);
        // SAFETY: the entry lies within the ring, and the kernel reads it only below the published tail.
        let entry = unsafe { &mut *self.memory.cast::<types::BufRingEntry>().add(index) };
        entry.set_addr(place);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel the buffers that were given back.
    #[inline]
    pub(super) fn publish(&self) {
        // SAFETY: the tail lies in the first entry, which is ours and aligned; the kernel reads it with acquire.
        unsafe {
            let tail = types::BufRingEntry::tail(self.memory.cast()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    #[inline]
    fn place(&self, buffer: u16) -> *mut u8 {
        self.memory.wrapping_add(RING_BYTES + usize::from(buffer % BUFFERS) * BUFFER_BYTES)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its ring is closed. It can only fail for a wrong address.
        unsafe { libc::munmap(self.memory.cast(), Self::BYTES) };
    }
}
