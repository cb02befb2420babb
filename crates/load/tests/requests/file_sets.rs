//! File sets are written whole, the same for the same seed, and never over something else.

use std::collections::BTreeMap;
use std::path::Path;
use weir_load::workload::fileset::{FileSetError, MARK, write};
use weir_load::workload::{FileSet, Surge};

fn surge(files: u32, seed: u64) -> FileSet {
    FileSet::Surge(Surge::new(files, seed))
}

fn specweb96(directories: u32, seed: u64) -> FileSet {
    FileSet::SpecWeb96 { directories, seed }
}

/// All files below a directory, by their paths in it.
fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below it").display().to_string();
                found.insert(name, std::fs::read(&path).expect("readable"));
            }
        }
    }
    found
}

#[test]
fn all_files_are_there_with_their_sizes_and_a_seed_repeats_them() {
    let (one, other, third) = (tempfile::tempdir(), tempfile::tempdir(), tempfile::tempdir());
    let [one, other, third] = [one, other, third].map(|made| made.expect("a directory"));
    let set = specweb96(2, 1);
    let progress = write(&set, one.path(), |_| true).expect("written");
    assert_eq!((progress.files, progress.kept, progress.bytes), (72, 0, set.bytes()));
    let mut files = contents(one.path());
    write(&set, other.path(), |_| true).expect("written");
    assert!(files == contents(other.path()), "the same seed gives the same bytes");
    write(&specweb96(2, 2), third.path(), |_| true).expect("written");
    assert!(files.get("dir00000/class1_0") != contents(third.path()).get("dir00000/class1_0"));
    assert!(files.remove(MARK).is_some());
    assert_eq!(files.len(), 72);
    for file in 0..set.len() {
        assert_eq!(files[&set.path(file)].len() as u64, set.size(file), "{}", set.path(file));
    }
    let page = &files["dir00001/class2_0"];
    assert!(page.is_ascii() && page != &files["dir00000/class2_0"], "text, and no two files the same");
}

#[test]
fn the_files_of_surge_are_there_with_their_sizes() {
    let (directory, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    // More than a directory holds.
    let set = surge(1100, 3);
    write(&set, directory.path(), |_| true).expect("written");
    let mut files = contents(directory.path());
    files.remove(MARK).expect("the mark");
    assert_eq!((files.len(), files.contains_key("s001/f099")), (1100, true));
    for file in 0..set.len() {
        assert_eq!(files[&set.path(file)].len() as u64, set.size(file), "{}", set.path(file));
    }
    write(&surge(10, 4), other.path(), |_| true).expect("written");
    let error = write(&surge(10, 5), other.path(), |_| true).expect_err("another set").to_string();
    assert!(error.contains("surge, 10 files, seed 4"), "{error}");
}

#[test]
fn what_was_begun_is_completed() {
    let directory = tempfile::tempdir().expect("a directory");
    let set = specweb96(1, 1);
    let error = write(&set, directory.path(), |progress| progress.files < 10).expect_err("it is ended");
    assert!(matches!(error, FileSetError::Stopped { progress } if progress.files == 10), "{error}");
    assert!(error.to_string().contains("10 of 36 files are there; the same command goes on"), "{error}");
    // A file that was cut short is written again.
    std::fs::write(directory.path().join(set.path(3)), "x").expect("a file");
    let progress = write(&set, directory.path(), |_| true).expect("completed");
    assert_eq!((progress.files, progress.kept), (36, 9));
    let (files, fresh) = (contents(directory.path()), tempfile::tempdir().expect("a directory"));
    write(&set, fresh.path(), |_| true).expect("written");
    assert!(files == contents(fresh.path()));
    assert_eq!(write(&set, directory.path(), |_| true).expect("all there").kept, 36);
}

#[test]
fn nothing_else_is_written_over() {
    let directory = tempfile::tempdir().expect("a directory");
    write(&specweb96(1, 1), directory.path(), |_| true).expect("written");
    for other in [specweb96(2, 1), specweb96(1, 2)] {
        let error = write(&other, directory.path(), |_| true).expect_err("another set").to_string();
        assert!(
            error.contains("holds another file set (weir file set 1: specweb96, 1 directories, seed 1)"),
            "{error}"
        );
    }
    let mine = tempfile::tempdir().expect("a directory");
    std::fs::write(mine.path().join("thesis.tex"), "years of work").expect("a file");
    let error = write(&specweb96(1, 1), mine.path(), |_| true).expect_err("not empty").to_string();
    assert!(error.contains("is not empty and holds no file set"), "{error}");
    assert_eq!(contents(mine.path()).len(), 1);
    let file = mine.path().join("thesis.tex");
    let error = write(&specweb96(1, 1), &file, |_| true).expect_err("a file").to_string();
    assert!(error.contains("thesis.tex: "), "{error}");
}

#[test]
fn a_disk_too_small_is_told_before_anything_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    // Half a terabyte.
    let error = write(&specweb96(100_000, 1), directory.path(), |_| true).expect_err("no room").to_string();
    assert!(error.contains("has room for") && error.contains("make fewer files"), "{error}");
    assert_eq!(contents(directory.path()).len(), 1, "only the mark");
}
