//! The buffers that receptions fill (io_uring_register_buf_ring(3)): their ring, and behind it their bytes.

use io_uring::{IoUring, types};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

/// Buffers of one group, each either ours or the kernel's. `COUNT` is a power of two; `BYTES` are those of one. They are
/// constants, as each reception calculates with them.
#[derive(Debug)]
pub(super) struct Buffers<const GROUP: u16, const COUNT: u16, const BYTES: usize> {
    memory: *mut u8,
    tail: u16,
}

/// For clients: most heads of requests fit, and a longer one takes several.
pub(super) type ClientBuffers = Buffers<0, 512, 2048>;
/// For upstreams: most responses of applications fit.
pub(super) type UpstreamBuffers = Buffers<1, 128, { 16 << 10 }>;

// SAFETY: the memory is this value's alone, and is reached by it only.
unsafe impl<const GROUP: u16, const COUNT: u16, const BYTES: usize> Send for Buffers<GROUP, COUNT, BYTES> {}

impl<const GROUP: u16, const COUNT: u16, const BYTES: usize> Buffers<GROUP, COUNT, BYTES> {
    pub(super) const GROUP: u16 = GROUP;
    pub(super) const BYTES: usize = BYTES;
    /// Bytes of the ring of their descriptions.
    const RING_BYTES: usize = COUNT as usize * size_of::<types::BufRingEntry>();
    const ALL_BYTES: usize = Self::RING_BYTES + COUNT as usize * BYTES;

    /// Makes them, all the kernel's; they must live as long as the ring. What is never filled takes no memory.
    pub(super) fn new(ring: &IoUring) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh private mapping touches nothing that exists.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), Self::ALL_BYTES, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut buffers = Self { memory: memory.cast(), tail: 0 };
        // SAFETY: the memory is page-aligned and large enough; the ring's owner unmaps it after the ring is closed.
        unsafe { ring.submitter().register_buf_ring_with_flags(memory as u64, COUNT, GROUP, 0) }?;
        (0..COUNT).for_each(|buffer| buffers.give_back(buffer));
        buffers.publish();
        Ok(buffers)
    }

    /// The bytes of a buffer that is ours.
    #[inline]
    pub(super) fn bytes(&self, buffer: u16) -> &[u8] {
        // SAFETY: the place lies within the memory, and the kernel writes nothing to what it has not been given back.
        unsafe { std::slice::from_raw_parts(self.place(buffer), BYTES) }
    }

    /// Lets the kernel have a buffer, once it is shown the tail.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: u16) {
        let place = self.place(buffer) as u64;
        let index = usize::from(self.tail % COUNT);
        // SAFETY: the entry lies within the ring, and the kernel reads it only below the published tail.
        let entry = unsafe { &mut *self.memory.cast::<types::BufRingEntry>().add(index) };
        entry.set_addr(place);
        entry.set_len(BYTES as u32);
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
        let index = usize::from(buffer % COUNT);
        self.memory.wrapping_add(Self::RING_BYTES + index * BYTES)
    }
}

impl<const GROUP: u16, const COUNT: u16, const BYTES: usize> Drop for Buffers<GROUP, COUNT, BYTES> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its ring is closed. It can only fail for a wrong address.
        unsafe { libc::munmap(self.memory.cast(), Self::ALL_BYTES) };
    }
}
