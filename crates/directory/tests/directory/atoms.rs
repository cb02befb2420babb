//! A folder is published, its content goes to another store, and a tree is exported there.

use proptest::collection;
use proptest::prelude::*;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use weir_directory::atoms::{AtomError, ContentStore, Elsewhere, export, export_version, manifest_of};
use weir_directory::{Digest, Manifest};

const ROOM: u64 = 1 << 20;

fn write(path: &Path, bytes: &[u8], mode: u32) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, bytes).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

fn paths(manifest: &Manifest) -> Vec<&str> {
    manifest.entries().iter().map(|file| file.path.as_str()).collect()
}

#[test]
fn a_folder_is_published_fetched_and_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    write(&site.join("index.html"), b"<p>one", 0o644);
    write(&site.join("bin/run.cgi"), b"#!/bin/sh", 0o755);
    write(&site.join("private"), b"secret", 0o600);
    symlink("index.html", site.join("home.html")).expect("a link");
    let here = ContentStore::open(&folder.path().join("here"), ROOM).expect("a store");
    let first = manifest_of(&site, &here).expect("published");
    assert_eq!(paths(&first), ["bin/run.cgi", "home.html", "index.html", "private"]);
    assert_eq!(first.file("home.html").map(|file| file.digest), Some(Digest::of(b"<p>one")));
    assert_eq!(here.bytes(), 6 + 9 + 6, "the same content is kept once");
    write(&site.join("index.html"), b"<p>two", 0o444);
    let second = manifest_of(&site, &here).expect("published");

    let there = ContentStore::open(&folder.path().join("there"), ROOM).expect("a store");
    let trees = folder.path().join("trees");
    assert!(matches!(export(&first, &there, &trees), Err(AtomError::Missing { .. })));
    assert!(!trees.join("current").exists());
    for file in first.entries().iter().chain(second.entries()) {
        let mut content = here.open_content(&file.digest).expect("it is there");
        there.receive(&file.digest, file.bytes, &mut content).expect("it is right");
    }
    let tree = export(&first, &there, &trees).expect("exported");
    let read = |path: &str| fs::read(trees.join("current").join(path)).expect("it is there");
    assert_eq!((read("index.html"), read("home.html")), (b"<p>one".to_vec(), b"<p>one".to_vec()));
    let mode = |path: &str| fs::metadata(tree.join(path)).expect("it is there").mode() & 0o777;
    // Nothing is writable, and nothing is readable for more users than it was.
    assert_eq!([mode("index.html"), mode("bin/run.cgi"), mode("private")], [0o444, 0o555, 0o400]);
    assert!(fs::metadata(tree.join("index.html")).expect("it is there").nlink() >= 2, "shared with the store");
    export(&second, &there, &trees).expect("exported");
    assert_eq!(read("index.html"), b"<p>two");
    assert!(tree.join("index.html").exists(), "for requests that began before");
    export(&second, &there, &trees).expect("exported before");
    export(&Manifest::default(), &there, &trees).expect("an empty one");
    assert!(!tree.exists() && !trees.join("current/index.html").exists());
    export(&first, &there, &trees).expect("rolled back");
    assert_eq!(read("index.html"), b"<p>one");
}

#[test]
fn other_bytes_than_those_named_are_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = ContentStore::open(folder.path(), ROOM).expect("a store");
    let digest = Digest::of(b"right");
    let receive = |bytes: &mut &[u8], length| store.receive(&digest, length, bytes);
    assert!(matches!(receive(&mut &b"wrong"[..], 5), Err(AtomError::Digest { .. })));
    assert!(matches!(receive(&mut &b"righ"[..], 5), Err(AtomError::Length { found: 4, .. })));
    assert!(matches!(receive(&mut &b"right and more"[..], 5), Err(AtomError::Length { found: 6, .. })));
    assert!(matches!(receive(&mut &b"right"[..], ROOM + 1), Err(AtomError::Full { .. })));
    assert!(!store.has(&digest) && store.bytes() == 0);
    assert!(matches!(store.open_content(&digest), Err(AtomError::Missing { .. })));
    assert_eq!(fs::read_dir(folder.path().join("partial")).expect("a folder").count(), 0, "nothing is left behind");
    receive(&mut &b"right"[..], 5).expect("it is right");
    receive(&mut &b""[..], 5).expect("it is there");
    assert!(store.verify(&digest).expect("it is there"));
    // A disk may change what is on it.
    let name = digest.to_string();
    let path = folder.path().join("sha256").join(&name[..2]).join(&name);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
    fs::write(&path, b"wrong").expect("written");
    assert!(!store.verify(&digest).expect("it is there"));
    assert!(!store.has(&digest) && store.bytes() == 0);
}

#[test]
fn the_least_popular_goes_first_and_what_is_kept_never() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = ContentStore::open(folder.path(), 100).expect("a store");
    let contents: Vec<Vec<u8>> = (0..4u8).map(|at| vec![at; 20 + usize::from(at)]).collect();
    let digests: Vec<Digest> = contents.iter().map(|content| Digest::of(content)).collect();
    for (digest, content) in digests.iter().zip(&contents) {
        store.receive(digest, content.len() as u64, &mut content.as_slice()).expect("there is room");
    }
    assert_eq!(store.bytes(), 86);
    let popularity = |digest: &Digest| digests.iter().position(|other| other == digest).map_or(0.0, |at| at as f64);
    let keep: HashSet<Digest> = [digests[0]].into();
    assert_eq!(store.make_room(14, &keep, &popularity).expect("there is room").contents, 0);
    let evicted = store.make_room(20, &keep, &popularity).expect("room is made");
    assert_eq!((evicted.contents, evicted.bytes), (1, 21));
    assert_eq!(digests.iter().map(|digest| store.has(digest)).collect::<Vec<_>>(), [true, false, true, true]);
    assert!(matches!(store.make_room(90, &keep, &popularity), Err(AtomError::Full { .. })));
    assert_eq!(store.bytes(), 65, "nothing was evicted in vain");
    drop(store);
    let again = ContentStore::open(folder.path(), 100).expect("a store");
    assert_eq!(again.bytes(), 65);
}

#[test]
fn trees_of_versions_are_kept_mended_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = ContentStore::open(&folder.path().join("store"), ROOM).expect("a store");
    let (site, trees) = (folder.path().join("site"), folder.path().join("trees"));
    write(&site.join("same"), b"same", 0o644);
    write(&site.join("run"), b"program", 0o755);
    let mut made = Vec::new();
    for version in 1..=5 {
        write(&site.join("other"), format!("version {version}").as_bytes(), 0o644);
        let manifest = manifest_of(&site, &store).expect("published");
        let tree = export_version((&manifest, &Elsewhere::new()), &store, &trees, version, 3).expect("exported");
        assert_eq!(fs::read_link(trees.join("current")).expect("a link"), tree.file_name().expect("a name"));
        made.push((manifest, tree));
    }
    let there = || made.iter().map(|(_, tree)| tree.exists()).collect::<Vec<_>>();
    assert_eq!(there(), [false, false, true, true, true]);
    // Back to one of which nothing is left; the newest three stay, and this one.
    export_version((&made[0].0, &Elsewhere::new()), &store, &trees, 1, 3).expect("exported");
    assert_eq!(there(), [true, false, true, true, true]);
    assert_eq!(fs::read(trees.join("current/other")).expect("is there"), b"version 1");
    // Files that were changed become what they were; those that are a link to the store's need it to be whole.
    let tree = &made[0].1;
    for name in ["same", "run"] {
        let path = tree.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
        fs::write(&path, b"wrong").expect("written");
    }
    let same = Digest::of(b"same");
    assert!(!store.verify(&same).expect("is there"), "the link was to this content");
    store.receive(&same, 4, &mut &b"same"[..]).expect("it comes again");
    export_version((&made[0].0, &Elsewhere::new()), &store, &trees, 1, 3).expect("mended");
    assert_eq!(fs::read(tree.join("same")).expect("is there"), b"same");
    assert_eq!(fs::read(tree.join("run")).expect("is there"), b"program");
}

#[test]
fn what_cannot_be_published_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = ContentStore::open(&folder.path().join("store"), ROOM).expect("a store");
    let refused = |make: &dyn Fn(&Path)| {
        let site = folder.path().join("site");
        let _ = fs::remove_dir_all(&site);
        write(&site.join("index.html"), b"x", 0o644);
        make(&site);
        manifest_of(&site, &store).expect_err("it is refused").to_string()
    };
    write(&folder.path().join("outside"), b"secret", 0o600);
    let error = refused(&|site| symlink("../outside", site.join("link")).expect("a link"));
    assert!(error.contains("leads out of the folder"), "{error}");
    let error = refused(&|site| symlink("absent", site.join("link")).expect("a link"));
    assert!(error.contains("link"), "{error}");
    let error = refused(&|site| symlink(".", site.join("link")).expect("a link"));
    assert!(error.contains("no file, folder or link to a file"), "{error}");
    let error = refused(&|site| write(&site.join("a\nb"), b"x", 0o644));
    assert!(error.contains("control character"), "{error}");
    let error = refused(&|site| {
        use std::os::unix::ffi::OsStrExt;
        write(&site.join(std::ffi::OsStr::from_bytes(b"\xff")), b"x", 0o644);
    });
    assert!(error.contains("no UTF-8"), "{error}");
    assert!(!store.has(&Digest::of(b"secret")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_folder_comes_back_as_it_was(files in collection::vec((any::<Vec<u8>>(), any::<bool>()), 0..8)) {
        let folder = tempfile::tempdir().expect("a folder");
        let site = folder.path().join("site");
        fs::create_dir_all(&site).expect("made");
        for (at, (content, is_deep)) in files.iter().enumerate() {
            let name = if *is_deep { format!("deep/{at}/file") } else { at.to_string() };
            write(&site.join(name), content, 0o644);
        }
        let store = ContentStore::open(&folder.path().join("store"), ROOM).expect("a store");
        let manifest = manifest_of(&site, &store).expect("published");
        prop_assert_eq!(manifest.entries().len(), files.len());
        prop_assert_eq!(manifest.bytes(), files.iter().map(|(content, _)| content.len() as u64).sum::<u64>());
        let tree = export(&manifest, &store, &folder.path().join("trees")).expect("exported");
        for file in manifest.entries() {
            prop_assert_eq!(fs::read(tree.join(&file.path)).expect("it is there"), fs::read(site.join(&file.path)).expect("it is there"));
        }
        prop_assert_eq!(manifest_of(&tree, &store).expect("published").entries().len(), files.len());
    }
}
