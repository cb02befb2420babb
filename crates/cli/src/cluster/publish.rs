//! Sites that are published once, for all nodes: `weir cluster publish`, `versions` and `rollback`.

use super::control_socket::{self, Asked, Told};
use super::published::{Published, directory_of};
use crate::serve_cluster::FACT;
use anyhow::{Context, bail, ensure};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_directory::atoms::{AtomError, ContentStore, Elsewhere, manifest_of};
use weir_directory::{DirectoryError, Manifest, Member, Publication};
use weir_terminal::{progress, units};

/// Publications of others that come before an unguarded one.
const TRIES: u32 = 8;
/// How often it is looked whether all nodes serve a version.
const WAIT_PAUSE: Duration = Duration::from_millis(50);
/// Shorter work shows no progress.
const QUIET: Duration = Duration::from_secs(2);

const PUBLISH_EXAMPLES: &str = "\
Examples:
  weir cluster publish /etc/weir/cluster ./build --site shop
      the files of ./build become the next version of the site, on all nodes
  weir cluster publish /etc/weir/cluster ./build --site shop --expect 3
      only if version 3 is current: two publishers do not overwrite each other
  weir cluster publish /etc/weir/cluster ./build --site shop --wait 1m
      returns once all nodes serve it, or says which do not within a minute";

/// Publish a folder as the next version of a site.
#[derive(Debug, clap::Args)]
#[command(after_help = PUBLISH_EXAMPLES)]
pub(super) struct PublishArgs {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The folder with the files of the site
    #[arg(value_name = "SITE-FOLDER")]
    content: PathBuf,

    /// The name of the site
    #[arg(long, value_name = "NAME", default_value = "www")]
    site: String,

    /// Publish only if this version is current; 0 for a site without one
    #[arg(long, value_name = "VERSION")]
    expect: Option<u64>,

    /// Return once all nodes that are there serve the version; ends with 1, and says which do not, after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, num_args = 0..=1, default_missing_value = "30s")]
    wait: Option<Duration>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

const VERSIONS_EXAMPLES: &str = "\
Examples:
  weir cluster versions /etc/weir/cluster --site shop
      which versions there are, and which one is current
  weir cluster versions /etc/weir/cluster --site shop --json
      the same for programs";

/// Show the versions of a site.
#[derive(Debug, clap::Args)]
#[command(after_help = VERSIONS_EXAMPLES)]
pub(super) struct VersionsArgs {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The name of the site
    #[arg(long, value_name = "NAME", default_value = "www")]
    site: String,

    /// As JSON
    #[arg(long)]
    json: bool,
}

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  weir cluster rollback /etc/weir/cluster --site shop --to 3
      version 3 is served again, on all nodes";

/// Make an earlier version of a site current.
#[derive(Debug, clap::Args)]
#[command(after_help = ROLLBACK_EXAMPLES)]
pub(super) struct RollbackArgs {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The version
    #[arg(long, value_name = "VERSION")]
    to: u64,

    /// The name of the site
    #[arg(long, value_name = "NAME", default_value = "www")]
    site: String,
}

pub(super) fn publish(args: &PublishArgs) -> anyhow::Result<ExitCode> {
    let PublishArgs { folder, content, site, expect, wait, json } = args;
    let published = Published::of(folder)?;
    ensure!(content.is_dir(), "{} is no folder; name the one with the site's files", content.display());
    let begun = Instant::now();
    let lock = published.lock()?;
    if let Err(error) = published.make_room(bytes_of(content)?) {
        // Most of it may be there already; what is not says so when it finds no room.
        let is_full = matches!(error.downcast_ref(), Some(AtomError::Full { .. }));
        ensure!(is_full, error);
    }
    let before = published.store.bytes();
    let manifest = with_progress(&published.store, before, || Ok(manifest_of(content, &published.store)?))?;
    ensure!(!manifest.entries().is_empty(), "{} holds no file; name the folder with the site", content.display());
    let new_bytes = published.store.bytes().saturating_sub(before);
    let (version, is_new) = commit(&published, site, &manifest, *expect)?;
    drop(lock);
    let served = serve_here(folder, &published, site, version, &manifest);
    let not_serving = wait.map(|within| wait_until_served(&published, site, version, within)).transpose()?;
    let (files, bytes) = (manifest.entries().len() as u64, manifest.bytes());
    let root = published.root(site);
    if *json {
        let report = json!({
            "schema": "weir-cluster-publish/1",
            "site": site, "version": version, "is_new": is_new, "files": files, "bytes": bytes,
            "new_bytes": new_bytes, "root": root, "has_node": matches!(served, Ok(true)),
            "not_serving": not_serving,
        });
        println!("{report:#}");
    } else {
        let took = begun.elapsed();
        let (files, root) = (units::counted(files, "file"), root.display());
        let what = if is_new { "is published" } else { "has these files already" };
        println!("site {site}: version {version} {what}: {files}, {bytes} bytes, {new_bytes} of them new ({took:.1?})");
        match served {
            Ok(true) => println!("this node serves it: {root}"),
            Ok(false) => println!("no node runs here: its files are in {root}; the others fetch them once one does"),
            Err(_) => {}
        }
        if not_serving.as_ref().is_some_and(Vec::is_empty) {
            println!("all nodes that are there serve it");
        }
    }
    let lacking = not_serving.unwrap_or_default();
    let lacks = || anyhow::anyhow!("these nodes do not serve version {version} yet: {}", lacking.join(", "));
    outcome(served.err().or_else(|| (!lacking.is_empty()).then(lacks)), "publish")
}

/// Waits until all nodes that are there serve a version of a site, or a later one that came meanwhile; those that do not.
fn wait_until_served(published: &Published, site: &str, version: u64, within: Duration) -> anyhow::Result<Vec<String>> {
    let (deadline, fact) = (Instant::now() + within, format!("{FACT}{site}"));
    loop {
        let current = published.directory.current(site)?.into_value().map_or(version, |current| current.version);
        let serves = |member: &Member| {
            let has = member.node.facts.get(&fact).and_then(|has| has.parse::<u64>().ok());
            has.is_some_and(|has| has == version || has == current)
        };
        let nodes = published.directory.nodes()?.into_value();
        let lacking = nodes.iter().filter(|member| member.is_present && !serves(member));
        let lacking: Vec<String> = lacking.map(|member| member.node.name.clone()).collect();
        if lacking.is_empty() || Instant::now() >= deadline {
            return Ok(lacking);
        }
        std::thread::sleep(WAIT_PAUSE);
    }
}

/// Publishes a manifest, unless the current version has the same one; the version, and whether it is new.
fn commit(published: &Published, site: &str, manifest: &Manifest, expect: Option<u64>) -> anyhow::Result<(u64, bool)> {
    let missing = manifest.entries().iter().find(|file| !published.store.has(&file.digest));
    if let Some(file) = missing {
        bail!("the content of {} was removed meanwhile; publish again", file.path);
    }
    for _ in 0..TRIES {
        let current = published.directory.current(site)?.into_value();
        let (version, has) = current.map_or((0, None), |current| (current.version, Some(current.manifest)));
        if expect.is_none_or(|expected| expected == version) && has == Some(manifest.digest()) {
            return Ok((version, false));
        }
        let expected = expect.unwrap_or(version);
        match published.directory.publish(site, manifest, Some(expected).filter(|version| *version > 0)) {
            Ok(version) => return Ok((version, true)),
            Err(DirectoryError::Conflict { .. }) if expect.is_none() => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("others publish {site} all the time; try again")
}

pub(super) fn versions(args: &VersionsArgs) -> anyhow::Result<ExitCode> {
    let VersionsArgs { folder, site, json } = args;
    let directory = directory_of(folder)?;
    let current = directory.current(site)?.into_value().map(|current| current.version);
    let versions = directory.versions(site)?.into_value();
    ensure!(current.is_some(), "no version of {site} is published; see weir cluster publish");
    if *json {
        let rows: Vec<_> = versions.iter().map(|version| row(version, current)).collect();
        println!("{:#}", json!(rows));
        return Ok(ExitCode::SUCCESS);
    }
    for Publication { version, files, bytes, published_unix_s, .. } in &versions {
        let when = i64::try_from(*published_unix_s).ok().and_then(|at| chrono::DateTime::from_timestamp(at, 0));
        let when = when.map_or_else(|| "-".to_owned(), |when| when.format("%Y-%m-%d %H:%M:%SZ").to_string());
        let mark = if Some(*version) == current { "current" } else { "" };
        println!("{version:>6}  {when:<20}  {files:>7} files  {bytes:>13} bytes  {mark}");
    }
    Ok(ExitCode::SUCCESS)
}

fn row(publication: &Publication, current: Option<u64>) -> serde_json::Value {
    let Publication { version, files, bytes, published_unix_s, manifest, .. } = publication;
    json!({
        "version": version, "files": files, "bytes": bytes, "published_unix_s": published_unix_s,
        "manifest": manifest, "is_current": Some(*version) == current,
    })
}

pub(super) fn rollback(args: &RollbackArgs) -> anyhow::Result<ExitCode> {
    let RollbackArgs { folder, to, site } = args;
    let published = Published::of(folder)?;
    published.directory.roll_back(site, *to)?;
    println!("site {site}: version {to} is current again");
    let manifest = published.directory.manifest(site, *to)?.into_value();
    let served = serve_here(folder, &published, site, *to, &manifest);
    if matches!(served, Ok(false)) {
        println!("no node runs here; the others serve it");
    }
    outcome(served.err(), "rollback")
}

/// Has the node of this machine serve a version; false if none runs, so that it is made ready for one.
fn serve_here(
    folder: &Path,
    published: &Published,
    site: &str,
    version: u64,
    manifest: &Manifest,
) -> anyhow::Result<bool> {
    if !control_socket::is_answered(folder) {
        published.switch(site, (manifest, &Elsewhere::new()), version)?;
        return Ok(false);
    }
    match control_socket::ask(folder, &Asked::Follow { site: site.to_owned(), version })? {
        Told::Followed => Ok(true),
        Told::Refused(why) => bail!(why),
        _ => bail!("the node answers something else; run the same weir everywhere"),
    }
}

/// What was published stays so, also where this node does not serve it.
fn outcome(error: Option<anyhow::Error>, command: &str) -> anyhow::Result<ExitCode> {
    Ok(match error {
        None => ExitCode::SUCCESS,
        Some(error) => {
            eprintln!("weir cluster {command}: it is done in the directory, but {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// Does something, and says meanwhile how much has come into the store.
fn with_progress<T>(store: &ContentStore, before: u64, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            let mut line = progress::Line::new();
            while !is_over.load(Ordering::Relaxed) {
                if begun.elapsed() > QUIET {
                    let new = store.bytes().saturating_sub(before);
                    line.show(|| format!("{} MiB of new content", new >> 20));
                }
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// Bytes of all files of a folder; links count as what they are, which is enough to make room.
fn bytes_of(folder: &Path) -> anyhow::Result<u64> {
    let (mut bytes, mut open) = (0_u64, vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry.with_context(|| folder.display().to_string())?.path();
            let metadata = fs::symlink_metadata(&path).with_context(|| path.display().to_string())?;
            if metadata.is_dir() {
                open.push(path);
            } else {
                bytes = bytes.saturating_add(metadata.len());
            }
        }
    }
    Ok(bytes)
}
