//! A response that another server goes on making: it comes by a socket, in the form of
//! [`crate::exchange::relayed_form`].

use super::links::{Link, Links};
use crate::exchange::application::{Aborted, Handler};
use crate::exchange::relayed_form::{Decoder, Said};
use crate::exchange::reply::Reply;
use crate::exchange::request_body::RequestBody;
use crate::exchange::wakes::Address;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// What gives a client the pieces that come.
#[derive(Debug)]
pub(crate) struct Relayed {
    link: Link,
    /// Its connection, which has turns only once it has begun here.
    user: Address,
    decoder: Decoder,
}

impl Relayed {
    /// # Errors
    ///
    /// What the system says of the socket.
    pub(crate) fn new(socket: OwnedFd, user: Address, links: &Rc<Links>) -> io::Result<Self> {
        let link = links.enter(socket, user, true)?;
        link.set_user(None);
        Ok(Self { link, user, decoder: Decoder::default() })
    }
}

impl Handler for Relayed {
    fn go_on(&mut self, _body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        self.link.set_user(Some(self.user));
        loop {
            // Heads take some of it, so that the rest is never more than there is room for.
            let room = reply.room();
            if room == 0 || !self.link.has_input() {
                return Ok(());
            }
            let Self { link, decoder, .. } = self;
            let received = link.receive(room, |bytes| {
                let fed = decoder.feed(bytes, &mut |said| match said {
                    Said::Framing(bytes) => reply.has_framing(bytes.into()),
                    Said::Bytes(bytes) => drop(reply.write(bytes)),
                    Said::End(trailers) => reply.put_trailers(trailers),
                });
                (bytes.len(), fed)
            });
            match received {
                Ok(None) => return Ok(()),
                // What is broken off, or damaged, has no honest end.
                Ok(Some((0, _) | (_, Err(_)))) | Err(_) => return Err(Aborted),
                Ok(Some((_, Ok(())))) => {}
            }
            if self.decoder.is_ended() {
                return if reply.end_relayed() { Ok(()) } else { Err(Aborted) };
            }
        }
    }
}
