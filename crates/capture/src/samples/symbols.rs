//! What frames are called: from symbol tables, debugging information where it is installed, and the kernel's own list.

use super::objects::Objects;
use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use weir_wire::stack::Frame;

/// Names that are remembered; beyond, they are looked up anew.
const MOST_NAMES: usize = 1 << 18;

/// Names of frames, looked up when it is asked for them.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<Frame, Option<String>>,
    wanted: Vec<Frame>,
}

impl Names {
    /// Takes note of a frame whose name will be asked for.
    pub(super) fn want(&mut self, frame: Frame) {
        self.wanted.push(frame);
    }

    /// Hands over the names of all wanted frames that have one, and wants nothing any more.
    pub(super) fn find(&mut self, kernel_begin: u64, objects: &Objects, mut tell: impl FnMut(Frame, &str)) {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        wanted.dedup();
        if self.known.len() > MOST_NAMES {
            self.known.clear();
        }
        let mut unknown: BTreeMap<u16, Vec<Frame>> = BTreeMap::new();
        for frame in wanted.iter().filter(|frame| !self.known.contains_key(frame)) {
            unknown.entry(frame.object()).or_default().push(*frame);
        }
        // What it has parsed of a file is many times what is asked: it is not kept.
        let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
        for (object, frames) in unknown {
            let names = match object {
                Frame::KERNEL => of_kernel(&symbolizer, kernel_begin, &frames),
                _ => of_file(&symbolizer, objects, object, &frames),
            };
            for (index, frame) in frames.into_iter().enumerate() {
                self.known.insert(frame, names.get(index).cloned().flatten());
            }
        }
        for frame in wanted {
            if let Some(Some(name)) = self.known.get(&frame) {
                tell(frame, name);
            }
        }
    }
}

fn of_kernel(symbolizer: &Symbolizer, begin: u64, frames: &[Frame]) -> Vec<Option<String>> {
    let addresses: Vec<u64> = frames.iter().map(|frame| kernel_address(begin, *frame)).collect();
    // Its list of symbols is all that is needed, and much less to read than an image with debugging information.
    let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() });
    names(symbolizer.symbolize(&source, Input::AbsAddr(&addresses)))
}

fn of_file(symbolizer: &Symbolizer, objects: &Objects, object: u16, frames: &[Frame]) -> Vec<Option<String>> {
    let Some(code) = objects.get(object) else { return Vec::new() };
    let offsets: Vec<u64> = frames.iter().map(|frame| frame.offset()).collect();
    let source = Source::Elf(Elf::new(code.readable_path()));
    names(symbolizer.symbolize(&source, Input::FileOffset(&offsets)))
}

/// A file without symbols has no names, which is no error of ours.
fn names(found: blazesym::Result<Vec<Symbolized<'_>>>) -> Vec<Option<String>> {
    let found = found.unwrap_or_default();
    found.iter().map(|one| one.as_sym().map(|symbol| symbol.name.clone().into_owned())).collect()
}

/// The frame of an address of the kernel: where it is loaded is a secret that a recording need not tell.
pub(super) fn kernel_frame(begin: u64, address: u64) -> Frame {
    Frame::new(Frame::KERNEL, address.wrapping_sub(begin))
}

fn kernel_address(begin: u64, frame: Frame) -> u64 {
    // Modules may lie below the kernel's text: the offset is signed.
    let offset = (frame.offset() << 16) as i64 >> 16;
    begin.wrapping_add_signed(offset)
}

/// Where the kernel's text begins; 0 if it is hidden from us, as then its names are too.
pub(super) fn kernel_begin() -> u64 {
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else { return 0 };
    // It stands near the begin; the bound is for kernels where it does not.
    let lines = BufReader::new(file).lines().map_while(Result::ok).take(1 << 18);
    let address = lines.filter(|line| line.ends_with(" _stext")).find_map(|line| line.split(' ').next().map(hex));
    address.unwrap_or(0)
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_of_the_kernel_and_its_modules_survive(offset in -(1i64 << 46)..1i64 << 46) {
            let begin = 0xffff_ffff_8100_0000u64;
            let address = begin.wrapping_add_signed(offset);
            prop_assert_eq!(kernel_address(begin, kernel_frame(begin, address)), address);
        }
    }

    #[test]
    fn a_function_of_the_c_library_is_named() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("our mappings");
        assert!(maps.contains("libc"), "this test is linked with the C library");
        let pid = std::process::id();
        let (mut objects, mut spaces) = (Objects::default(), super::super::space::Spaces::default());
        let address = libc::getpid as *const () as u64;
        let space = spaces.of(pid, address, 0, &mut objects).expect("our mappings");
        let registers = super::super::space::Registers { ip: address + 1, ..Default::default() };
        let mut frames = Vec::new();
        spaces.unwind(&space, registers, &super::super::memory::StackCopy::default(), &mut frames);
        let mut names = Names::default();
        names.want(frames[0]);
        let mut found = Vec::new();
        names.find(0, &objects, |frame, name| found.push((frame, name.to_owned())));
        assert_eq!(found.len(), 1, "{frames:?}");
        assert!(found[0].1.contains("getpid"), "{found:?}");
    }
}
