//! A program or library as a file: its functions, its static probes, and where they are in the file.

use super::error::ProbeError;
use super::go_functions::go_functions;
use super::instruction::{calls_to, stubs};
use super::usdt::{self, Argument};
use object::{
    Architecture, Endianness, File, Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationTarget, SymbolKind,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest file that is looked into, bytes.
const LARGEST: u64 = 1 << 30;
/// How much of a function of unknown size is looked at, bytes.
const UNSIZED: usize = 64;

/// An ELF file of x86-64.
pub struct Binary {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// A function in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Where its first instruction is, from the file's beginning.
    pub offset: u64,
    /// Its instructions.
    pub code: Vec<u8>,
}

/// A static probe in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticProbe {
    /// Where its nop is, from the file's beginning.
    pub offset: u64,
    /// The bytes that begin with the nop.
    pub code: Vec<u8>,
    /// Where the counter that switches it on is, from the file's beginning; 0 for none.
    pub semaphore: u64,
    /// Its arguments.
    pub arguments: Vec<Option<Argument>>,
}

impl Binary {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ProbeError::Unreadable`], [`ProbeError::NotElf`], [`ProbeError::Foreign`].
    pub fn open(path: &Path) -> Result<Self, ProbeError> {
        let unreadable = |source| ProbeError::Unreadable { path: path.to_owned(), source };
        let size = fs::metadata(path).map_err(unreadable)?.len();
        if size > LARGEST {
            return Err(ProbeError::NotElf { path: path.to_owned(), reason: format!("it has {size} bytes") });
        }
        Self::of(path.to_owned(), fs::read(path).map_err(unreadable)?)
    }

    /// Takes a file's content; `path` is for messages.
    ///
    /// # Errors
    /// As [`Binary::open`].
    pub fn of(path: PathBuf, bytes: Vec<u8>) -> Result<Self, ProbeError> {
        let binary = Self { path, bytes };
        let file = binary.file()?;
        let (architecture, endianness) = (file.architecture(), file.endianness());
        if architecture != Architecture::X86_64 || endianness != Endianness::Little {
            return Err(ProbeError::Foreign { path: binary.path, architecture: format!("{architecture:?}") });
        }
        Ok(binary)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a text stands in it.
    #[must_use]
    pub fn holds(&self, text: &[u8]) -> bool {
        memchr::memmem::find(&self.bytes, text).is_some()
    }

    fn file(&self) -> Result<File<'_>, ProbeError> {
        File::parse(self.bytes.as_slice())
            .map_err(|error| ProbeError::NotElf { path: self.path.clone(), reason: error.to_string() })
    }

    /// The functions of a name: one, or several local ones of the same name.
    ///
    /// # Errors
    /// [`ProbeError::NoFunction`] with names that are alike, [`ProbeError::Stripped`] where the file names only what it
    /// exports, [`ProbeError::Imported`] if it only calls the function.
    pub fn functions(&self, name: &str) -> Result<Vec<Function>, ProbeError> {
        let file = self.file()?;
        let mut found: Vec<(u64, u64)> = file
            .dynamic_symbols()
            .chain(file.symbols())
            .filter(|symbol| symbol.name() == Ok(name) && symbol.is_definition() && symbol.kind() == SymbolKind::Text)
            .map(|symbol| (symbol.address(), symbol.size()))
            .collect();
        found.sort_unstable();
        // The largest of the sizes that one address is told with.
        found.reverse();
        found.dedup_by_key(|(address, _)| *address);
        found.reverse();
        let functions: Vec<Function> = found
            .into_iter()
            .filter_map(|(address, size)| {
                let size = usize::try_from(size).ok().filter(|size| *size > 0).unwrap_or(UNSIZED);
                Some(Function { offset: offset_of(&file, address)?, code: self.code(&file, address, size)? })
            })
            .collect();
        if functions.is_empty() { Err(self.no_function(&file, name)) } else { Ok(functions) }
    }

    fn no_function(&self, file: &File<'_>, name: &str) -> ProbeError {
        let (path, name) = (self.path.clone(), name.to_owned());
        if file.dynamic_symbols().any(|symbol| symbol.name() == Ok(&name) && symbol.is_undefined()) {
            return ProbeError::Imported { path, name };
        }
        if file.symbols().next().is_none() && file.dynamic_symbols().all(|symbol| !symbol.is_definition()) {
            return ProbeError::Stripped { path, name };
        }
        let defined = file.dynamic_symbols().chain(file.symbols()).filter(ObjectSymbol::is_definition);
        let mut alike: Vec<String> = defined
            .filter(|symbol| symbol.kind() == SymbolKind::Text)
            .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
            .filter(|known| known.contains(&name) || (known.len() > 3 && name.contains(known.as_str())))
            .collect();
        alike.sort_by_key(|known| (known.len().abs_diff(name.len()), known.clone()));
        alike.dedup();
        alike.truncate(5);
        ProbeError::NoFunction { path, name, alike, stripped: file.symbols().next().is_none() }
    }

    /// The places of a static probe; the compiler may have made several of one.
    ///
    /// # Errors
    /// [`ProbeError::NoStaticProbe`] with those that there are.
    pub fn static_probes(&self, provider: &str, name: &str) -> Result<Vec<StaticProbe>, ProbeError> {
        let file = self.file()?;
        let base = file.section_by_name(".stapsdt.base").map(|section| section.address());
        let notes = self.notes(&file);
        let found: Vec<StaticProbe> = notes
            .iter()
            .filter(|note| note.provider == provider && note.name == name)
            .filter_map(|note| {
                // Prelinking moves a file's addresses and not its notes; the section tells by how much.
                let moved = base.map_or(0, |base| base.wrapping_sub(note.base));
                let address = note.place.wrapping_add(moved);
                let semaphore =
                    if note.semaphore == 0 { 0 } else { offset_of(&file, note.semaphore.wrapping_add(moved))? };
                let (offset, code) = (offset_of(&file, address)?, self.code(&file, address, 16)?);
                Some(StaticProbe { offset, code, semaphore, arguments: note.arguments.clone() })
            })
            .collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let mut known: Vec<String> = notes.iter().map(|note| format!("{}:{}", note.provider, note.name)).collect();
        known.sort();
        known.dedup();
        Err(ProbeError::NoStaticProbe { path: self.path.clone(), probe: format!("{provider}:{name}"), known })
    }

    fn notes(&self, file: &File<'_>) -> Vec<usdt::Note> {
        let mut found = Vec::new();
        for section in file.sections().filter(|section| section.name() == Ok(".note.stapsdt")) {
            let mut rest = section.data().unwrap_or_default();
            while let Some((note, after)) = next_note(rest) {
                rest = after;
                found.extend(note.and_then(usdt::note));
            }
        }
        found
    }

    /// Where the file calls a function of another one: offsets of the call instructions, from the file's beginning.
    ///
    /// # Errors
    /// [`ProbeError::NoCall`] if it does not, or in another way than by a plain call.
    pub fn calls(&self, name: &str) -> Result<Vec<u64>, ProbeError> {
        let file = self.file()?;
        let targets = stubs_of(&file, name);
        let mut found = Vec::new();
        if let Some(section) = file.section_by_name(".text").filter(|_| !targets.is_empty()) {
            let base = section.address();
            let relative: Vec<u64> = targets.iter().map(|target| target.wrapping_sub(base)).collect();
            let calls = calls_to(section.data().unwrap_or_default(), &relative);
            found.extend(calls.into_iter().filter_map(|at| offset_of(&file, base.wrapping_add(at))));
        }
        if found.is_empty() {
            return Err(ProbeError::NoCall { path: self.path.clone(), name: name.to_owned() });
        }
        Ok(found)
    }

    /// Where the stubs are by which the file calls a function of another one: addresses.
    pub(super) fn stubs_of(&self, name: &str) -> Vec<u64> {
        self.file().map(|file| stubs_of(&file, name)).unwrap_or_default()
    }

    /// The addresses of the file's own instructions.
    pub(super) fn text(&self) -> Option<std::ops::Range<u64>> {
        let file = self.file().ok()?;
        let section = file.section_by_name(".text")?;
        Some(section.address()..section.address().saturating_add(section.size()))
    }

    /// The address of a function that the file defines.
    pub(super) fn address_of(&self, name: &str) -> Option<u64> {
        let file = self.file().ok()?;
        let mut symbols = file.dynamic_symbols().chain(file.symbols());
        let found = symbols.find(|symbol| symbol.name() == Ok(name) && symbol.is_definition())?;
        Some(found.address())
    }

    /// The addresses of functions of a program of Go: by its symbols, or where these were stripped by its runtime's table.
    pub(super) fn addresses_of_go<const N: usize>(&self, names: [&str; N]) -> [Option<u64>; N] {
        let by_symbols = names.map(|name| self.address_of(name));
        if by_symbols[0].is_some() {
            return by_symbols;
        }
        let Ok(file) = self.file() else { return [None; N] };
        let table = [".gopclntab", ".data.rel.ro.gopclntab"].into_iter().find_map(|name| file.section_by_name(name));
        let Some(table) = table.and_then(|section| section.data().ok()) else { return [None; N] };
        go_functions(table, self.text().map_or(0, |text| text.start), names)
    }

    /// Whether it is a program of Go.
    pub(super) fn is_of_go(&self) -> bool {
        self.file().is_ok_and(|file| file.section_by_name(".go.buildinfo").is_some())
    }

    /// A function of a program of Go: where it is in the file, and its first instructions.
    pub(super) fn go_function(&self, name: &str) -> Option<(u64, Vec<u8>)> {
        let [address] = self.addresses_of_go([name]);
        self.code_at(address?, UNSIZED)
    }

    /// The instructions from an address on, at most `size` bytes of its section, and where in the file they are.
    pub(super) fn code_at(&self, address: u64, size: usize) -> Option<(u64, Vec<u8>)> {
        let file = self.file().ok()?;
        let within = |section: &object::Section<'_, '_>| {
            section.name() == Ok(".text")
                && address.checked_sub(section.address()).is_some_and(|at| at < section.size())
        };
        let section = file.sections().find(within)?;
        let left = section.address().saturating_add(section.size()).saturating_sub(address);
        let size = size.min(usize::try_from(left).ok()?);
        Some((offset_of(&file, address)?, self.code(&file, address, size)?))
    }

    /// The pointers that stand in a row from an address on, as they are once the file is loaded at 0; 0 for those that
    /// are not known.
    pub(super) fn pointers(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        let file = self.file().ok()?;
        let begin = usize::try_from(offset_of(&file, address)?).ok()?;
        let words = self.bytes.get(begin..begin.checked_add(8 * count)?)?.chunks_exact(8);
        let mut found: Vec<u64> =
            words.map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))).collect();
        for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let place = at.checked_sub(address).map(|within| within / 8).and_then(|index| usize::try_from(index).ok());
            if let (RelocationTarget::Absolute, Some(word)) =
                (relocation.target(), place.and_then(|at| found.get_mut(at)))
            {
                *word = relocation.addend().cast_unsigned();
            }
        }
        Some(found)
    }

    /// All places of the file that hold a pointer into it once it is loaded, with what they then point to when it is
    /// loaded at 0.
    pub(super) fn all_pointers(&self) -> BTreeMap<u64, u64> {
        let Ok(file) = self.file() else { return BTreeMap::new() };
        let relocations = file.dynamic_relocations().into_iter().flatten();
        relocations
            .filter(|(_, relocation)| matches!(relocation.target(), RelocationTarget::Absolute))
            .map(|(at, relocation)| (at, relocation.addend().cast_unsigned()))
            .collect()
    }

    /// The bytes at an address, at most `size`.
    fn code(&self, file: &File<'_>, address: u64, size: usize) -> Option<Vec<u8>> {
        let begin = usize::try_from(offset_of(file, address)?).ok()?;
        let end = begin.saturating_add(size).min(self.bytes.len());
        self.bytes.get(begin..end).filter(|code| !code.is_empty()).map(<[u8]>::to_vec)
    }
}

/// Where a file's table of jumps leads to a function of another file: addresses of the jumps.
fn stubs_of(file: &File<'_>, name: &str) -> Vec<u64> {
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.index());
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let pointers: Vec<u64> = relocations
        .filter(|(_, relocation)| match relocation.target() {
            RelocationTarget::Symbol(index) => Some(index) == symbol,
            _ => false,
        })
        .map(|(address, _)| address)
        .collect();
    let mut targets = Vec::new();
    for section in file.sections().filter(|section| section.name().is_ok_and(|name| name.starts_with(".plt"))) {
        let base = section.address();
        for (at, pointer) in stubs(section.data().unwrap_or_default()) {
            if pointers.contains(&base.wrapping_add(pointer)) {
                targets.push(base.wrapping_add(at));
            }
        }
    }
    targets
}

/// Where an address is in the file.
fn offset_of(file: &File<'_>, address: u64) -> Option<u64> {
    file.segments().find_map(|segment| {
        let within = address.checked_sub(segment.address())?;
        let (offset, size) = segment.file_range();
        (within < size).then(|| offset.checked_add(within)).flatten()
    })
}

/// The content of the first note if it is a static probe's, and what follows; `None` at the end, or where it is damaged.
///
/// A note is: length of the owner's name, length of the content, type, then both, each filled up to four bytes.
#[must_use]
pub fn next_note(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(12)?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let padded = |length: u32| usize::try_from(length).ok()?.checked_next_multiple_of(4);
    let (owner, rest) = rest.split_at_checked(padded(word(0))?)?;
    // The last one's filling may be missing.
    let length = usize::try_from(word(4)).ok()?;
    let content = rest.get(..length)?;
    let after = rest.get(padded(word(4))?..).unwrap_or_default();
    let ours = owner.starts_with(b"stapsdt\0") && word(8) == usdt::NOTE_TYPE;
    Some((ours.then_some(content), after))
}

impl std::fmt::Debug for Binary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Binary").field("path", &self.path).finish_non_exhaustive()
    }
}
