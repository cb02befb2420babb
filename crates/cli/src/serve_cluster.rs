//! `weir serve --cluster`: a server that is a node of a cluster, and the node process, which speaks with the other nodes
//! for it: the confined server gives sessions away and takes them in, and knows no more of the cluster.

mod copying;
mod drain;
mod fetching;
mod figures;
mod gate;
mod node;
mod readings;
mod replicating;
mod seen;
mod shown;
mod sites;

use crate::cluster::members::MembersFile;
use crate::serve_policy::ids;
use crate::side_process;
use anyhow::Context;
pub(crate) use gate::Open;
use gate::{Answer, Ask, Begin, Frame, Refusal};
pub(crate) use node::node;
pub(crate) use shown::NodeFigures;
pub(crate) use sites::FACT;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_cluster::Identity;
use weir_server::{AdoptError, Control, Counters, OpenSession, Options, TakeError, TakenSession, TlsKeys};

/// The server's side of its node process.
pub(crate) struct ClusterNode {
    link: Option<UnixStream>,
    control: Control,
    counting: readings::Counting,
    notice: fn(&str),
    figures: Arc<NodeFigures>,
}

impl ClusterNode {
    /// Starts the node process for the cluster's directory, as the user that the server will run as.
    pub(crate) fn prepare(
        folder: &Path,
        keeper: PathBuf,
        (control, counters): (Control, Counters),
        options: &Options,
        figures: Arc<NodeFigures>,
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
        gate::send(&link, &Begin { folder, keeper }, &[], None).context("the settings of the node process")?;
        let counting = readings::Counting::new(counters);
        Ok(Self { link: Some(link), control, counting, notice: options.notice, figures })
    }

    /// Starts to do as the node process asks, once: from the server's thread, so that it is confined as that is.
    pub(crate) fn start(&mut self) {
        let Some(link) = self.link.take() else { return };
        let (control, counting, notice) = (self.control.clone(), self.counting.clone(), self.notice);
        let figures = Arc::clone(&self.figures);
        let body = move || {
            let ended = serve(&link, (&control, &counting, &figures), notice);
            figures.end();
            let why = ended.err().map_or_else(String::new, |error| format!(" ({error})"));
            notice(&format!("the node process has ended{why}; sessions do not move until a restart"));
        };
        if let Err(error) = std::thread::Builder::new().name("weir-node".to_owned()).spawn(body) {
            notice(&format!("no session moves: there is no thread for it: {error}"));
        }
    }
}

/// A session's keys are in the memory of this process and of those that it starts, and a core dump would be a file.
fn keep_keys_out_of_core_dumps() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call reads the structure, which lives over it.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Does what the node process asks until that ends.
fn serve(
    link: &UnixStream,
    (control, counting, figures): (&Control, &readings::Counting, &NodeFigures),
    notice: fn(&str),
) -> io::Result<()> {
    while let Some(Frame { header, bytes, fd }) = gate::receive::<Ask>(link)? {
        match header {
            Ask::Preview { client, service } => match control.session_preview(client, service) {
                Ok(preview) => gate::send(link, &Answer::Bytes, &preview, None)?,
                Err(error) => gate::send(link, &Answer::Refused(not_taken(&error), error.to_string()), &[], None)?,
            },
            Ask::Take { client, service } => match control.take_session(client, service) {
                Ok(taken) => {
                    let answer = Answer::Taken { known_bytes: taken.known_bytes };
                    gate::send(link, &answer, &taken.session, Some(taken.fd.as_fd()))?;
                }
                Err(error) => gate::send(link, &Answer::Refused(not_taken(&error), error.to_string()), &[], None)?,
            },
            Ask::GiveBack { known_bytes } => {
                if let Some(fd) = fd {
                    control.give_session_back(TakenSession { fd, session: bytes, known_bytes });
                }
                gate::send(link, &Answer::Done, &[], None)?;
            }
            Ask::Sent { from, length } => match control.session_bytes(&bytes, from, length) {
                Ok(sent) => gate::send(link, &Answer::Bytes, &sent, None)?,
                Err(error) => gate::send(link, &Answer::Refused(not_adopted(&error), error.to_string()), &[], None)?,
            },
            Ask::Adopt { client } => {
                let missing = || AdoptError::Socket { source: io::ErrorKind::NotConnected.into() };
                let adopted = fd.ok_or_else(missing).and_then(|fd| control.adopt_session(&bytes, fd, client));
                match adopted {
                    Ok(()) => gate::send(link, &Answer::Done, &[], None)?,
                    Err(error) => {
                        gate::send(link, &Answer::Refused(not_adopted(&error), error.to_string()), &[], None)?;
                    }
                }
            }
            Ask::Sessions => {
                let open = control.sessions();
                let open = open.iter().map(|&OpenSession { peer: client, local: service, is_sending }| Open {
                    client,
                    service,
                    is_sending,
                });
                let open = serde_json::to_vec(&open.collect::<Vec<_>>())?;
                gate::send(link, &Answer::Sessions, &open, None)?;
            }
            Ask::Reading { with_paths } => {
                let paths = if with_paths { readings::paths(control)? } else { Vec::new() };
                gate::send(link, &Answer::Reading(counting.now()), &paths, None)?;
            }
            Ask::Copy { anew, with_tls } => {
                let keys = if with_tls { TlsKeys::Copied } else { TlsKeys::StayHere };
                let (json_bytes, bytes) = copying::framed(control.copy_sessions(anew, keys))?;
                gate::send(link, &Answer::Copies { json_bytes }, &bytes, None)?;
            }
            Ask::Tell(what) => notice(&what),
            Ask::Figures => figures.set(&bytes),
        }
    }
    Ok(())
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
