//! `weir cluster remove`: a member whose certificate all others refuse from now on.

use super::directory_place::DirectoryPlace;
use super::members::MembersFile;
use super::published::directory_of;
use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use weir_cluster::{Identity, Members, NodeName};
use weir_directory::{Directory, Known};
use weir_terminal::text_file;

/// What was known last, so that it holds while the directory is away, too.
const FILE: &str = "removed";
/// Bytes of the file: thousands of names.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How often the directory is asked.
const PAUSE: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  weir cluster remove /etc/weir/cluster n3
      on any other member: all members refuse n3's certificate within some
      seconds, also where n3 is lost or in other hands

A name that was removed is not given again: the machine joins under another one.
Then take the member out of members.toml of all members. Its copy of the secret
of heartbeats and gossip stays: if others have it, make the cluster anew.

Exit status: 0 if it is removed, 1 if the directory does not answer.";

/// Remove a member from the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The member to remove
    #[arg(value_name = "NAME")]
    name: NodeName,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let own = Identity::load(&args.folder)?.member.name;
    ensure!(own != args.name, "{own} is this member; remove it on another one");
    let directory = directory_of(&args.folder)?;
    directory.remove_member(args.name.as_str())?;
    directory.leave(args.name.as_str())?;
    println!("{} is removed: all members refuse its certificate; take it out of members.toml", args.name);
    Ok(ExitCode::SUCCESS)
}

/// The members that were removed, as the directory says from now on; `tell` hears of each new one.
pub(crate) fn follow(
    folder: &Path,
    members: &MembersFile,
    tell: impl Fn(&str) + Send + 'static,
) -> anyhow::Result<Arc<Members>> {
    let removed = Arc::new(Members::default());
    let path = folder.join(FILE);
    let mut known = BTreeSet::new();
    if path.exists() {
        let text = text_file::read(&path, FILE_BYTES_MAX).with_context(|| path.display().to_string())?;
        known = names(&text.lines().collect::<Vec<_>>());
        removed.set_removed(known.clone());
    }
    let Some(place) = members.directory.clone() else { return Ok(removed) };
    let (folder, of_thread) = (folder.to_owned(), Arc::clone(&removed));
    let body = move || {
        let mut directory = None;
        loop {
            if let Some(now) = newest(&mut directory, &folder, &place).filter(|now| *now != known) {
                of_thread.set_removed(now.clone());
                now.difference(&known).for_each(|name| tell(&format!("{name} was removed from the cluster")));
                if let Err(error) = keep(&folder.join(FILE), &now) {
                    tell(&format!("the list of removed members is not kept over a restart: {error}"));
                }
                known = now;
            }
            std::thread::sleep(PAUSE);
        }
    };
    std::thread::Builder::new().name("weir-removed".to_owned()).spawn(body).context("a thread")?;
    Ok(removed)
}

/// What the directory says now; none while it does not answer.
fn newest(
    directory: &mut Option<Box<dyn Directory>>,
    folder: &Path,
    place: &DirectoryPlace,
) -> Option<BTreeSet<NodeName>> {
    if directory.is_none() {
        // A file that another member makes may come later.
        *directory = place.open(folder).ok();
    }
    match directory.as_ref()?.removed() {
        Ok(Known::Fresh(found)) => Some(names(&found.iter().map(String::as_str).collect::<Vec<_>>())),
        Ok(Known::Stale { .. }) => None,
        Err(error) => {
            tracing::debug!(%error, "the directory does not say which members were removed");
            None
        }
    }
}

fn names(texts: &[&str]) -> BTreeSet<NodeName> {
    texts.iter().filter_map(|name| name.parse().ok()).collect()
}

fn keep(path: &Path, removed: &BTreeSet<NodeName>) -> std::io::Result<()> {
    let lines: String = removed.iter().map(|name| format!("{name}\n")).collect();
    let beside = path.with_extension("new");
    fs::write(&beside, lines)?;
    fs::rename(beside, path)
}
