//! The socket of a node in its cluster's directory, by which `weir cluster` asks it: a line of JSON for each question
//! and each answer. Only its user may open it.

use super::overview::Overview;
use super::pair::{self, Pair};
use crate::serve_cluster::Open;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_cluster::{Director, DirectorCounts};

/// Its name in the directory.
const NAME: &str = "node.sock";
/// Bytes of a line.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// How long either side waits for the other; a move that the director does not decide takes longer and goes on.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a node is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked {
    /// Move the session of a client.
    Move { client: SocketAddr, service: Option<SocketAddr>, to: String },
    /// Which connections have you?
    Sessions,
    /// Take no new connections, and move those that are here, to one node or to all others.
    Drain { to: Option<String>, within_ms: u64 },
    /// Take new connections again.
    Undrain,
    /// What have you counted?
    Status,
    /// Fetch this version of a site, and serve it.
    Follow { site: String, version: u64 },
    /// To a director: be the active one.
    Activate,
    /// How do all members stand, by what they gossip?
    Members,
    /// Which nodes have so many of the files that are asked for most?
    Atoms { most: u32 },
}

/// Responses that one node makes and another one sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relayed {
    /// This node makes them now, of sessions that have moved away.
    pub(crate) makes: u64,
    /// This node sends them now, of sessions that have come.
    pub(crate) sends: u64,
    /// Those that it has begun to make for others, that have ended, and that were broken off.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) broken: u64,
    /// Of those that have ended, so many go on without this node, which had passed them on between two others.
    #[serde(default)]
    pub(crate) shortened: u64,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    Moved {
        freeze_us: u64,
        total_us: u64,
        remade_bytes: u64,
    },
    Sessions(Vec<Open>),
    Drained {
        moved: u64,
        left: u64,
        /// Responses of moved sessions that this node goes on making: they end with it.
        #[serde(default)]
        relays: u64,
        /// Connections of HTTP/3 whose clients were told to go elsewhere, and that have requests under way still.
        #[serde(default)]
        http3: u64,
        took_ms: u64,
        reasons: BTreeMap<String, u64>,
    },
    Undrained,
    Status {
        node: String,
        draining: bool,
        given: u64,
        taken: u64,
        not_begun: u64,
        came_back: u64,
        refused: u64,
        lost: u64,
        undecided: u64,
        reasons: Vec<String>,
        replicas: Box<Replicated>,
        #[serde(default)]
        relays: Relayed,
        /// None where nothing is published in this cluster.
        published: Option<Followed>,
        /// Which director this node asks, as far as it has heard of one.
        #[serde(default)]
        director: Option<String>,
        /// What the rules over nodes have this node do.
        #[serde(default)]
        rules: Box<Ruled>,
    },
    /// What a director says of itself.
    Director {
        director: String,
        /// None while it stands by.
        active_in_epoch: Option<u64>,
        /// The one that is active, as far as it is known.
        active: Option<String>,
        /// The second one, and whether its heartbeats come.
        other: Option<(String, bool)>,
        /// Connections of the other one's table that stand in this one's.
        replicated: u64,
        /// Connections that the table did not take.
        not_replicated: u64,
        steered: u64,
        confirmed: u64,
        reclaimed: u64,
    },
    /// It is active.
    Activated {
        epoch: u64,
    },
    /// The version is served.
    Followed,
    Members(Overview),
    Atoms(AtomsNow),
    Refused(String),
}

/// What the rules over nodes have a node do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ruled {
    /// Rules of the policy; 0 without one.
    pub(crate) rules: u64,
    /// Awake, draining or asleep.
    pub(crate) state: String,
    /// The director's epoch and number of the word that it follows.
    pub(crate) follows: (u64, u64),
    /// Sessions that rules have moved to other nodes.
    pub(crate) switched: u64,
    /// Of those that they wanted to move, the ones that did not.
    pub(crate) failed: u64,
    /// Switches that had to wait for others.
    pub(crate) put_off: u64,
    /// Copies that the director wishes, by the pattern or path of the atoms.
    #[serde(default)]
    pub(crate) copies: BTreeMap<String, u32>,
    /// Why the policy in the file is not used.
    pub(crate) fault: Option<String>,
}

/// The replicas of a node: those that it has given to another one, and those that it keeps for others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replicated {
    /// Kept now for other nodes.
    pub(crate) kept: u64,
    /// Given to another node.
    pub(crate) sent: u64,
    /// Those that did not arrive, or for which there was no room.
    pub(crate) dropped: u64,
    /// Sessions of nodes that were down which go on here.
    pub(crate) taken_over: u64,
    /// The longest of these stood still for so long once the director was asked: microseconds.
    pub(crate) longest_us: u64,
    /// How often one of them began anew, as its client had got more of the dead node than was known.
    pub(crate) begun_anew: u64,
    /// Those of them that were not looked at, as there were too many: they stand still where their client has got more.
    #[serde(default)]
    pub(crate) not_looked_at: u64,
    /// Replicas that this node gave and does not hold, as it held too many: they are not given again to another node.
    #[serde(default)]
    pub(crate) not_held: u64,
    /// Sessions of which the keeper has a second descriptor now, so that they outlive their server.
    #[serde(default)]
    pub(crate) guarded: u64,
    /// Replicated sessions of which the keeper has no second descriptor: they end with their server, not with their node.
    #[serde(default)]
    pub(crate) not_guarded: u64,
    /// Sessions that could not go on here.
    pub(crate) lost: u64,
    /// Sessions of this node that others go on with, as it was taken for dead.
    pub(crate) discarded: u64,
    /// Why sessions could not go on here, and how many.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// Sessions that send now and cannot be replicated: how many, by the reason.
    pub(crate) left_out: BTreeMap<String, u64>,
}

/// What a node keeps, and who has what is asked for most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AtomsNow {
    pub(crate) told_by: String,
    /// Bytes that this node is to keep at most; none = everything.
    pub(crate) keeps_bytes: Option<u64>,
    /// Bytes that the placement gives to it.
    pub(crate) placed_bytes: u64,
    /// Contents that it has, and their bytes.
    pub(crate) contents: u64,
    pub(crate) content_bytes: u64,
    /// Contents of all sites that have fewer copies than they should have.
    pub(crate) short_of_copies: u64,
    pub(crate) files: Vec<AtomNow>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AtomNow {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) requests_per_s: f64,
    /// The nodes that are to keep it.
    pub(crate) placed: Vec<String>,
    /// Those that have it, of the nodes that answer.
    pub(crate) has: Vec<String>,
}

/// The published sites of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Followed {
    /// Which directory.
    pub(crate) directory: String,
    /// How long it has not answered: seconds.
    pub(crate) stale_s: Option<u64>,
    pub(crate) sites: Vec<FollowedSite>,
}

/// A published site of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FollowedSite {
    pub(crate) site: String,
    /// The version that is served; 0 for none.
    pub(crate) version: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Why it is not the one that is current.
    pub(crate) fault: Option<String>,
}

/// The socket of a node.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    path: PathBuf,
}

impl Listening {
    /// Makes it; one that a node has left behind is replaced.
    ///
    /// # Errors
    /// If a node answers there already, or the directory cannot be written.
    pub(crate) fn at(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(NAME);
        if UnixStream::connect(&path).is_ok() {
            bail!("a node answers at {} already; end it first", path.display());
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| path.display().to_string());
            }
            _ => {}
        }
        // Only the directory's user can open it, also before the rights of the socket are set.
        let listener = UnixListener::bind(&path).with_context(|| path.display().to_string())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).with_context(|| path.display().to_string())?;
        Ok(Self { listener, path })
    }

    /// Answers, each connection by a thread of its own, until the process ends.
    pub(crate) fn serve(&self, answer: impl Fn(Asked) -> Told + Sync) {
        std::thread::scope(|scope| {
            for link in self.listener.incoming() {
                let Ok(link) = link else {
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let answer = &answer;
                let serve = move || {
                    if let Err(error) = serve_one(&link, answer) {
                        tracing::debug!(%error, "a question was not answered");
                    }
                };
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, serve) {
                    tracing::warn!(%error, "no thread for a question");
                }
            }
        });
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Another node replaces what is left.
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers for a director, by a thread of its own.
pub(super) fn serve_director(
    listening: Listening,
    director: Arc<Director>,
    pair: Option<Arc<Pair>>,
    name: String,
    members: impl Fn() -> Overview + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let answer = move |asked| match (asked, &pair) {
        (Asked::Status, _) => status_of_director(&name, &director, pair.as_deref()),
        (Asked::Activate, Some(pair)) => match pair.activate() {
            Ok(epoch) => Told::Activated { epoch },
            Err(error) => Told::Refused(format!("{error:#}")),
        },
        (Asked::Activate, None) => Told::Refused("the cluster has one director, which is active".to_owned()),
        (Asked::Members, _) => Told::Members(members()),
        _ => Told::Refused("this is a director; ask a node".to_owned()),
    };
    std::thread::Builder::new().name("weir-director-told".to_owned()).spawn(move || listening.serve(answer))?;
    Ok(())
}

fn status_of_director(name: &str, director: &Director, pair: Option<&Pair>) -> Told {
    let (counts, epoch) = director.with(|control, _| (control.counts(), control.epoch()));
    let DirectorCounts { steered, confirmed, reclaimed, .. } = counts;
    let replicated = pair.map_or((0, 0), |pair| {
        let replicated = pair::lock(&pair.replicated);
        (replicated.flows() as u64, replicated.refused())
    });
    Told::Director {
        director: name.to_owned(),
        active_in_epoch: pair.map_or(Some(epoch), Pair::active),
        active: pair.map_or(Some(name.to_owned()), |pair| pair.newest().map(|(_, name)| name.to_string())),
        other: pair.map(|pair| (pair.other.member.name.to_string(), pair.is_other_up.load(Ordering::Acquire))),
        replicated: replicated.0,
        not_replicated: replicated.1,
        steered,
        confirmed,
        reclaimed,
    }
}

fn serve_one(link: &UnixStream, answer: &(impl Fn(Asked) -> Told + Sync)) -> anyhow::Result<()> {
    link.set_read_timeout(Some(PATIENCE))?;
    link.set_write_timeout(Some(PATIENCE))?;
    let told = match receive(link)? {
        Some(asked) => answer(asked),
        None => return Ok(()),
    };
    send(link, &told)
}

/// Whether a node answers in a directory.
pub(crate) fn is_answered(folder: &Path) -> bool {
    UnixStream::connect(folder.join(NAME)).is_ok()
}

/// Asks the node of a directory.
///
/// # Errors
/// If no node answers there.
pub(crate) fn ask(folder: &Path, asked: &Asked) -> anyhow::Result<Told> {
    let path = folder.join(NAME);
    let link = UnixStream::connect(&path).with_context(|| {
        format!("no node answers at {}; start it by weir serve SITE --cluster {}", path.display(), folder.display())
    })?;
    let own_time = if let Asked::Drain { within_ms, .. } = asked { *within_ms } else { 0 };
    link.set_read_timeout(Some(PATIENCE + Duration::from_millis(own_time)))?;
    let ended = || format!("the node of {} ended before it answered; see what weir serve says there", folder.display());
    send(&link, asked).with_context(ended)?;
    receive(&link).with_context(ended)?.with_context(ended)
}

fn send(mut link: &UnixStream, what: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(link.write_all(&line)?)
}

fn receive<T: for<'d> Deserialize<'d>>(link: &UnixStream) -> anyhow::Result<Option<T>> {
    let mut line = Vec::new();
    BufReader::new(link).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&line)?)) }
}
