//! Requests wait for a disk: pages of a mapped file that are not in memory, or reads past the page cache.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;

use crate::options::{Failure, Options};
use crate::{blocking, http};

const FILE_BYTES: usize = 16 << 20;
const PAGE: usize = 4096;
/// What a request reads past the page cache.
const READ_BYTES: usize = 1 << 20;
/// Pages that a request touches, spread over its connection's own mapping.
const PAGES: usize = 16;

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let direct = match options.word("HOW")?.as_str() {
        "fault" => false,
        "direct" => true,
        other => return Err(Failure::Usage(format!("storage is not read by `{other}`"))),
    };
    let path = std::env::temp_dir().join(format!("weir-faulty-{}.data", std::process::id()));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
    // Processes that have the file open can use it without its name.
    fs::remove_file(&path)?;
    file.write_all(&vec![7; FILE_BYTES])?;
    file.sync_all()?;
    let read = opened?;
    let listener = options.listen()?;
    let (file, read) = (std::sync::Arc::new(file), std::sync::Arc::new(read));
    blocking::serve(&listener, move || {
        let (file, read) = (std::sync::Arc::clone(&file), std::sync::Arc::clone(&read));
        let mut buffer = Aligned::new();
        let mut turn = 0;
        move |request: &_| {
            turn += 1;
            let outcome = if direct { buffer.read(&read, turn) } else { fault(&file, turn) };
            match outcome {
                Ok(()) => http::ok(request),
                Err(error) => http::answer(request, "500 Internal Server Error", &format!("{error}\n")),
            }
        }
    })?;
    Ok(())
}

/// Memory as O_DIRECT wants it.
struct Aligned(Vec<u8>);

impl Aligned {
    fn new() -> Self {
        Self(vec![0; READ_BYTES + PAGE])
    }

    fn read(&mut self, file: &File, turn: usize) -> io::Result<()> {
        let skip = self.0.as_ptr().align_offset(PAGE);
        let place = (turn * READ_BYTES % FILE_BYTES) as libc::off_t;
        let target = &mut self.0[skip..skip + READ_BYTES];
        // SAFETY: the kernel writes at most the slice, which lives through the call.
        let read = unsafe { libc::pread(file.as_raw_fd(), target.as_mut_ptr().cast(), READ_BYTES, place) };
        if read == READ_BYTES as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Maps the file anew, drops its pages from the page cache, and touches some.
fn fault(file: &File, turn: usize) -> io::Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: a fresh mapping of an open file, whose length no process changes.
    let base = unsafe { libc::mmap(ptr::null_mut(), FILE_BYTES, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping above, in its whole length; advice changes no content.
    unsafe { libc::madvise(base, FILE_BYTES, libc::MADV_RANDOM) };
    // All of it: a page alone stays where the kernel keeps pages in larger pieces.
    // SAFETY: advice on an open file; its pages are clean, so that they go.
    unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
    for index in 0..PAGES {
        let place = (index * (FILE_BYTES / PAGES) + turn * PAGE) % FILE_BYTES / PAGE * PAGE;
        // SAFETY: the place lies within the mapping.
        unsafe { base.cast::<u8>().add(place).read_volatile() };
    }
    // SAFETY: the mapping above, to which no reference is left.
    unsafe { libc::munmap(base, FILE_BYTES) };
    Ok(())
}
