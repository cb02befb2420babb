//! A server with a thread for each connection, whose requests block where the handler blocks.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::http::{BAD_REQUEST, Inbox, Request};

/// Connections beyond this number are closed at once.
const CONNECTION_LIMIT: usize = 1024;
const STACK_BYTES: usize = 128 << 10;

/// Serves for ever; each connection gets a handler of its own.
pub(crate) fn serve<H>(listener: &TcpListener, new_handler: impl Fn() -> H + Send + Sync + 'static) -> io::Result<()>
where
    H: FnMut(&Request) -> Vec<u8>,
{
    each_connection(listener, move |stream| talk(stream, new_handler()))
}

/// Gives each connection a thread of its own, for ever.
pub(crate) fn each_connection(
    listener: &TcpListener,
    talk: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    let talk = Arc::new(talk);
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, _) = listener.accept()?;
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTION_LIMIT {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (talk, open) = (Arc::clone(&talk), Arc::clone(&open));
        let serve_one = move || {
            // A connection that breaks is the client's affair.
            let _ = talk(stream);
            open.fetch_sub(1, Ordering::Relaxed);
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(serve_one)?;
    }
}

fn talk(mut stream: TcpStream, mut handler: impl FnMut(&Request) -> Vec<u8>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut inbox = Inbox::default();
    while let Some(request) = next_request(&mut stream, &mut inbox)? {
        stream.write_all(&handler(&request))?;
        if !request.keep_alive {
            break;
        }
    }
    Ok(())
}

/// Reads until a request is complete; None at the end of the stream.
pub(crate) fn next_request(stream: &mut TcpStream, inbox: &mut Inbox) -> io::Result<Option<Request>> {
    read_until(stream, inbox, Inbox::take)
}

/// Reads until a request's head is complete; None at the end of the stream.
pub(crate) fn next_head(stream: &mut TcpStream, inbox: &mut Inbox) -> io::Result<Option<Request>> {
    read_until(stream, inbox, Inbox::take_head)
}

fn read_until(
    stream: &mut TcpStream,
    inbox: &mut Inbox,
    take: impl Fn(&mut Inbox) -> Result<Option<Request>, crate::http::Malformed>,
) -> io::Result<Option<Request>> {
    let mut buffer = [0; 16 << 10];
    loop {
        match take(inbox) {
            Ok(Some(request)) => return Ok(Some(request)),
            Ok(None) => {}
            Err(crate::http::Malformed) => {
                stream.write_all(BAD_REQUEST)?;
                return Ok(None);
            }
        }
        match stream.read(&mut buffer)? {
            0 => return Ok(None),
            length => inbox.push(&buffer[..length]),
        }
    }
}
