//! `weir serve --cluster`: a server that is a node of a cluster, and the node process, which speaks with the other nodes
//! for it: the confined server gives sessions away and takes them in, and knows no more of the cluster.

mod attending;
mod bringing;
mod content_frames;
mod contents_seen;
mod copying;
mod drain;
mod fetching;
mod figures;
mod from_elsewhere;
mod gate;
mod guarding;
mod keeping;
mod letting_go;
mod node;
mod readings;
mod replicating;
mod ruled;
mod ruling;
mod seen;
mod shown;
mod signal;
mod sites;
mod tickets;

use crate::cluster::members::MembersFile;
use crate::serve_policy::ids;
use crate::side_process;
use anyhow::Context;
pub(crate) use from_elsewhere::FromElsewhere;
pub(crate) use gate::Open;
use gate::{Answer, Ask, Begin, Frame, Part, Refusal};
pub(crate) use node::node;
pub(crate) use ruling::{readings_of, rule_of};
pub(crate) use shown::NodeFigures;
pub(crate) use sites::FACT;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_cluster::{Identity, NodeNumber};
use weir_server::{
    AdoptError, Control, Counters, OpenSession, Options, Reloader, SharedTickets, TakeError, TakenRelay, TakenSession,
    TlsKeys,
};

/// What ends with a node process.
const LOST_WITH_IT: &str = "sessions that it had in hand are lost, and replicas for other nodes come anew";

/// The server's side of its node process.
pub(crate) struct ClusterNode {
    link: Option<UnixStream>,
    control: Control,
    reloader: Reloader,
    counting: readings::Counting,
    notice: fn(&str),
    figures: Arc<NodeFigures>,
    tickets: SharedTickets,
    /// What brings content that other nodes have.
    elsewhere: Arc<FromElsewhere>,
}

impl ClusterNode {
    /// Starts the node process for the cluster's directory, as the user that the server will run as.
    pub(crate) fn prepare(
        folder: &Path,
        keeper: PathBuf,
        (control, counters, reloader): (Control, Counters, Reloader),
        options: &Options,
        (figures, elsewhere): (Arc<NodeFigures>, Arc<FromElsewhere>),
    ) -> anyhow::Result<Self> {
        let folder = folder.canonicalize().with_context(|| {
            format!("cannot read {}; make it by `weir cluster init` or `weir cluster join`", folder.display())
        })?;
        keep_keys_out_of_core_dumps().context("turning core dumps off")?;
        // Known before it serves: later the node process can only say so.
        let identity = Identity::load(&folder)?;
        MembersFile::read(&folder)?.number(&identity.member.name)?;
        let ids = options.user.as_deref().map(ids).transpose()?;
        let link = side_process::start("serve-node", ids).context("starting the node process")?;
        // A session may have megabytes that no frame's time-out may cut.
        link.set_write_timeout(None).context("the socket to the node process")?;
        // Where the kernel names no process (before Linux 5.3), connections end with it as before.
        let process = own_process().ok();
        let named: Vec<_> = process.iter().map(AsFd::as_fd).collect();
        gate::send(&link, &Begin { folder, keeper, part: Part::Attendant, server: guarding::number() }, &[], &named)
            .context("the settings of the node process")?;
        let (counting, tickets) = (readings::Counting::new(counters), options.tickets.clone());
        Ok(Self { link: Some(link), control, reloader, counting, notice: options.notice, figures, tickets, elsewhere })
    }

    /// Starts to do as the node process asks, once: from the server's thread, so that it is confined as that is.
    pub(crate) fn start(&mut self) {
        let Some(link) = self.link.take() else { return };
        let (control, counting, notice) = (self.control.clone(), self.counting.clone(), self.notice);
        let (figures, reloader) = (Arc::clone(&self.figures), self.reloader.clone());
        let (elsewhere, tickets) = (Arc::clone(&self.elsewhere), self.tickets.clone());
        let body = move || {
            // One node process after the other: the next one is started where one ends.
            while let Some((node, content, signal)) = next_node(&link) {
                control.tell_of_copies_by(signal);
                if let Err(error) = elsewhere.open(content) {
                    notice(&format!("content of other nodes is not passed on: there is no thread for it: {error}"));
                }
                let ended = serve(&node, (&control, &counting, &figures), (&reloader, &tickets), notice);
                figures.end();
                let why = ended.err().map_or_else(String::new, |error| format!(" ({error})"));
                notice(&format!("the node process has ended{why}; it is started again: {LOST_WITH_IT}"));
            }
            notice("the process beside the server has ended; sessions do not move until a restart");
        };
        if let Err(error) = std::thread::Builder::new().name("weir-node".to_owned()).spawn(body) {
            notice(&format!("no session moves: there is no thread for it: {error}"));
        }
    }
}

/// The sockets of the next node process, the second for content, and what signals to it; none once no more come.
fn next_node(link: &UnixStream) -> Option<(UnixStream, UnixStream, OwnedFd)> {
    loop {
        if let Frame { header: Ask::Node, fds, .. } = gate::receive::<Ask>(link).ok()??
            && let Ok([asks, content, signal]) = <[OwnedFd; 3]>::try_from(fds)
        {
            return Some((asks.into(), content.into(), signal));
        }
    }
}

/// The number of the node whose keys are in a cluster's directory; none if it cannot be read, which the start of the node
/// process says in words.
pub(crate) fn node_number(folder: Option<&Path>) -> Option<NodeNumber> {
    let folder = folder?;
    let identity = Identity::load(folder).ok()?;
    MembersFile::read(folder).ok()?.number(&identity.member.name).ok()
}

/// A session's keys are in the memory of this process and of those that it starts, and a core dump would be a file.
fn keep_keys_out_of_core_dumps() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call reads the structure, which lives over it.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A descriptor that tells when this process has ended (pidfd_open(2)).
fn own_process() -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The sessions that are open, in JSON.
fn open_sessions(control: &Control) -> io::Result<Vec<u8>> {
    let open =
        |OpenSession { peer: client, local: service, is_sending, path }| Open { client, service, is_sending, path };
    Ok(serde_json::to_vec(&control.sessions().into_iter().map(open).collect::<Vec<_>>())?)
}

/// Does what the node process asks until that ends.
fn serve(
    link: &UnixStream,
    (control, counting, figures): (&Control, &readings::Counting, &NodeFigures),
    (reloader, tickets): (&Reloader, &SharedTickets),
    notice: fn(&str),
) -> io::Result<()> {
    while let Some(Frame { header, bytes, fds }) = gate::receive::<Ask>(link)? {
        let mut fds = fds.into_iter();
        match header {
            Ask::FollowRoots => {
                reloader.follow_roots().iter().for_each(|told| notice(told));
                // Each loop answers before it looks for another root, so that all have looked behind the second answer.
                drop((control.sessions(), control.sessions()));
                gate::send(link, &Answer::Done, &[], &[])?;
            }
            Ask::Preview { client, service } => match control.session_preview(client, service) {
                Ok(preview) => gate::send(link, &Answer::Bytes, &preview, &[])?,
                Err(error) => gate::send(link, &Answer::Refused(not_taken(&error), error.to_string()), &[], &[])?,
            },
            Ask::Take { client, service } => match control.take_session(client, service) {
                Ok(taken) => send_taken(link, taken)?,
                Err(error) => gate::send(link, &Answer::Refused(not_taken(&error), error.to_string()), &[], &[])?,
            },
            Ask::GiveBack { known_bytes, before } => {
                if let Some(fd) = fds.next() {
                    let mut session = bytes;
                    let relays = gate::take_before(&mut session, &before, fds)?;
                    let relays = relays.into_iter().map(|(socket, before)| TakenRelay { socket, before }).collect();
                    control.give_session_back(TakenSession { fd, session, known_bytes, relays });
                }
                gate::send(link, &Answer::Done, &[], &[])?;
            }
            Ask::Sent { from, length } => match control.session_bytes(&bytes, from, length) {
                Ok(sent) => gate::send(link, &Answer::Bytes, &sent, &[])?,
                Err(error) => gate::send(link, &Answer::Refused(not_adopted(&error), error.to_string()), &[], &[])?,
            },
            Ask::Adopt { client } => {
                let missing = || AdoptError::Socket { source: io::ErrorKind::NotConnected.into() };
                let fd = fds.next().ok_or_else(missing);
                match fd.and_then(|fd| control.adopt_session(&bytes, fd, fds.map(TakenRelay::from).collect(), client)) {
                    Ok(()) => gate::send(link, &Answer::Done, &[], &[])?,
                    Err(error) => gate::send(link, &Answer::Refused(not_adopted(&error), error.to_string()), &[], &[])?,
                }
            }
            Ask::Http3 => gate::send(link, &Answer::Http3(control.http3_under_way()), &[], &[])?,
            Ask::Sessions => gate::send(link, &Answer::Sessions, &open_sessions(control)?, &[])?,
            Ask::Reading { with_paths } => {
                let paths = if with_paths { readings::paths(control)? } else { Vec::new() };
                gate::send(link, &Answer::Reading(counting.now()), &paths, &[])?;
            }
            Ask::Copy { with_tls, all } => {
                let keys = if with_tls { TlsKeys::Copied } else { TlsKeys::StayHere };
                let found = if all { control.copy_all_sessions(keys) } else { control.copy_sessions(keys) };
                copying::send(link, found)?;
            }
            Ask::LeaveHttp3(leaves) => {
                control.leave_http3(leaves);
                gate::send(link, &Answer::Done, &[], &[])?;
            }
            Ask::Tickets => tickets.set(&tickets::unframed(&bytes)),
            Ask::Tell(what) => notice(&what),
            Ask::Figures => figures.set(&bytes),
            // Only the attendant has such sockets.
            Ask::Node => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

fn send_taken(link: &UnixStream, taken: TakenSession) -> io::Result<()> {
    let TakenSession { fd, mut session, known_bytes, relays } = taken;
    let before: Vec<&[u8]> = relays.iter().map(|relay| &*relay.before).collect();
    let before = gate::put_before(&mut session, &before);
    let sockets = relays.iter().map(|relay| &relay.socket);
    let fds: Vec<_> = [&fd].into_iter().chain(sockets).map(AsFd::as_fd).collect();
    gate::send(link, &Answer::Taken { known_bytes, before }, &session, &fds)
}

fn not_taken(error: &TakeError) -> Refusal {
    if matches!(error, TakeError::NoConnection { .. }) { Refusal::NoSession } else { Refusal::NotMovable }
}

fn not_adopted(error: &AdoptError) -> Refusal {
    match error {
        AdoptError::OtherContent { .. } | AdoptError::NoContent { .. } => Refusal::OtherContent,
        AdoptError::Full | AdoptError::Stopping | AdoptError::NoAnswer => Refusal::Full,
        _ => Refusal::NotUnderstood,
    }
}
