//! Messages out of the bytes that a connection brings, and into them.

use crate::carried::CarriedError;
use crate::workers::bounds::FRAME_BYTES_MAX;
use crate::workers::frame::Message;
use std::marker::PhantomData;

/// What each side sends first: what a login shell prints before it is passed over.
const GREETING: &[u8] = b"weir-load-worker\n";
/// A login shell prints no more than so much before, bytes.
const BEFORE_MAX: usize = 1 << 16;
/// Bytes of a frame's length.
const LENGTH: usize = 4;

/// Why bytes are no messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The greeting did not come.
    #[error("it does not speak as a worker of weir does; is a weir of this version installed there?")]
    NoGreeting,
    /// A frame is empty or longer than one may be.
    #[error("it sends a message of {bytes} bytes, and one has between 1 and {FRAME_BYTES_MAX}")]
    Length {
        /// The length that it says.
        bytes: usize,
    },
    /// A message is none.
    #[error("it sends what is no message of this version: {0}")]
    Message(#[from] CarriedError),
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The greeting is looked for.
    Before,
    Frames,
}

/// Reads the messages of one side out of the bytes that came.
#[derive(Debug)]
pub struct Decoder<M> {
    buffer: Vec<u8>,
    stage: Stage,
    kind: PhantomData<fn() -> M>,
}

impl<M> Default for Decoder<M> {
    fn default() -> Self {
        Self { buffer: Vec::new(), stage: Stage::Before, kind: PhantomData }
    }
}

impl<M: Message> Decoder<M> {
    /// Takes bytes that came. They are kept until their message is whole, at most the longest one and what came with it.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, if there is one.
    ///
    /// # Errors
    /// [`FrameError`]; nothing that follows can be read.
    pub fn next_message(&mut self) -> Result<Option<M>, FrameError> {
        if self.stage == Stage::Before {
            let found = memchr::memmem::find(&self.buffer, GREETING);
            match found {
                Some(at) if at <= BEFORE_MAX => {
                    self.buffer.drain(..at + GREETING.len());
                    self.stage = Stage::Frames;
                }
                None if self.buffer.len() <= BEFORE_MAX + GREETING.len() => return Ok(None),
                _ => return Err(FrameError::NoGreeting),
            }
        }
        let Some(length) = self.buffer.first_chunk::<LENGTH>() else { return Ok(None) };
        let bytes = u32::from_le_bytes(*length) as usize;
        if bytes == 0 || bytes > FRAME_BYTES_MAX {
            return Err(FrameError::Length { bytes });
        }
        let Some(frame) = self.buffer.get(LENGTH..LENGTH + bytes) else { return Ok(None) };
        let message = M::read(frame[0], &frame[1..])?;
        self.buffer.drain(..LENGTH + bytes);
        Ok(Some(message))
    }
}

/// The bytes that come before the first message of either side.
#[must_use]
pub fn greeting() -> &'static [u8] {
    GREETING
}

/// The bytes of a message.
///
/// # Errors
/// [`FrameError::Length`], where it is longer than one may be.
pub fn encoded(message: &impl Message) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; LENGTH];
    message.put(&mut bytes);
    let length = bytes.len() - LENGTH;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::Length { bytes: length });
    }
    bytes[..LENGTH].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}
