//! A link of Ethernet with delay and loss between two interfaces, in a process: what netem does where the kernel has it.
//! As root. It is meant for some 10,000 frames a second.

use crate::namespace::{Namespace, ip};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that are under way in one direction; frames above are dropped, and counted.
const UNDER_WAY_MAX: usize = 64 << 20;
/// An Ethernet frame of the usual size.
const FRAME_BYTES: usize = 1514;
/// How often it is looked whether the link is to end.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes that a socket holds between two looks.
const SOCKET_BYTES: libc::c_int = 16 << 20;

/// What the link does to frames, in each direction.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    /// How long a frame is under way.
    pub delay: Duration,
    /// One in so many frames is lost by chance; 0: none.
    pub loses_one_in: u64,
    /// Chance begins here.
    pub seed: u64,
}

/// What came of the frames, in both directions.
#[derive(Debug, Default)]
pub struct Frames {
    /// Passed on.
    pub passed: AtomicU64,
    /// Lost on purpose.
    pub lost: AtomicU64,
    /// Lost as there were too many, or as the other end did not take them.
    pub dropped: AtomicU64,
}

/// A link; it ends with the value.
#[derive(Debug)]
pub struct SlowLink {
    _between: Namespace,
    ends: Arc<AtomicBool>,
    frames: Arc<Frames>,
    threads: Vec<JoinHandle<()>>,
}

impl SlowLink {
    /// Makes a link from the device `e0` of one namespace, with this hardware address, to the device `plug` of another.
    /// Both devices are made here.
    ///
    /// # Panics
    /// Without root or iproute2.
    pub fn new(from: &Namespace, mac: &str, (to, plug): (&Namespace, &str), conditions: Conditions) -> Self {
        let between = Namespace::new("slow-link");
        let own = between.name();
        let near = ["link", "add", "e0", "netns", from.name(), "address", mac, "type", "veth", "peer", "name", "near"];
        ip(&[&near[..], &["netns", own]].concat());
        let far = ["link", "add", plug, "netns", to.name(), "type", "veth", "peer", "name", "far", "netns", own];
        ip(&far);
        for end in ["near", "far"] {
            ip(&["-n", own, "link", "set", end, "up"]);
        }
        // The kernel would hand over segments of 64 KiB, with checksums that are still to be made.
        from.within(|| plain_frames("e0").expect("ethtool of e0"));
        to.within(|| plain_frames(plug).expect("ethtool of the plug"));
        let sockets = || Ok::<_, io::Error>((socket_of("near")?, socket_of("far")?));
        let (there, back) = between.within(|| (sockets().expect("sockets"), sockets().expect("sockets")));
        let (ends, frames) = (Arc::<AtomicBool>::default(), Arc::<Frames>::default());
        let directions = [(there.0, there.1, conditions.seed), (back.1, back.0, conditions.seed ^ u64::MAX)];
        let threads = directions.map(|(from, to, seed)| {
            let (ends, frames) = (Arc::clone(&ends), Arc::clone(&frames));
            std::thread::spawn(move || {
                let waiting = VecDeque::new();
                Direction { from, to, conditions, chance: seed | 1, frames, waiting, bytes: 0 }.run(&ends);
            })
        });
        Self { _between: between, ends, frames, threads: threads.into() }
    }

    /// What came of the frames so far.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Direction {
    from: OwnedFd,
    to: OwnedFd,
    conditions: Conditions,
    chance: u64,
    frames: Arc<Frames>,
    waiting: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

impl Direction {
    fn run(mut self, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            let due = self.waiting.front().map_or(LOOK, |(at, _)| at.saturating_duration_since(Instant::now()));
            if self.has_input(due.min(LOOK)) {
                self.take_in();
            }
            self.pass_on();
        }
    }

    fn has_input(&self, patience: Duration) -> bool {
        let mut polled = libc::pollfd { fd: self.from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        // SAFETY: both structures live over the call; no signals are masked.
        unsafe { libc::ppoll(&raw mut polled, 1, &raw const time, std::ptr::null()) > 0 }
    }

    /// Takes in what is there.
    fn take_in(&mut self) {
        let mut buffer = [0; FRAME_BYTES + 1];
        loop {
            // SAFETY: the buffer has as many bytes as the call is told.
            let length = unsafe {
                let place = buffer.as_mut_ptr().cast();
                libc::recv(self.from.as_raw_fd(), place, buffer.len(), libc::MSG_DONTWAIT | libc::MSG_TRUNC)
            };
            let Ok(length) = usize::try_from(length) else { return };
            if self.conditions.loses_one_in > 0 && self.next().is_multiple_of(self.conditions.loses_one_in) {
                self.frames.lost.fetch_add(1, Ordering::Relaxed);
            } else if length > FRAME_BYTES || self.bytes + length > UNDER_WAY_MAX {
                self.frames.dropped.fetch_add(1, Ordering::Relaxed);
            } else {
                self.bytes += length;
                self.waiting.push_back((Instant::now() + self.conditions.delay, buffer[..length].to_vec()));
            }
        }
    }

    /// Passes on what is due.
    fn pass_on(&mut self) {
        while self.waiting.front().is_some_and(|(at, _)| *at <= Instant::now()) {
            let Some((_, frame)) = self.waiting.pop_front() else { return };
            self.bytes -= frame.len();
            // SAFETY: the frame has as many bytes as the call is told.
            let sent = unsafe { libc::send(self.to.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
            let count = if sent < 0 { &self.frames.dropped } else { &self.frames.passed };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next number by chance (xorshift64, Marsaglia 2003).
    fn next(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }
}

/// All frames that come in by a device, and no others (packet(7)).
pub(crate) fn socket_of(device: &str) -> io::Result<OwnedFd> {
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the call takes numbers only.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(all)) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened just now, and is no other's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let name = std::ffi::CString::new(device)?;
    // SAFETY: all zeroes are a valid address; the name ends with a zero.
    let (mut address, index) =
        unsafe { (std::mem::zeroed::<libc::sockaddr_ll>(), libc::if_nametoindex(name.as_ptr())) };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = all;
    address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives over the call and has this size.
    done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) })?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &SOCKET_BYTES)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SOCKET_BYTES)?;
    // SAFETY: as above.
    let mut all_addresses = unsafe { std::mem::zeroed::<libc::packet_mreq>() };
    all_addresses.mr_ifindex = address.sll_ifindex;
    all_addresses.mr_type = libc::PACKET_MR_PROMISC as u16;
    set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &all_addresses)?;
    Ok(socket)
}

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives over the call and has this size.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), size) })
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel make whole frames for a device (SIOCETHTOOL of netdevice(7), linux/ethtool.h).
fn plain_frames(device: &str) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    /// ETHTOOL_STXCSUM, ETHTOOL_STSO and ETHTOOL_SGSO.
    const OFF: [u32; 3] = [0x17, 0x1f, 0x24];
    #[repr(C)]
    struct EthtoolValue {
        command: u32,
        data: u32,
    }
    // SAFETY: the call takes numbers only.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    done(socket)?;
    // SAFETY: it was opened just now, and is no other's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    for command in OFF {
        let mut value = EthtoolValue { command, data: 0 };
        // SAFETY: all zeroes are a valid request.
        let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
        for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *place = byte.cast_signed();
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request and what it points to live over the call.
        done(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) })?;
    }
    Ok(())
}
