//! Rules over nodes that are published once, for all members: `weir cluster rules`, and what follows them.

use super::directory_place::DirectoryPlace;
use super::members::MembersFile;
use super::printed::print_json;
use super::rules::{self, FILE};
use crate::given_files::read_policy;
use anyhow::{Context, bail};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use weir_directory::{Directory, DirectoryError};
use weir_terminal::units;

/// Their name in the directory.
const NAME: &str = "cluster";
/// How often members look for others.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// How long the directory may take for that.
const PATIENCE: Duration = Duration::from_secs(2);
/// Publications of others that come before an unguarded one.
const TRIES: u32 = 8;

const EXAMPLES: &str = "\
Examples:
  weir cluster rules /etc/weir/cluster flood.policy
      check the rules, and have all members follow them
  weir cluster rules /etc/weir/cluster flood.policy --expect 3
      only if version 3 is current; 0 where there are none
  weir cluster rules /etc/weir/cluster
      which rules hold";

/// Publish the rules over nodes, or show them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The file with the rules
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Publish only if this version is current; 0 for none
    #[arg(long, value_name = "VERSION", requires = "file")]
    expect: Option<u64>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { folder, file, expect, json } = args;
    let members = MembersFile::read(folder)?;
    let Some(place) = &members.directory else {
        bail!("members.toml has no [directory]; copy the rules to {FILE} in the directory of each member instead")
    };
    let directory = place.open(folder)?;
    let Some(file) = file else { return show(&*directory, *json) };
    let name = file.display().to_string();
    let text = read_policy(file).with_context(|| name.clone())?;
    let nodes: BTreeSet<String> = members.nodes.values().map(|(reached, _)| reached.member.name.to_string()).collect();
    if let Err(mistakes) = rules::read(&name, &text, &nodes) {
        mistakes.iter().for_each(|mistake| eprintln!("{name}:{mistake}"));
        return Ok(ExitCode::FAILURE);
    }
    let version = publish(&*directory, &text, *expect)?;
    if *json {
        return print_json("rules", &json!({ "version": version }));
    }
    println!("version {version} of the rules is published; members follow it within some seconds");
    Ok(ExitCode::SUCCESS)
}

fn publish(directory: &dyn Directory, text: &str, expect: Option<u64>) -> anyhow::Result<u64> {
    for _ in 0..TRIES {
        let current = match expect {
            Some(version) => Some(version).filter(|version| *version > 0),
            None => directory.policy(NAME)?.value().as_ref().map(|policy| policy.version),
        };
        match directory.put_policy(NAME, text, current) {
            Err(DirectoryError::Conflict { .. }) if expect.is_none() => {}
            put => return Ok(put?),
        }
    }
    bail!("others publish rules all the time; agree with them, and use --expect")
}

fn show(directory: &dyn Directory, json: bool) -> anyhow::Result<ExitCode> {
    let known = directory.policy(NAME)?;
    match known.value() {
        None if json => print_json("rules", &json!({ "version": 0 })),
        None => {
            println!("no rules over nodes are published");
            Ok(ExitCode::SUCCESS)
        }
        Some(policy) if json => print_json(
            "rules",
            &json!({ "version": policy.version, "text": policy.text, "put_unix_s": policy.put_unix_s }),
        ),
        Some(policy) => {
            println!("# version {}, {}", policy.version, units::counted(policy.text.lines().count() as u64, "line"));
            print!("{}", policy.text);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Writes what is published into the file of this member, by a thread of its own. While the directory is away the file
/// stays, and what it says holds.
pub(crate) fn follow(folder: &Path, members: &MembersFile) -> io::Result<()> {
    let Some(place) = members.directory.clone() else { return Ok(()) };
    let folder = folder.to_owned();
    let body = move || {
        let (mut directory, mut written) = (None, 0);
        loop {
            match look(&mut directory, (&place, &folder), written) {
                Ok(version) => written = version,
                Err(error) => tracing::debug!(%error, "published rules are not looked for"),
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    };
    std::thread::Builder::new().name("weir-rules".to_owned()).spawn(body).map(drop)
}

/// Looks once; which version stands in the file.
fn look(
    directory: &mut Option<Box<dyn Directory>>,
    (place, folder): (&DirectoryPlace, &Path),
    written: u64,
) -> anyhow::Result<u64> {
    let directory = match directory {
        Some(directory) => directory,
        None => directory.insert(place.open_within(folder, PATIENCE)?),
    };
    let known = directory.policy(NAME)?;
    let Some(policy) = known.value().as_ref().filter(|policy| policy.version > written) else { return Ok(written) };
    let (path, new) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
    if fs::read_to_string(&path).ok().as_deref() != Some(&policy.text) {
        fs::write(&new, &policy.text)?;
        fs::rename(&new, &path)?;
    }
    Ok(policy.version)
}
