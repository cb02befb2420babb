//! Files that code is mapped from: what it takes to unwind their frames and to name them.

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_wire::stack::{Frame, StackObject};

/// Files that are told apart; code of further ones is of no known file. Each is kept open.
const MOST_OBJECTS: usize = 512;
/// The most bytes of unwind tables that are taken from one file.
const MOST_TABLE: u64 = 64 << 20;
/// Read-only data in which PHP's version is looked for.
const MOST_TEXTS: u64 = 64 << 20;

/// Segments begin in the middle of a page, if at all, of this size.
const PAGE: u64 = 4096;
/// How the mapping of the kernel's code in user space is called.
const VDSO: &str = "[vdso]";

/// A section's bytes, shared by all processes that have mapped the file.
pub(super) type Bytes = Arc<[u8]>;

/// A file that code is mapped from.
#[derive(Debug)]
pub(super) struct CodeFile {
    pub(super) told: StackObject,
    file: Option<File>,
    identity: (u64, u64),
    /// Where its code is loaded: (offset in the file, address as linked, length).
    segments: Vec<(u64, u64, u64)>,
    pub(super) eh_frame: Option<(Range<u64>, Bytes)>,
    pub(super) eh_frame_hdr: Option<(Range<u64>, Bytes)>,
    pub(super) text: Option<Range<u64>>,
    pub(super) got: Option<Range<u64>>,
    /// It holds an interpreter of PHP.
    pub(super) php: Option<PhpInFile>,
}

/// What a file tells of the interpreter of PHP in it; addresses as linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PhpInFile {
    /// The variable `executor_globals`; `None` if the interpreter has one for each thread.
    pub(super) globals: Option<u64>,
    /// The function that executes PHP's code, as offsets in the file.
    pub(super) execute: Range<u64>,
    /// The interface's version and kind, such as `API420220829,NTS`; empty if it is not found.
    pub(super) interface: String,
}

impl CodeFile {
    /// The address as linked of an offset in the file.
    pub(super) fn linked_at(&self, offset: u64) -> Option<u64> {
        let within = |(from, _, length): &&(u64, u64, u64)| (*from..from.saturating_add(*length)).contains(&offset);
        self.segments.iter().find(within).map(|(from, address, _)| offset - from + address)
    }

    /// A path by which the file can be opened by us, though it may lie in a container or be deleted.
    pub(super) fn readable_path(&self) -> PathBuf {
        let path = Path::new(&self.told.path);
        let same = std::fs::metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity);
        match &self.file {
            Some(file) if !same => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            _ => path.to_owned(),
        }
    }

    fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<Self> {
        let header = object::elf::FileHeader64::<object::Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let segments = header
            .program_headers(endian, data)
            .ok()?
            .iter()
            .filter(|segment| segment.p_type(endian) == object::elf::PT_LOAD)
            .filter(|segment| segment.p_flags(endian) & object::elf::PF_X == object::elf::PF_X)
            .map(|segment| {
                // Pages are mapped whole: a mapping begins before its segment, in what may be another's bytes.
                let before = segment.p_offset(endian) % PAGE;
                let address = segment.p_vaddr(endian).wrapping_sub(before);
                (segment.p_offset(endian) - before, address, segment.p_filesz(endian).saturating_add(before))
            })
            .collect();
        let elf = object::read::elf::ElfFile64::<object::Endianness, _>::parse(data).ok()?;
        let range = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let table = |name: &str| {
            let section = elf.section_by_name(name).filter(|section| section.size() <= MOST_TABLE)?;
            Some((range(name)?, Bytes::from(section.data().ok()?)))
        };
        let mut code = Self {
            told: StackObject {
                object: Frame::NO_FILE,
                build_id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
                path: String::new(),
            },
            file: None,
            identity: (0, 0),
            segments,
            eh_frame: table(".eh_frame"),
            eh_frame_hdr: table(".eh_frame_hdr"),
            text: range(".text"),
            got: range(".got"),
            php: None,
        };
        code.php = php(&elf, &code);
        Some(code)
    }
}

/// Finds the interpreter of PHP by the names that it exports to its extensions.
fn php<'data, R: ReadRef<'data>>(
    elf: &object::read::elf::ElfFile64<'data, object::Endianness, R>,
    code: &CodeFile,
) -> Option<PhpInFile> {
    let find = |name: &str| elf.dynamic_symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(name));
    let execute = find("execute_ex")?;
    let globals = find("executor_globals").map(|symbol| symbol.address());
    let in_file = |address: u64| {
        let segment = code.segments.iter().find(|(_, at, length)| (*at..at.saturating_add(*length)).contains(&address));
        segment.map(|(offset, at, _)| address - at + offset)
    };
    let begin = in_file(execute.address())?;
    let texts = elf.section_by_name(".rodata").filter(|section| section.size() <= MOST_TEXTS)?.data().ok()?;
    Some(PhpInFile {
        globals,
        execute: begin..begin.saturating_add(execute.size()),
        interface: interface(texts).unwrap_or_default(),
    })
}

/// The text by which PHP's extensions check whether they fit, such as `API420220829,NTS`.
fn interface(texts: &[u8]) -> Option<String> {
    texts.split(|byte| *byte == 0).find_map(|text| {
        let (number, kind) = text.strip_prefix(b"API")?.split_at_checked(9)?;
        let sound = number.iter().all(u8::is_ascii_digit) && kind.starts_with(b",");
        sound.then(|| String::from_utf8_lossy(text).into_owned())
    })
}

/// All files met so far.
#[derive(Debug, Default)]
pub(super) struct Objects {
    files: Vec<Arc<CodeFile>>,
    by_identity: HashMap<(u64, u64, String), Option<u16>>,
}

impl Objects {
    /// The file behind a mapping of a process; `None` if it cannot be read, or if there are too many.
    pub(super) fn find(&mut self, pid: u32, device: u64, inode: u64, path: &str, range: &str) -> Option<Arc<CodeFile>> {
        let key = (device, inode, path.to_owned());
        let vdso = path == VDSO;
        if let Some(known) = self.by_identity.get(&key) {
            return known.and_then(|number| self.get(number)).cloned();
        }
        if self.by_identity.len() >= MOST_OBJECTS {
            return None;
        }
        let number = self.files.len() as u16 + 1;
        // The first leads to the file even if its name has gone or changed, but asks for more privilege.
        let ways = [format!("/proc/{pid}/map_files/{range}"), format!("/proc/{pid}/root{path}"), path.to_owned()];
        let mut ways = ways.iter().filter(|_| !vdso);
        let file = ways.find_map(|way| File::open(way).ok().filter(is_file));
        let parsed = match (&file, vdso) {
            (_, true) => own_vdso().as_deref().and_then(CodeFile::parse),
            (Some(file), _) => CodeFile::parse(&ReadCache::new(file)),
            (None, _) => None,
        };
        let found = parsed.is_some();
        if let Some(mut code) = parsed {
            let meta = file.as_ref().and_then(|file| file.metadata().ok());
            code.identity = meta.map_or((0, 0), |meta| (meta.dev(), meta.ino()));
            code.told.object = number;
            code.told.path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
            code.file = file;
            self.files.push(Arc::new(code));
        }
        self.by_identity.insert(key, found.then_some(number));
        self.get(number).cloned()
    }

    /// A file by its number in frames.
    pub(super) fn get(&self, number: u16) -> Option<&Arc<CodeFile>> {
        self.files.get(usize::from(number).checked_sub(1)?)
    }
}

/// The kernel's code in user space: the same in every process, so ours serves for all.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(VDSO))?;
    let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    let (begin, end) = (address(begin)?, address(end)?);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(begin)?).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, begin).ok()?;
    Some(bytes)
}

/// Mapped devices and pipes are never opened for reading.
fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_tells_its_tables_and_where_it_is_loaded() {
        let path = std::env::current_exe().expect("this program");
        let code = CodeFile::parse(&ReadCache::new(File::open(&path).expect("readable"))).expect("an ELF file");
        assert!(code.eh_frame.is_some() && code.eh_frame_hdr.is_some() && code.text.is_some());
        let (offset, address, length) = code.segments[0];
        assert!(length > 0);
        assert_eq!(code.linked_at(offset), Some(address));
        assert!(code.php.is_none());
    }

    #[test]
    fn the_interface_of_php_is_found_among_other_texts() {
        assert_eq!(interface(b"x\0API\0API42022082\0API420220829,NTS\0y").as_deref(), Some("API420220829,NTS"));
        assert_eq!(interface(b"API420220829"), None);
        assert_eq!(interface(b""), None);
    }
}
