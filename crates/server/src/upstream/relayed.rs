//! A response that another server goes on making: it comes by a socket, in the form of
//! [`crate::exchange::relayed_form`].

use super::links::{Link, Links};
use crate::exchange::application::{Aborted, Continued, Handler, PassedOn};
use crate::exchange::relayed_form::{Decoder, Malformed, Said};
use crate::exchange::reply::Reply;
use crate::exchange::request_body::RequestBody;
use crate::exchange::wakes::Address;
use std::io;
use std::rc::Rc;

/// What gives a client the pieces that come.
#[derive(Debug)]
pub(crate) struct Relayed {
    link: Link,
    /// Its connection, which has turns only once it has begun here.
    user: Address,
    decoder: Decoder,
    /// What stands before what comes, as far as it was not given.
    before: Vec<u8>,
}

impl Relayed {
    /// # Errors
    ///
    /// What the system says of the socket.
    pub(crate) fn new(relay: PassedOn, user: Address, links: &Rc<Links>) -> io::Result<Self> {
        let link = links.enter(relay.socket, user, true)?;
        link.set_user(None);
        Ok(Self { link, user, decoder: Decoder::default(), before: relay.before })
    }

    /// Gives what stands before what comes, as far as there is room.
    fn give_before(&mut self, reply: &mut Reply) -> Result<(), Malformed> {
        let room = reply.room().min(self.before.len());
        let now: Vec<u8> = self.before.drain(..room).collect();
        self.decoder.feed(&now, &mut |said| give(reply, said))
    }

    /// Ends the response if all of it has come; whether it has.
    fn end(&self, reply: &mut Reply) -> Result<bool, Aborted> {
        match self.decoder.is_ended() {
            true if reply.end_relayed() => Ok(true),
            true => Err(Aborted),
            false => Ok(false),
        }
    }
}

fn give(reply: &mut Reply, said: Said<'_>) {
    match said {
        Said::Framing(bytes) => reply.has_framing(bytes.into()),
        // There is room for all of it.
        Said::Bytes(bytes) => drop(reply.write(bytes)),
        Said::End(trailers) => reply.put_trailers(trailers),
    }
}

impl Continued for Relayed {
    fn pass_on(self: Box<Self>) -> Option<PassedOn> {
        let mut before = Vec::new();
        self.decoder.put_state(&mut before);
        before.extend_from_slice(&self.before);
        Some(PassedOn { socket: self.link.into_socket()?, before })
    }
}

impl Handler for Relayed {
    fn go_on(&mut self, _body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        self.link.set_user(Some(self.user));
        while !self.before.is_empty() {
            if reply.room() == 0 {
                return Ok(());
            }
            self.give_before(reply).map_err(|_| Aborted)?;
        }
        loop {
            if self.end(reply)? {
                return Ok(());
            }
            // Heads take some of it, so that the rest is never more than there is room for.
            let room = reply.room();
            if room == 0 || !self.link.has_input() {
                return Ok(());
            }
            let Self { link, decoder, .. } = self;
            let received =
                link.receive(room, |bytes| (bytes.len(), decoder.feed(bytes, &mut |said| give(reply, said))));
            match received {
                Ok(None) => return Ok(()),
                // What is broken off, or damaged, has no honest end.
                Ok(Some((0, _) | (_, Err(_)))) | Err(_) => return Err(Aborted),
                Ok(Some((_, Ok(())))) => {}
            }
        }
    }
}
