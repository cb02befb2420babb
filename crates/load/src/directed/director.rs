//! The director, how it is asked, and what it orders.

use crate::directed::ways::Ways;
use crate::requests::piece::Piece;
use std::collections::VecDeque;
use std::time::Duration;
use weir_wire::client::Outcome;

/// The numbers of links lie below this.
pub const LINKS_MAX: u32 = 1 << 22;

/// Decides for each arrival what is asked.
pub trait Director: Send {
    /// An arrival, intended for this time (CLOCK_MONOTONIC nanoseconds); it lasts until [`Orders::over`].
    fn arrives(&mut self, intended_ns: u64, orders: &mut Orders);

    /// A response on a link is whole; the observer of the loop was given its bytes under the connection's number.
    fn answered(&mut self, link: u32, connection: u64, status: u16);

    /// All that was asked on a link is answered; `kept` if its connection is still there, otherwise the next request on
    /// the link opens another.
    fn idle(&mut self, link: u32, kept: bool, orders: &mut Orders);

    /// Bytes came on a link whose connection has switched protocols: its last answer had the status 101, which a request
    /// by [`Orders::upgrade`] may have. [`Director::ended`] says when that connection is gone.
    fn came(&mut self, _link: u32, _bytes: &[u8], _orders: &mut Orders) {}

    /// The connection of a link ended, or was never made, before all was answered.
    fn ended(&mut self, link: u32, outcome: Outcome, orders: &mut Orders);

    /// The loop has looked at all that came, and waits for more: for directors that account for their own time.
    fn turns(&mut self) {}

    /// A time that was waited for is over.
    fn wakes(&mut self, token: u32, orders: &mut Orders);
}

impl std::fmt::Debug for dyn Director {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Director")
    }
}

/// A director and how it is asked.
#[derive(Debug)]
pub struct Directed {
    /// Who decides.
    pub director: Box<dyn Director>,
    /// In a closed loop, the arrivals that are under way at a time; at least 1.
    pub at_a_time: u32,
    /// So many links are one user's, beginning with each multiple of this number: TLS sessions are resumed among them, and
    /// nowhere else, until [`Orders::forget`]. 0 = as `resume` of the options of TLS says.
    pub links_of_a_user: u32,
    /// The servers that are asked, if they are found only while the run is under way, in place of those of
    /// [`crate::Requests::list`], which is empty then: [`Ways::request`] says what stands for a place of it.
    pub ways: Option<Ways>,
}

/// What a director wants to be done, in order.
#[derive(Debug, Default)]
pub struct Orders {
    pub(crate) queue: VecDeque<Order>,
    pub(crate) links: Vec<Link>,
}

/// One order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    Send(u32),
    Close(u32),
    Raw(u32),
    Wake(Duration, u32),
    Forget(u32),
    Over,
    Stop,
}

/// A place for a connection.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The slot of its connection, if it has one.
    pub(crate) slot: Option<u32>,
    /// Requests that are to go out over it next, and their bytes.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) bytes: Vec<u8>,
    /// What the last of them asks for.
    pub(crate) asks: Asks,
    /// Bytes that are to go out over a connection that has switched protocols.
    pub(crate) raw: Vec<u8>,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Asks {
    #[default]
    Answers,
    /// Another protocol on its connection.
    Switch,
}

impl Orders {
    /// Sends a request on a link: at once if nothing is under way there, otherwise when all that is under way is
    /// answered. Requests that are ordered together go out together.
    ///
    /// `request` is a place in [`crate::Requests::list`]: it says the host and whether the response has a body; `bytes`
    /// are what goes out in its stead.
    ///
    /// # Panics
    /// If the link's number is not below [`LINKS_MAX`].
    pub fn request(&mut self, link: u32, request: u32, bytes: &[u8]) {
        assert!(link < LINKS_MAX, "a link's number is below {LINKS_MAX}");
        if self.links.len() <= link as usize {
            self.links.resize_with(link as usize + 1, Link::default);
        }
        let place = &mut self.links[link as usize];
        place.bytes.extend_from_slice(bytes);
        place.pieces.push(Piece { request, bytes: bytes.len() as u32 });
        if place.pieces.len() == 1 {
            self.queue.push_back(Order::Send(link));
        }
    }

    /// Sends a request that asks for another protocol on its connection, which may answer 101. A connection that has
    /// switched carries no requests any more, but what [`Orders::raw`] orders.
    ///
    /// # Panics
    /// As [`Orders::request`].
    pub fn upgrade(&mut self, link: u32, request: u32, bytes: &[u8]) {
        self.request(link, request, bytes);
        self.links[link as usize].asks = Asks::Switch;
    }

    /// Sends bytes on a link whose connection has switched protocols; without such a connection they go nowhere. At most
    /// 16 MiB wait for the other side to read: with more the link ends ([`Outcome::TimedOut`]).
    pub fn raw(&mut self, link: u32, bytes: &[u8]) {
        let Some(place) = self.links.get_mut(link as usize) else { return };
        if place.raw.is_empty() && !bytes.is_empty() {
            self.queue.push_back(Order::Raw(link));
        }
        place.raw.extend_from_slice(bytes);
    }

    /// Closes a link's connection, if it has one; what is under way on it has no answer, and what waits for it is not
    /// asked.
    pub fn close(&mut self, link: u32) {
        if let Some(place) = self.links.get_mut(link as usize) {
            place.pieces.clear();
            place.bytes.clear();
            self.queue.retain(|order| !matches!(order, Order::Send(other) if *other == link));
        }
        self.queue.push_back(Order::Close(link));
    }

    /// The TLS sessions of the user of a link are resumed no more: another user comes in its place.
    pub fn forget(&mut self, link: u32) {
        self.queue.push_back(Order::Forget(link));
    }

    /// Calls [`Director::wakes`] after a time.
    pub fn wake(&mut self, after: Duration, token: u32) {
        self.queue.push_back(Order::Wake(after, token));
    }

    /// An arrival is over.
    pub fn over(&mut self) {
        self.queue.push_back(Order::Over);
    }

    /// Nothing more is to arrive; what is under way goes on.
    pub fn stop(&mut self) {
        self.queue.push_back(Order::Stop);
    }
}
