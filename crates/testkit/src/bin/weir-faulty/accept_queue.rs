//! Connections wait until the only worker accepts them.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::blocking::next_request;
use crate::http::{self, Inbox};
use crate::options::{Failure, Options};
use crate::work::Work;

/// A client that connects and says nothing holds up the others no longer than this.
const READ_LIMIT: Duration = Duration::from_secs(1);

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let length = options.millis("ms", 5)?;
    let work = Work::new(length, options.flag("sleep")?);
    let listener: TcpListener = options.listen()?;
    loop {
        let (stream, _) = listener.accept()?;
        // A connection that breaks is the client's affair.
        let _ = answer_one(stream, work);
    }
}

fn answer_one(mut stream: TcpStream, work: Work) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_LIMIT))?;
    let Some(mut request) = next_request(&mut stream, &mut Inbox::default())? else {
        return Ok(());
    };
    work.run();
    request.keep_alive = false;
    stream.write_all(&http::ok(&request))
}
