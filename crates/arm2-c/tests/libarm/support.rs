//! Programs in C against the library that Cargo has built beside these tests, and a reader of what they leave.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use weir_wire::arm::{
    DEFINITION_BYTES, DEFINITIONS_AT, Definition, Detail, Field, HEAD_DEFINED_BYTES, HEAD_HEARTBEAT, LANE_BYTES,
    LANE_READ, LANE_SLOTS, LANE_WRITTEN, LANES, LANES_AT, Metric, POSITION_WORDS, POSITIONS_AT, Piece,
};
use weir_wire::{Kind, Record, SLOT_BYTES, Slot};

/// The top of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The shared library as Cargo has built it.
pub(crate) fn library() -> PathBuf {
    let built = std::env::current_exe().expect("this test").with_file_name("libarm.so");
    assert!(built.exists(), "{} is missing", built.display());
    built
}

/// Runs a program to its end; what it said is shown where it fails.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// A folder with the library under the names by which programs find it, and a place for announcements.
pub(crate) struct Workplace {
    folder: tempfile::TempDir,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for name in ["libarm.so", "libarm.so.2"] {
            symlink(library(), folder.path().join(name)).expect("a link");
        }
        fs::create_dir(folder.path().join("announced")).expect("a new directory");
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a file of `tests/c` against the header and the library.
    pub(crate) fn compile(&self, compiler: &str, flags: &[&str], source: &str, name: &str) -> PathBuf {
        let program = self.path(name);
        let layout = [
            ("HEARTBEAT_AT", HEAD_HEARTBEAT * 8),
            ("POSITIONS_AT", POSITIONS_AT),
            ("LANES", LANES),
            ("LANE_WORDS", POSITION_WORDS),
            ("WRITTEN", LANE_WRITTEN),
            ("READ", LANE_READ),
        ];
        run(Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-O1", "-g"])
            .args(flags)
            .args(layout.map(|(name, value)| format!("-D{name}={value}")))
            .arg("-I")
            .arg(repository().join("native/include"))
            .arg("-o")
            .arg(&program)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source))
            .arg("-L")
            .arg(self.folder.path())
            .args(["-larm", "-pthread"]));
        program
    }

    /// A program that finds the library, and announces itself here.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("WEIR_ARM_DIR", self.path("announced"));
        command
    }

    /// The memory that a running process has announced.
    pub(crate) fn memory_of(&self, pid: u32) -> Memory {
        let folder = fs::read_dir(self.path("announced")).expect("the directory is there");
        let names = folder.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let descriptors = names.filter_map(|name| Some(name.strip_prefix(&format!("{pid}-"))?.to_owned()));
        let descriptor = descriptors.last().expect("the process has announced itself");
        Memory(File::open(format!("/proc/{pid}/fd/{descriptor}")).expect("the memory is open"))
    }
}

/// A definition with its number, from 1.
#[derive(Debug)]
pub(crate) struct Defined {
    pub(crate) number: u16,
    pub(crate) belongs_to: u16,
    pub(crate) pieces: Vec<(Field, Vec<u8>)>,
}

/// What a process has told.
pub(crate) struct Memory(File);

impl Memory {
    fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, at as u64).expect("within the memory");
        u64::from_ne_bytes(bytes)
    }

    /// The definitions in the order of their numbers.
    pub(crate) fn definitions(&self) -> Vec<Defined> {
        let mut bytes = vec![0; self.word(HEAD_DEFINED_BYTES * 8) as usize];
        assert!(bytes.len() <= DEFINITION_BYTES);
        self.0.read_exact_at(&mut bytes, DEFINITIONS_AT as u64).expect("within the memory");
        let mut rest = &bytes[..];
        let mut found = Vec::new();
        while let Some((definition, taken)) = Definition::read(rest) {
            assert_eq!(definition.standard, 2);
            let pieces = definition.pieces().map(|(field, _, bytes)| (field, bytes.to_vec())).collect();
            found.push(Defined { number: found.len() as u16 + 1, belongs_to: definition.belongs_to, pieces });
            rest = &rest[taken..];
        }
        found
    }

    /// All records in the order of time, with the slots behind them.
    pub(crate) fn records(&self) -> Vec<(Record, Vec<Slot>)> {
        let mut found = Vec::new();
        for lane in 0..LANES {
            let position = |word: usize| self.word(POSITIONS_AT + (lane * POSITION_WORDS + word) * 8);
            let (mut read, written) = (position(LANE_READ), position(LANE_WRITTEN));
            let slot = |at: u64| -> Slot {
                let begins = LANES_AT + lane * LANE_BYTES + at as usize % LANE_SLOTS * SLOT_BYTES;
                std::array::from_fn(|word| self.word(begins + word * 8))
            };
            while read < written {
                let record = Record::from_slot(slot(read));
                let payload = (1..=u64::from(record.slots)).map(|behind| slot(read + behind)).collect();
                read += 1 + u64::from(record.slots);
                found.push((record, payload));
            }
        }
        found.sort_by_key(|(record, _)| record.time_ns);
        found
    }

    /// The records of a kind.
    pub(crate) fn of(&self, kind: Kind) -> Vec<(Record, Vec<Slot>)> {
        self.records().into_iter().filter(|(record, _)| record.kind == kind as u16).collect()
    }

    /// What was told in detail: (handle, field, index, bytes); metrics in the longer of their forms.
    pub(crate) fn details(&self) -> Vec<(u64, Option<Field>, u8, Vec<u8>)> {
        let mut found = Vec::new();
        for (record, slots) in self.records() {
            let bytes: Vec<u8> = slots.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
            if record.kind == Kind::ArmDetail as u16 {
                let detail = Detail::of_operand(record.b);
                let rest = (detail.whole_bytes as usize).saturating_sub(usize::from(detail.offset));
                found.push((record.a, Field::from_code(detail.field), detail.index, bytes[..rest].to_vec()));
            }
            let is_packed = [Kind::ArmPieces, Kind::ArmStop].iter().any(|kind| record.kind == *kind as u16);
            let mut rest = if is_packed { &bytes[..] } else { &[] };
            while let Some((piece, behind)) = Piece::read(rest).filter(|(piece, _)| piece.field != 0) {
                rest = behind;
                found.push(match Field::from_code(piece.field) {
                    Some(Field::MetricNumber) => {
                        let metric = Metric::of_number(piece.bytes).expect("it is one");
                        (record.a, Some(Field::MetricValue), piece.index, metric.to_value().to_vec())
                    }
                    field => (record.a, field, piece.index, piece.bytes.to_vec()),
                });
            }
        }
        found
    }
}
