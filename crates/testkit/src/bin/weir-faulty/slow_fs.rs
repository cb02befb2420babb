//! A file system whose `fsync` is slow: a process behind /dev/fuse, files in memory, one directory.
//!
//! The layouts are those of the kernel's `include/uapi/linux/fuse.h`, interface 7.31.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::{Work, set_name};

const ROOT: u64 = 1;
/// A file that grows beyond this is refused, as on a full disk.
const FILE_LIMIT: usize = 64 << 20;
const FILES_LIMIT: usize = 1024;
const MAX_WRITE: u32 = 128 << 10;
/// A request with the largest write, its heads included.
const REQUEST_LIMIT: usize = MAX_WRITE as usize + 4096;
/// How long the kernel may believe an answer, in seconds: everything changes through it.
const VALID_S: u64 = 60;

struct Entry {
    name: Vec<u8>,
    content: Vec<u8>,
    mode: u32,
}

/// What is answered: bytes, or an error number.
type Answer = Result<Vec<u8>, i32>;

struct FileSystem {
    /// The node of a file is its place here, plus two: nothing is ever removed.
    files: Vec<Entry>,
    fsync: Duration,
}

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let dir = options.word("DIRECTORY")?;
    let fsync = options.millis("ms", 20)?;
    options.finish()?;
    set_name(c"weir-slow-fs");
    let dir = CString::new(dir).map_err(|_| Failure::Usage("a path has no zero byte".to_owned()))?;
    let signals = end_signals()?;
    let mut device = mount(&dir)?;
    let mut out = io::stdout();
    writeln!(out, "mounted on {}", dir.to_string_lossy())?;
    out.flush()?;
    let served = serve(&mut device, &signals, fsync);
    // SAFETY: the path is a C string; nothing of ours is touched.
    unsafe { libc::umount2(dir.as_ptr(), libc::MNT_DETACH) };
    Ok(served?)
}

/// Opens the device and mounts it, for all users.
fn mount(dir: &CStr) -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40777,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let options = CString::new(options)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: all four are C strings that outlive the call.
    let result = unsafe {
        libc::mount(c"weir-slow-fs".as_ptr(), dir.as_ptr(), c"fuse".as_ptr(), flags, options.as_ptr().cast())
    };
    if result == 0 { Ok(device) } else { Err(io::Error::last_os_error()) }
}

/// A descriptor that is readable when we are to end; without it the mount would stay behind.
fn end_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before use, and the descriptor is checked before it is owned.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

fn serve(device: &mut File, signals: &OwnedFd, fsync: Duration) -> io::Result<()> {
    let mut system = FileSystem { files: Vec::new(), fsync };
    let mut buffer = vec![0; REQUEST_LIMIT];
    loop {
        let ready = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut waiting = [ready(device.as_raw_fd()), ready(signals.as_raw_fd())];
        // SAFETY: the kernel writes within the two elements.
        if unsafe { libc::poll(waiting.as_mut_ptr(), 2, -1) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if waiting[1].revents != 0 {
            return Ok(());
        }
        let length = match device.read(&mut buffer) {
            Ok(length) => length,
            // The request was taken back before we read it.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
            // Another process has unmounted it.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some(request) = Request::parse(&buffer[..length]) else { continue };
        if let Some(answer) = system.answer(&request) {
            // It fails when no caller waits for the answer any more.
            let _ = device.write(&frame(request.unique, answer));
        }
    }
}

/// An answer with its head: length, negative error, number of the request.
fn frame(unique: u64, answer: Answer) -> Vec<u8> {
    let (error, body) = match answer {
        Ok(body) => (0, body),
        Err(number) => (-number, Vec::new()),
    };
    let mut bytes = Vec::with_capacity(16 + body.len());
    bytes.extend(((16 + body.len()) as u32).to_ne_bytes());
    bytes.extend(error.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(body);
    bytes
}

struct Request<'a> {
    operation: u32,
    unique: u64,
    node: u64,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(40)?;
        Some(Self { operation: u32_at(head, 4)?, unique: u64_at(head, 8)?, node: u64_at(head, 16)?, body })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A name that ends with a zero byte.
fn name_in(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl FileSystem {
    /// Nothing for what the kernel expects no answer to.
    fn answer(&mut self, request: &Request<'_>) -> Option<Answer> {
        const LOOKUP: u32 = 1;
        const FORGET: u32 = 2;
        const GETATTR: u32 = 3;
        const SETATTR: u32 = 4;
        const OPEN: u32 = 14;
        const READ: u32 = 15;
        const WRITE: u32 = 16;
        const STATFS: u32 = 17;
        const RELEASE: u32 = 18;
        const FSYNC: u32 = 20;
        const FLUSH: u32 = 25;
        const INIT: u32 = 26;
        const OPENDIR: u32 = 27;
        const READDIR: u32 = 28;
        const RELEASEDIR: u32 = 29;
        const CREATE: u32 = 35;
        const INTERRUPT: u32 = 36;
        const DESTROY: u32 = 38;
        const BATCH_FORGET: u32 = 42;
        let body = request.body;
        Some(match request.operation {
            FORGET | BATCH_FORGET | INTERRUPT => return None,
            INIT => init(body).ok_or(libc::EPROTO),
            LOOKUP => self.find(name_in(body)).and_then(|node| self.entry(node)).ok_or(libc::ENOENT),
            GETATTR => self.attributes(request.node).ok_or(libc::ENOENT),
            SETATTR => self.set_attributes(request.node, body),
            OPEN | OPENDIR => Ok(vec![0; 16]),
            CREATE => self.create(body),
            READ => self.read(request.node, body),
            WRITE => self.write(request.node, body),
            // Listings show no files: no server here lists the directory.
            READDIR | RELEASE | RELEASEDIR | FLUSH | DESTROY => Ok(Vec::new()),
            FSYNC => {
                Work::Sleep(self.fsync).run();
                Ok(Vec::new())
            }
            STATFS => Ok(vec![0; 80]),
            _ => Err(libc::ENOSYS),
        })
    }

    fn find(&self, name: &[u8]) -> Option<u64> {
        self.files.iter().position(|file| file.name == name).map(|place| place as u64 + 2)
    }

    fn file(&mut self, node: u64) -> Result<&mut Entry, i32> {
        let place = node.checked_sub(2).ok_or(libc::EISDIR)?;
        self.files.get_mut(place as usize).ok_or(libc::ENOENT)
    }

    fn create(&mut self, body: &[u8]) -> Answer {
        let (mode, name) = (u32_at(body, 4).ok_or(libc::EPROTO)?, name_in(body.get(16..).ok_or(libc::EPROTO)?));
        if self.files.len() >= FILES_LIMIT {
            return Err(libc::ENOSPC);
        }
        let node = match self.find(name) {
            Some(node) => node,
            None => {
                self.files.push(Entry { name: name.to_vec(), content: Vec::new(), mode: libc::S_IFREG | mode });
                self.files.len() as u64 + 1
            }
        };
        let mut answer = self.entry(node).ok_or(libc::ENOENT)?;
        answer.extend([0; 16]);
        Ok(answer)
    }

    fn read(&mut self, node: u64, body: &[u8]) -> Answer {
        let (from, length) = (u64_at(body, 8).ok_or(libc::EPROTO)?, u32_at(body, 16).ok_or(libc::EPROTO)?);
        let content = &self.file(node)?.content;
        let from = content.len().min(from as usize);
        Ok(content[from..content.len().min(from + length as usize)].to_vec())
    }

    fn write(&mut self, node: u64, body: &[u8]) -> Answer {
        let (from, data) = (u64_at(body, 8).ok_or(libc::EPROTO)? as usize, body.get(40..).ok_or(libc::EPROTO)?);
        let end = from.checked_add(data.len()).filter(|end| *end <= FILE_LIMIT).ok_or(libc::ENOSPC)?;
        let content = &mut self.file(node)?.content;
        content.resize(content.len().max(end), 0);
        content[from..end].copy_from_slice(data);
        Ok([(data.len() as u32).to_ne_bytes(), [0; 4]].concat())
    }

    fn set_attributes(&mut self, node: u64, body: &[u8]) -> Answer {
        const SIZE: u32 = 1 << 3;
        if node != ROOT && u32_at(body, 0).ok_or(libc::EPROTO)? & SIZE != 0 {
            let size = u64_at(body, 16).ok_or(libc::EPROTO)? as usize;
            if size > FILE_LIMIT {
                return Err(libc::ENOSPC);
            }
            self.file(node)?.content.resize(size, 0);
        }
        self.attributes(node).ok_or(libc::ENOENT)
    }

    /// `fuse_entry_out`.
    fn entry(&self, node: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for number in [node, 0, VALID_S, VALID_S, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(self.attribute(node)?);
        Some(bytes)
    }

    /// `fuse_attr_out`.
    fn attributes(&self, node: u64) -> Option<Vec<u8>> {
        Some([&VALID_S.to_ne_bytes()[..], &[0; 8], &self.attribute(node)?].concat())
    }

    /// `fuse_attr`.
    fn attribute(&self, node: u64) -> Option<Vec<u8>> {
        let (size, mode) = match node {
            ROOT => (0, libc::S_IFDIR | 0o777),
            _ => {
                let file = self.files.get(node.checked_sub(2)? as usize)?;
                (file.content.len() as u64, file.mode)
            }
        };
        let mut bytes = Vec::with_capacity(88);
        for number in [node, size, size.div_ceil(512), 0, 0, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        // Three parts of times, mode, links, owner, group, device, size of a block, flags.
        for number in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
            bytes.extend(u32::to_ne_bytes(number));
        }
        Some(bytes)
    }
}

/// `fuse_init_out`: the kernel's own readahead and no further abilities.
fn init(body: &[u8]) -> Option<Vec<u8>> {
    let readahead = u32_at(body, 8)?;
    let mut bytes = Vec::with_capacity(64);
    // Major and minor version, readahead, flags, limits of what is in flight, largest write.
    for number in [7, 31, readahead, 0, 0, MAX_WRITE, 1] {
        bytes.extend(u32::to_ne_bytes(number));
    }
    bytes.resize(64, 0);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(system: &mut FileSystem, operation: u32, node: u64, body: &[u8]) -> Answer {
        system.answer(&Request { operation, unique: 7, node, body }).expect("an answer")
    }

    #[test]
    fn what_is_written_is_read() {
        let mut system = FileSystem { files: Vec::new(), fsync: Duration::ZERO };
        assert_eq!(ask(&mut system, 1, ROOT, b"log\0"), Err(libc::ENOENT));
        let create = [&[0; 4][..], &0o644_u32.to_ne_bytes(), &[0; 8], b"log\0"].concat();
        assert_eq!(ask(&mut system, 35, ROOT, &create).unwrap().len(), 128 + 16);
        let place = |from: u64, length: u32| [&[0; 8][..], &from.to_ne_bytes(), &length.to_ne_bytes()].concat();
        let write = [&place(3, 5)[..], &[0; 20], b"hello"].concat();
        assert_eq!(ask(&mut system, 16, 2, &write).unwrap()[0], 5);
        assert_eq!(ask(&mut system, 15, 2, &place(2, 99)).unwrap(), b"\0hello");
        assert_eq!(u64_at(&ask(&mut system, 3, 2, &[]).unwrap(), 24), Some(8));
        assert_eq!(ask(&mut system, 16, 9, &write), Err(libc::ENOENT));
        assert_eq!(ask(&mut system, 16, 2, &[0; 3]), Err(libc::EPROTO));
        assert_eq!(frame(7, Err(libc::ENOENT))[..8], [16, 0, 0, 0, 254, 255, 255, 255]);
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut choice = weir_testkit::seeded::Choice::from_environment();
        let mut system = FileSystem { files: Vec::new(), fsync: Duration::ZERO };
        for _ in 0..5_000 {
            let body: Vec<u8> = (0..choice.below(64)).map(|_| choice.below(4) as u8).collect();
            let (operation, node) = (choice.below(44) as u32, choice.below(5));
            let _ = system.answer(&Request { operation, unique: 1, node, body: &body });
        }
    }
}
