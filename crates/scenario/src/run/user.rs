//! What the engine knows of a user.

use crate::behaviour::SharedJar;
use crate::behaviour::{Answer, Ask, Behaviour, Redirected, User};
use crate::run::plan::{LINKS_OF_A_USER, LINKS_TO_A_SERVER};
use crate::run::sockets::Sockets;

/// A user.
pub(crate) struct UserState {
    pub(crate) whose: User,
    /// Made when it is first needed, and elsewhere while it is asked.
    pub(crate) behaviour: Option<Box<dyn Behaviour>>,
    pub(crate) doing: Doing,
    /// Tells times that were waited for from those of what came before.
    pub(crate) epoch: u32,
    pub(crate) jar: SharedJar,
    pub(crate) links: Vec<LinkState>,
    /// Its WebSockets, and what happened to them that it was not told.
    pub(crate) sockets: Sockets,
    pub(crate) begin_ns: u64,
    /// How late the iteration began, as far as no request has counted it.
    pub(crate) lag_ns: u64,
}

/// What it does.
#[derive(Debug)]
pub(crate) enum Doing {
    /// No iteration.
    Rests,
    /// An iteration: it sleeps, or is about to be asked.
    Works,
    /// An iteration: it waits for what happens to its sockets.
    Listens,
    /// An iteration: it waits for answers.
    Waits(Waits),
}

/// Requests whose answers are waited for together.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) pending: Vec<Pending>,
    pub(crate) left: usize,
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) ask: Ask,
    pub(crate) stage: Stage,
    /// When it was to be asked, and when it was.
    pub(crate) intended_ns: u64,
    pub(crate) asked_ns: u64,
    pub(crate) deadline_ns: u64,
    /// All time of behaviours when it went out.
    pub(crate) script_ns: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) redirects: Vec<Redirected>,
    pub(crate) is_resent: bool,
    pub(crate) answer: Option<Answer>,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The address of its server is being looked up.
    Names,
    /// It waits for a connection of the user's.
    Queued,
    /// It is under way over this link of the user's.
    OnLink(u32),
    /// It is answered, or failed.
    Done,
}

/// A place for a connection of a user's.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LinkState {
    /// The server that its connection goes to.
    server: Option<u32>,
    /// What is under way over it.
    pub(crate) busy: Busy,
    /// Whether its connection was there when the request went out.
    pub(crate) is_open: bool,
}

/// What is under way over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Busy {
    #[default]
    Nothing,
    /// The request at this place of those that are waited for.
    Request(u32),
    /// This socket.
    Socket(u32),
}

/// Where a request can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Over this link.
    Link(u32),
    /// Over this link, whose connection to another server is to be closed before.
    Instead(u32),
    /// Nowhere yet.
    None,
}

impl UserState {
    pub(crate) fn new(whose: User) -> Self {
        Self {
            whose,
            behaviour: None,
            doing: Doing::Rests,
            epoch: 0,
            jar: SharedJar::default(),
            links: Vec::new(),
            sockets: Sockets::default(),
            begin_ns: 0,
            lag_ns: 0,
        }
    }

    pub(crate) fn pending(&mut self, place: u32) -> Option<&mut Pending> {
        match &mut self.doing {
            Doing::Waits(waits) => waits.pending.get_mut(place as usize),
            _ => None,
        }
    }

    /// Finds a link for a request to a server, and takes it.
    pub(crate) fn take_link(&mut self, server: u32, pending: u32) -> Room {
        let of_server = |link: &LinkState| link.server == Some(server);
        let carries = |link: &&LinkState| of_server(link) && !matches!(link.busy, Busy::Socket(_));
        let free = self.links.iter().position(|link| link.busy == Busy::Nothing && of_server(link));
        let (place, room): (usize, fn(u32) -> Room) = match free {
            Some(place) => (place, Room::Link),
            None if self.links.iter().filter(carries).count() >= LINKS_TO_A_SERVER => return Room::None,
            None if self.links.len() < LINKS_OF_A_USER as usize => {
                self.links.push(LinkState::default());
                (self.links.len() - 1, Room::Link)
            }
            None => match self.links.iter().position(|link| link.busy == Busy::Nothing) {
                Some(place) => (place, Room::Instead),
                None => return Room::None,
            },
        };
        let link = &mut self.links[place];
        let is_open = link.is_open && of_server(link);
        *link = LinkState { server: Some(server), busy: Busy::Request(pending), is_open };
        room(place as u32)
    }

    /// Finds a link without a connection for a socket, and takes it: one that is free, a further one, or one whose
    /// connection rests, which is to be closed before.
    pub(crate) fn take_socket_link(&mut self, server: u32, socket: u32) -> Room {
        let is_free = |link: &LinkState| link.busy == Busy::Nothing;
        let (place, room): (usize, fn(u32) -> Room) =
            match self.links.iter().position(|link| is_free(link) && !link.is_open) {
                Some(place) => (place, Room::Instead),
                None if self.links.len() < LINKS_OF_A_USER as usize => {
                    self.links.push(LinkState::default());
                    (self.links.len() - 1, Room::Link)
                }
                None => match self.links.iter().position(is_free) {
                    Some(place) => (place, Room::Instead),
                    None => return Room::None,
                },
            };
        self.links[place] = LinkState { server: Some(server), busy: Busy::Socket(socket), is_open: false };
        room(place as u32)
    }
}
