//! Which runs there are below the directories that were named.

use crate::refusal::ConsoleError;
use serde::Serialize;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use weir_trace::{Entry, holds_several, parse_manifest};

/// Runs that are listed.
const MOST_RUNS: usize = 1000;
/// Folders that are looked into.
const MOST_FOLDERS: usize = 20_000;
/// Folders within folders.
const MOST_DEPTH: usize = 5;
/// Bytes of a manifest that are read for the list.
const MOST_MANIFEST: u64 = 1 << 20;

/// A run of the list.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Listed {
    /// Its name in addresses: its path below the directory that was named.
    pub(crate) run: String,
    #[serde(skip)]
    pub(crate) directory: PathBuf,
    /// The recorded host.
    pub(crate) host: Option<String>,
    /// The command that recorded it.
    pub(crate) command: Option<String>,
    /// Sources that wrote: kernel, client, arm.
    pub(crate) sources: Vec<String>,
    /// When it began, nanoseconds since 1970, as a text: it is beyond what a script's numbers hold exactly.
    pub(crate) begin_unix_ns: Option<String>,
    /// From the begin of the first source to the end of the last, nanoseconds.
    pub(crate) duration_ns: Option<u64>,
    /// Events that were written.
    pub(crate) events: u64,
    /// Bytes of its segments.
    pub(crate) bytes: u64,
    /// Why it cannot be opened here; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// The list, and whether there is more than it has room for.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Listing {
    pub(crate) runs: Vec<Listed>,
    /// Whether folders or runs were left out.
    pub(crate) is_cut: bool,
}

/// Where runs are.
#[derive(Debug, Default, Clone)]
pub(crate) struct Places {
    pub(crate) runs: Vec<Place>,
    /// Whether folders or runs were left out.
    pub(crate) is_cut: bool,
    folders: usize,
}

/// Where a run is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Its name in addresses.
    pub(crate) run: String,
    pub(crate) directory: PathBuf,
}

/// Looks for runs and what their manifests tell. A directory that cannot be read is an error only if it was named.
pub(crate) fn list(named: &[PathBuf]) -> Result<Listing, ConsoleError> {
    let places = places(named)?;
    let mut runs: Vec<Listed> = places.runs.into_iter().map(described).collect();
    // The newest first.
    runs.sort_by(|a, b| {
        let begin = |one: &Listed| one.begin_unix_ns.as_deref().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        begin(b).cmp(&begin(a)).then_with(|| a.run.cmp(&b.run))
    });
    Ok(Listing { runs, is_cut: places.is_cut })
}

/// Looks where runs are.
pub(crate) fn places(named: &[PathBuf]) -> Result<Places, ConsoleError> {
    let mut places = Places::default();
    for directory in named {
        fs::read_dir(directory).map_err(|source| ConsoleError::Directory { path: directory.clone(), source })?;
        // With several directories each run says below which it is.
        let prefix = match (named.len(), is_run(directory)) {
            (1, false) => PathBuf::new(),
            _ => directory.clone(),
        };
        look(directory, &prefix, 0, &mut places);
    }
    Ok(places)
}

fn is_run(directory: &Path) -> bool {
    directory.join("segments").is_dir() || holds_several(directory)
}

fn look(directory: &Path, name: &Path, depth: usize, places: &mut Places) {
    places.folders += 1;
    if places.runs.len() >= MOST_RUNS || places.folders > MOST_FOLDERS {
        places.is_cut = true;
        return;
    }
    if is_run(directory) {
        let name = name.to_string_lossy().trim_end_matches('/').to_owned();
        let run = if name.is_empty() { ".".to_owned() } else { name };
        places.runs.push(Place { run, directory: directory.to_owned() });
        return;
    }
    if depth >= MOST_DEPTH {
        return;
    }
    let mut within: Vec<_> = fs::read_dir(directory).into_iter().flatten().flatten().collect();
    within.sort_by_key(fs::DirEntry::file_name);
    for entry in within {
        // A link may lead anywhere, and in circles.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if is_folder && !hidden {
            look(&entry.path(), &name.join(entry.file_name()), depth + 1, places);
        }
    }
}

/// Whether each source that began to write the run has ended. A source that was killed never does.
pub(crate) fn is_whole(directory: &Path) -> bool {
    let of = |wanted: fn(&Entry) -> bool, all: &[Entry]| all.iter().filter(|entry| wanted(entry)).count();
    let all = entries(directory);
    let begun = of(|entry| matches!(entry, Entry::Source { .. }), &all);
    begun > 0 && begun == of(|entry| matches!(entry, Entry::End { .. }), &all)
}

/// What a run's manifest tells, as far as it is read for a list.
fn entries(directory: &Path) -> Vec<Entry> {
    let path = directory.join("manifest.jsonl");
    let mut bytes = Vec::new();
    // Without a manifest, as of a run that another program is about to begin, less is told.
    let _told = fs::File::open(&path).and_then(|file| file.take(MOST_MANIFEST).read_to_end(&mut bytes));
    // What lies beyond the bound is the end of a line, which counts as cut.
    parse_manifest(&bytes, &path).map(|manifest| manifest.entries).unwrap_or_default()
}

fn described(place: Place) -> Listed {
    let mut listed = Listed {
        run: place.run,
        directory: place.directory,
        host: None,
        command: None,
        sources: Vec::new(),
        begin_unix_ns: None,
        duration_ns: None,
        events: 0,
        bytes: 0,
        refused: None,
    };
    if holds_several(&listed.directory) {
        listed.refused =
            Some("it holds the runs of several hosts, which the console does not join: `weir view` does".to_owned());
        return listed;
    }
    let (mut begin, mut end) = (None::<u64>, None::<u64>);
    for entry in entries(&listed.directory) {
        match entry {
            Entry::Source { source, command, host, realtime_ns, .. } => {
                if !listed.sources.contains(&source) {
                    listed.sources.push(source);
                }
                listed.host.get_or_insert(host.name);
                listed.command.get_or_insert(command.join(" "));
                begin = Some(begin.map_or(realtime_ns, |known| known.min(realtime_ns)));
            }
            Entry::End { realtime_ns, .. } => end = Some(end.map_or(realtime_ns, |known| known.max(realtime_ns))),
            Entry::Segment { records, bytes, .. } => {
                listed.events += records;
                listed.bytes += bytes;
            }
            Entry::Removed { .. } => {}
        }
    }
    listed.duration_ns = begin.zip(end).map(|(begin, end)| end.saturating_sub(begin));
    listed.begin_unix_ns = begin.map(|ns| ns.to_string());
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_what_they_hold_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a directory");
        for name in ["a/segments", "deep/er/b/segments", "not/a-run", ".hidden/c/segments"] {
            fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        std::os::unix::fs::symlink(folder.path(), folder.path().join("circle")).expect("a link");
        let names = |named: &[PathBuf]| -> Vec<String> {
            list(named).expect("a list").runs.into_iter().map(|listed| listed.run).collect()
        };
        assert_eq!(names(&[folder.path().to_owned()]), ["a", "deep/er/b"]);
        let one = folder.path().join("a");
        assert_eq!(names(std::slice::from_ref(&one)), [one.to_string_lossy()]);
        assert!(list(&[folder.path().join("missing")]).is_err());
    }
}
