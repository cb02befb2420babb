//! A stream that begins with bytes which were read of it before, and whose writes do not wait for ever.

use bytes::{Buf, Bytes};
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream of either kind.
pub(crate) trait Both: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Both for S {}

pub(crate) struct Patient {
    stream: Box<dyn Both>,
    /// What was read before, as far as it was not told.
    read: Bytes,
    most: Duration,
    waits: Waits,
}

/// Whether a write waits for the client.
enum Waits {
    No,
    Until(Pin<Box<Sleep>>),
}

impl Patient {
    /// `most`: how long a client may take nothing of what is written to it.
    pub(crate) fn new(stream: Box<dyn Both>, read: Vec<u8>, most: Duration) -> Self {
        Self { stream, read: read.into(), most, waits: Waits::No }
    }

    /// What a write gave, or the end of the patience.
    fn bounded<T>(&mut self, wrote: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.waits = Waits::No;
            return wrote;
        }
        if matches!(self.waits, Waits::No) {
            self.waits = Waits::Until(Box::pin(sleep(self.most)));
        }
        let Waits::Until(end) = &mut self.waits else { return Poll::Pending };
        end.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, into);
        }
        let length = this.read.len().min(into.remaining());
        into.put_slice(&this.read[..length]);
        this.read.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.bounded(wrote, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, pieces);
        this.bounded(wrote, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
