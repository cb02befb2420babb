//! A worker's record of its own requests: written to a directory of its host while it loads, and sent when that is over.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use weir_load::LoadError;
use weir_load::workers::{FilePiece, Made, PIECE_BYTES_MAX, RECORD_BYTES_MAX};
use weir_record::{ClientEvents, UnwrittenError, Written};
use weir_trace::{Run, WriteError};

/// Why there is no record, or no whole one.
#[derive(Debug, thiserror::Error)]
pub(super) enum OwnRecordError {
    #[error("no directory for it can be made on the worker's host: {0}")]
    Directory(io::Error),
    #[error(transparent)]
    Begin(#[from] WriteError),
    #[error(transparent)]
    Write(#[from] UnwrittenError),
    #[error("it cannot be read again: {0}")]
    Read(io::Error),
    #[error(
        "it takes {} MiB, and at most {} are sent; load for a shorter time, or by more workers",
        .bytes >> 20,
        RECORD_BYTES_MAX >> 20
    )]
    TooLarge { bytes: u64 },
}

/// What a worker's run came to.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) made: Result<Made, LoadError>,
    /// None where no record was asked for.
    pub(super) record: Option<Result<OwnRecord, OwnRecordError>>,
}

/// A record that is to be sent; its directory is removed with it.
#[derive(Debug)]
pub(super) struct OwnRecord {
    folder: tempfile::TempDir,
    /// Files that are to be sent, by their paths below the run.
    files: VecDeque<PathBuf>,
    open: Option<(String, File)>,
}

/// Has `make` make the part, and records its requests meanwhile where that is wanted. The part is made in any case.
pub(super) fn loaded(events: Option<ClientEvents>, make: impl FnOnce() -> Result<Made, LoadError>) -> Loaded {
    let Some(events) = events else { return Loaded { made: make(), record: None } };
    let begun = || -> Result<_, OwnRecordError> {
        let folder = tempfile::Builder::new().prefix("weir-worker-").tempdir().map_err(OwnRecordError::Directory)?;
        let run = Run::create(folder.path())?;
        Ok((folder, run))
    };
    let (folder, run) = match begun() {
        Ok(begun) => begun,
        // Without a reader the events find their rings full, which is counted.
        Err(error) => return Loaded { made: make(), record: Some(Err(error)) },
    };
    let mut make = Some(make);
    let written = events.written(&run, || make.take().map(|make| make()), |_| Vec::new());
    let Written { made, unwritten } = match written {
        Ok(written) => written,
        Err(error) => Written { made: None, unwritten: Some(error.into()) },
    };
    let record = match unwritten {
        Some(error) => Err(error.into()),
        None => OwnRecord::of(folder),
    };
    let made = made.unwrap_or_else(|| make.map_or(Err(LoadError::Panicked), |make| make()));
    Loaded { made, record: Some(record) }
}

impl OwnRecord {
    fn of(folder: tempfile::TempDir) -> Result<Self, OwnRecordError> {
        let (mut files, mut bytes) = (VecDeque::new(), 0);
        for below in ["segments", ""] {
            for entry in std::fs::read_dir(folder.path().join(below)).map_err(OwnRecordError::Read)? {
                let entry = entry.map_err(OwnRecordError::Read)?;
                let about = entry.metadata().map_err(OwnRecordError::Read)?;
                if about.is_file() {
                    bytes += about.len();
                    files.push_back(Path::new(below).join(entry.file_name()));
                }
            }
        }
        if bytes > RECORD_BYTES_MAX {
            return Err(OwnRecordError::TooLarge { bytes });
        }
        Ok(Self { folder, files, open: None })
    }

    /// The next piece that is to be sent; none where all were.
    pub(super) fn next_piece(&mut self) -> Result<Option<FilePiece>, OwnRecordError> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.files.pop_front() else { return Ok(None) };
                let file = File::open(self.folder.path().join(&path)).map_err(OwnRecordError::Read)?;
                self.open = Some((path.to_string_lossy().into_owned(), file));
            }
            let Some((name, file)) = &mut self.open else { return Ok(None) };
            let mut bytes = Vec::new();
            file.take(PIECE_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(OwnRecordError::Read)?;
            if !bytes.is_empty() {
                return Ok(Some(FilePiece { name: name.clone(), bytes }));
            }
            self.open = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_sent_in_pieces_and_removed() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().to_owned();
        std::fs::create_dir(path.join("segments")).expect("made");
        let bytes: Vec<u8> = (0..PIECE_BYTES_MAX + 5).map(|at| at as u8).collect();
        std::fs::write(path.join("segments/a.seg"), &bytes).expect("written");
        std::fs::write(path.join("manifest.jsonl"), "{}").expect("written");
        std::fs::write(path.join("empty"), "").expect("written");
        let mut record = OwnRecord::of(folder).expect("a record");
        let mut sent: Vec<(String, Vec<u8>)> = Vec::new();
        while let Some(piece) = record.next_piece().expect("read") {
            assert!(piece.bytes.len() <= PIECE_BYTES_MAX);
            match sent.last_mut() {
                Some((name, whole)) if *name == piece.name => whole.extend(piece.bytes),
                _ => sent.push((piece.name, piece.bytes)),
            }
        }
        assert_eq!(sent, [("segments/a.seg".to_owned(), bytes), ("manifest.jsonl".to_owned(), b"{}".to_vec())]);
        drop(record);
        assert!(!path.exists());
    }
}
