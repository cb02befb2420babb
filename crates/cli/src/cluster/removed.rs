//! `weir cluster remove`: a member whose certificate all others refuse from now on.

use super::directory_place::DirectoryPlace;
use super::keyring::Keys;
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
use weir_directory::{Directory, EtcdMembership, Known};
use weir_terminal::text_file;

/// What was known last, so that it holds while the directory is away, too.
const FILE: &str = "removed";
/// Bytes of the file: thousands of names.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How long etcd has to take a member out.
const ETCD_PATIENCE: Duration = Duration::from_secs(5);
/// How often the directory is asked.
const PAUSE: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  weir cluster remove /etc/weir/cluster n3
      on any other member: all members refuse n3's certificate within some
      seconds, also where n3 is lost or in other hands

A name that was removed is not given again: the machine joins under another one.
The others get a new secret of heartbeats and gossip, and refuse the one that
the removed member has after ten seconds. It is taken out of etcd, and once the
node of weir cluster init runs, etcd refuses its certificates as well.
Then take the member out of members.toml of all members.

Exit status: 0 if it is removed, 1 if the directory does not answer, or if a
member has not got the new secret: it asks for it when it is back.";

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
    let is_out =
        leave_etcd(args).inspect_err(|error| println!("etcd may still have a member {}: {error:#}", args.name));
    let removed = directory.removed()?;
    let removed = names(&removed.value().iter().map(String::as_str).collect::<Vec<_>>());
    let without = Keys::of_command(&args.folder)?.leave_out(&args.name, removed)?;
    if without.is_empty() {
        println!("heartbeats and gossip have a new secret, which all other members have");
    } else {
        println!("heartbeats and gossip have a new secret; those get it when they answer: {}", without.join(", "));
    }
    let is_done = without.is_empty() && is_out.is_ok();
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Takes the member's etcd out of the cluster's.
fn leave_etcd(args: &Args) -> anyhow::Result<()> {
    let place = MembersFile::read(&args.folder)?.directory;
    let Some(settings) = place.and_then(|place| place.etcd_settings(&args.folder, ETCD_PATIENCE)) else {
        return Ok(());
    };
    let membership = EtcdMembership::open(&settings)?;
    for member in membership.members()?.iter().filter(|member| member.name == args.name.as_str()) {
        membership.remove(member.id)?;
        println!("its etcd is taken out of the cluster's");
    }
    Ok(())
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
