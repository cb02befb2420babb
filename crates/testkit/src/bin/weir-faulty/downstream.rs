//! Requests wait for another process over TCP, which is not in the server's process tree.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::{Work, set_name};
use crate::{blocking, http};

const QUESTION: &[u8] = b"how much?\n";
const ANSWER: &[u8] = b"this much\n";

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let length = options.millis("ms", 10)?;
    // Before there are threads, of which a fork would copy only one, and before the server listens.
    let (address, _lifeline) = start_downstream(length)?;
    let listener = options.listen()?;
    blocking::serve(&listener, move || {
        let mut downstream = None;
        move |request: &_| match ask(&mut downstream, address) {
            Ok(()) => http::ok(request),
            Err(error) => http::answer(request, "502 Bad Gateway", &format!("{error}\n")),
        }
    })?;
    Ok(())
}

/// Asks over the connection that this thread keeps open.
fn ask(downstream: &mut Option<TcpStream>, address: SocketAddr) -> io::Result<()> {
    let stream = match downstream {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            downstream.insert(stream)
        }
    };
    let mut answer = [0; ANSWER.len()];
    let result = stream.write_all(QUESTION).and_then(|()| stream.read_exact(&mut answer));
    if result.is_err() {
        *downstream = None;
    }
    result
}

/// Starts the second process in a session of its own, as a grandchild whose parent has ended. It
/// ends when the writing end of the lifeline closes, that is with this process, however it ends.
fn start_downstream(length: Duration) -> io::Result<(SocketAddr, PipeWriter)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (reader, writer) = io::pipe()?;
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // Its own copy would keep the lifeline open for ever.
            drop(writer);
            // SAFETY: neither call touches memory, and there is still one thread.
            let second = unsafe {
                libc::setsid();
                libc::fork()
            };
            if second == 0 {
                serve_downstream(&listener, reader, length);
            }
            // SAFETY: _exit ends the process without running what the parent has registered.
            unsafe { libc::_exit(i32::from(second < 0)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is ours, `status` is ours to be written.
            let waited = unsafe { libc::waitpid(child, &mut status, 0) };
            if waited != child || status != 0 {
                return Err(io::Error::other("the downstream process did not start"));
            }
            Ok((address, writer))
        }
    }
}

fn serve_downstream(listener: &TcpListener, mut lifeline: PipeReader, length: Duration) -> ! {
    set_name(c"weir-downstream");
    thread::spawn(move || {
        // Nothing is ever written: the read returns at the end of the file.
        let _ = lifeline.read(&mut [0]);
        std::process::exit(0);
    });
    let served = blocking::each_connection(listener, move |mut stream| {
        stream.set_nodelay(true)?;
        let mut question = [0; QUESTION.len()];
        loop {
            stream.read_exact(&mut question)?;
            Work::Sleep(length).run();
            stream.write_all(ANSWER)?;
        }
    });
    std::process::exit(i32::from(served.is_err()))
}
