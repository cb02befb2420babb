//! Address spaces: which file an address of a process is in, and who called it.

use super::memory::StackCopy;
use super::objects::{Bytes, CodeFile, Objects};
use framehop::{CacheNative, ExplicitModuleSectionInfo, Module, UnwindRegsNative, Unwinder, UnwinderNative};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use weir_wire::stack::Frame;

/// Address spaces that are remembered; the workers of a server have the same one, as it is forked.
const MOST_SPACES: usize = 1024;
/// Processes whose space is remembered.
const MOST_PROCESSES: usize = 1 << 14;
/// Frames of a stack that are kept: the innermost.
const MOST_FRAMES: usize = 192;
/// A process's mappings are read again at most so often, when an address is in none of them, nanoseconds.
const REREAD_NS: u64 = 1_000_000_000;

/// The registers that it takes to walk a stack.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Registers {
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) fp: u64,
    #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "return addresses stand on the stack"))]
    pub(super) lr: u64,
}

/// A mapping of code.
struct Mapping {
    begin: u64,
    end: u64,
    /// The offset in the file of its begin.
    offset: u64,
    code: Option<Arc<CodeFile>>,
}

/// What is mapped where in one or more processes.
pub(super) struct Space {
    mappings: Vec<Mapping>,
    unwinder: UnwinderNative<Bytes, framehop::MayAllocateDuringUnwind>,
}

impl std::fmt::Debug for Space {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Space").field("mappings", &self.mappings.len()).finish_non_exhaustive()
    }
}

impl Space {
    fn read(pid: u32, text: &str, objects: &mut Objects) -> Self {
        let mut space = Self { mappings: Vec::new(), unwinder: UnwinderNative::new() };
        for line in text.lines() {
            let Some(line) = MapsLine::parse(line).filter(|line| line.executable) else { continue };
            let code = match line.path {
                "" => None,
                path => objects.find(pid, line.device, line.inode, path, line.range),
            };
            if let Some(code) = &code {
                space.add_unwinding(&line, code);
            }
            space.mappings.push(Mapping { begin: line.begin, end: line.end, offset: line.offset, code });
        }
        space
    }

    fn add_unwinding(&mut self, line: &MapsLine<'_>, code: &CodeFile) {
        let Some(linked) = code.linked_at(line.offset) else { return };
        let ((eh_frame_svma, eh_frame), (eh_frame_hdr_svma, eh_frame_hdr)) =
            (code.eh_frame.clone().unzip(), code.eh_frame_hdr.clone().unzip());
        let sections = ExplicitModuleSectionInfo::<Bytes> {
            base_svma: 0,
            text_svma: code.text.clone(),
            got_svma: code.got.clone(),
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..ExplicitModuleSectionInfo::default()
        };
        let base = line.begin.wrapping_sub(linked);
        self.unwinder.add_module(Module::new(code.told.path.clone(), line.begin..line.end, base, sections));
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.begin <= address);
        self.mappings.get(after.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    /// The frame of an address.
    fn frame(&self, address: u64) -> Frame {
        match self.mapping(address) {
            Some(Mapping { code: Some(code), begin, offset, .. }) => {
                Frame::new(code.told.object, address - begin + offset)
            }
            // Which address it is says nothing to anybody, and would make each stack a different one.
            _ => Frame::new(Frame::NO_FILE, 0),
        }
    }

    /// The address as linked of something in a file, in this space's terms; `None` if the file is not mapped.
    pub(super) fn loaded_at(&self, object: u16, linked: u64) -> Option<u64> {
        let of = |mapping: &&Mapping| mapping.code.as_ref().is_some_and(|code| code.told.object == object);
        let mapping = self.mappings.iter().find(of)?;
        let begin = mapping.code.as_ref()?.linked_at(mapping.offset)?;
        Some(mapping.begin.wrapping_sub(begin).wrapping_add(linked))
    }

    /// The files whose code is mapped.
    pub(super) fn code(&self) -> impl Iterator<Item = &Arc<CodeFile>> {
        self.mappings.iter().filter_map(|mapping| mapping.code.as_ref())
    }
}

/// All address spaces met so far.
pub(super) struct Spaces {
    processes: HashMap<u32, (Arc<Space>, u64)>,
    spaces: HashMap<u64, Arc<Space>>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
}

impl std::fmt::Debug for Spaces {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Spaces").field("processes", &self.processes.len()).finish_non_exhaustive()
    }
}

impl Default for Spaces {
    fn default() -> Self {
        Self { processes: HashMap::new(), spaces: HashMap::new(), cache: CacheNative::new() }
    }
}

impl Spaces {
    /// A process runs another program, or has ended.
    pub(super) fn forget(&mut self, tgid: u32) {
        self.processes.remove(&tgid);
    }

    /// The space of a process, read anew if `address` is in no mapping that is known; `None` if it has ended.
    pub(super) fn of(&mut self, tgid: u32, address: u64, now_ns: u64, objects: &mut Objects) -> Option<Arc<Space>> {
        if let Some((space, read_ns)) = self.processes.get(&tgid)
            && (space.mapping(address).is_some() || now_ns.saturating_sub(*read_ns) < REREAD_NS)
        {
            return Some(Arc::clone(space));
        }
        let text = std::fs::read_to_string(format!("/proc/{tgid}/maps")).ok().filter(|text| !text.is_empty())?;
        let key = of_code(&text);
        if self.spaces.len() >= MOST_SPACES {
            self.spaces.clear();
        }
        if self.processes.len() >= MOST_PROCESSES {
            self.processes.clear();
        }
        let space = self.spaces.entry(key).or_insert_with(|| Arc::new(Space::read(tgid, &text, objects)));
        self.processes.insert(tgid, (Arc::clone(space), now_ns));
        Some(Arc::clone(space))
    }

    /// The frames of a stack in user space, the innermost first.
    pub(super) fn unwind(&mut self, space: &Space, registers: Registers, stack: &StackCopy, frames: &mut Vec<Frame>) {
        #[cfg(target_arch = "x86_64")]
        let start = UnwindRegsNative::new(registers.ip, registers.sp, registers.fp);
        #[cfg(target_arch = "aarch64")]
        let start = UnwindRegsNative::new(registers.lr, registers.sp, registers.fp);
        let mut read = |address| stack.word(address).ok_or(());
        let mut callers = space.unwinder.iter_frames(registers.ip, start, &mut self.cache, &mut read);
        let end = frames.len() + MOST_FRAMES;
        // An error is a stack that is longer than the copy, or code without tables: what is known up to there counts.
        while let Ok(Some(caller)) = callers.next() {
            frames.push(space.frame(caller.address_for_lookup()));
            if frames.len() >= end {
                break;
            }
        }
    }
}

/// A number for the mappings of code in a listing: the same for processes that were forked and mapped nothing since.
fn of_code(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for line in text.lines().filter(|line| MapsLine::parse(line).is_some_and(|line| line.executable)) {
        line.hash(&mut hasher);
    }
    hasher.finish()
}

/// A line of /proc/PID/maps (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct MapsLine<'a> {
    range: &'a str,
    begin: u64,
    end: u64,
    executable: bool,
    offset: u64,
    device: u64,
    inode: u64,
    path: &'a str,
}

impl<'a> MapsLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let range = fields.next()?;
        let (begin, end) = range.split_once('-')?;
        let executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let offset = hex(fields.next()?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let device = hex(major)? << 32 | hex(minor)?;
        let inode = fields.next()?.parse().ok()?;
        let path = fields.next().unwrap_or_default().trim_start();
        Some(Self { range, begin: hex(begin)?, end: hex(end)?, executable, offset, device, inode, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mapping_is_read_with_any_path() {
        let line =
            "7f2a00001000-7f2a00003000 r-xp 00001000 fe:01 1234                       /opt/my server/bin (deleted)";
        let parsed = MapsLine::parse(line).expect("a mapping");
        assert_eq!((parsed.begin, parsed.end, parsed.offset), (0x7f2a_0000_1000, 0x7f2a_0000_3000, 0x1000));
        assert_eq!((parsed.executable, parsed.device, parsed.inode), (true, 0xfe << 32 | 1, 1234));
        assert_eq!(parsed.path, "/opt/my server/bin (deleted)");
        assert_eq!(MapsLine::parse("00400000-00401000 rw-p 00000000 00:00 0").map(|line| line.path), Some(""));
    }

    proptest! {
        #[test]
        fn no_listing_breaks_the_reader(line in "[0-9a-f rwxp:-]{0,60}") {
            let _ = MapsLine::parse(&line);
        }
    }

    /// Walks this test's own stack, copied while it stands still.
    #[test]
    #[inline(never)]
    #[cfg(target_arch = "x86_64")]
    fn our_own_stack_leads_to_this_function() {
        let registers: Registers;
        // SAFETY: reads registers into variables.
        unsafe {
            let (ip, sp, fp): (u64, u64, u64);
            std::arch::asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) ip, out(reg) sp, out(reg) fp);
            registers = Registers { ip, sp, fp, lr: 0 };
        }
        let (mut objects, mut spaces) = (Objects::default(), Spaces::default());
        let pid = std::process::id();
        let space = spaces.of(pid, registers.ip, 0, &mut objects).expect("our mappings");
        let stack = StackCopy::of(pid, registers.sp, 1 << 14);
        let mut frames = Vec::new();
        spaces.unwind(&space, registers, &stack, &mut frames);
        // From here over the test harness to the thread's begin in the C library.
        assert!(frames.len() > 5, "{frames:?}");
        assert!(frames.iter().all(|frame| frame.object() != Frame::NO_FILE), "{frames:?}");
        let first = objects.get(frames[0].object()).expect("this program");
        let path = std::env::current_exe().expect("this program");
        assert_eq!(std::path::Path::new(&first.told.path), path);
        let last = objects.get(frames[frames.len() - 1].object()).expect("the C library");
        assert!(last.told.path.contains("libc"), "{}", last.told.path);
    }
}
