//! A request from its head to the end of its response.
//!
//! Where the body of the response comes from is a state with its data ([`Source`]): content in memory or of a file, or
//! bytes that stand behind the head (an assembled page, an error's page), or an application that gives it as it is
//! ready. Only the last one has a request body that anything reads; all others have it discarded ([`super::drain`]).

use crate::exchange::application::{Continued, PassedOn};
use crate::exchange::record::RequestRecord;
use crate::exchange::relayed_form::{FRAME_BYTES_MAX, put_head};
use crate::exchange::streamed::{Far, Streamed};
use crate::files::resource::{Content, Resource};
use crate::http::client_certificate::{CertificateFields, ToldCertificate};
use crate::http::response::Response;
use crate::policy::advised::Advised;
use crate::policy::codec_swap::StreamPlace;
use crate::telemetry::arm_requests::{Outcome, Owed};
use std::rc::Rc;
use std::sync::Arc;
use std::{fmt, io};

/// Content up to this size is put behind its head: it would be copied anyway, see [`crate::exchange::send::COPIED_BYTES_MAX`].
const JOINED_BYTES_MAX: usize = 3072;

/// Where the body of a response comes from.
#[derive(Debug, Default)]
pub(crate) enum Source {
    /// What there is of it stands behind the head.
    #[default]
    Head,
    /// Parts of content that lies in memory or in a file. The handle is here and not in the value.
    Content(Rc<Resource>),
    /// Parts of a body in memory that something else than a file is the source of.
    Stored(Arc<dyn StoredBody>),
    /// An application gives it as it is ready, and takes the request's body.
    Application(Box<ByApplication>),
}

/// A body in memory, which does not change.
pub(crate) trait StoredBody: fmt::Debug {
    fn bytes(&self) -> &[u8];
}

#[cold]
#[inline(never)]
fn leave_application(by: Box<ByApplication>) {
    drop(by);
}

/// What routing does to the head of an application's response: fields and pages of the tables of its path.
pub(crate) type Finish = Box<dyn FnOnce(&mut Exchange)>;

/// What is told of the client's certificate, and by which fields; variables of programs have names of their own.
#[derive(Debug, Clone)]
pub(crate) struct Certified {
    pub(crate) told: Rc<ToldCertificate>,
    pub(crate) fields: Option<Arc<CertificateFields>>,
}

/// A request of an application.
pub(crate) struct ByApplication {
    pub(crate) streamed: Streamed,
    pub(super) finish: Option<Finish>,
    /// What is asked for where it is not what the request asks for.
    pub(super) target: Option<String>,
    /// What the application is told of the client's certificate.
    pub(super) certified: Option<Certified>,
}

impl fmt::Debug for ByApplication {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.streamed.fmt(formatter)
    }
}

impl Source {
    /// A response whose head has gone out elsewhere.
    pub(crate) fn continued(handler: Box<dyn Continued>, far: Far) -> Self {
        let streamed = Streamed::continued(handler, far);
        Self::Application(Box::new(ByApplication { streamed, finish: None, target: None, certified: None }))
    }

    /// Drops what it has. In its place: the drop of any source would be a call for each response.
    #[inline]
    fn leave(&mut self) {
        match std::mem::take(self) {
            Self::Head => {}
            Self::Content(resource) => drop(resource),
            Self::Stored(body) => drop(body),
            Self::Application(by) => leave_application(by),
        }
    }

    /// The content, if it is that.
    #[inline]
    pub(crate) fn content(&self) -> Option<&Content> {
        match self {
            Self::Content(resource) => Some(&resource.content),
            Self::Head | Self::Stored(_) | Self::Application(_) => None,
        }
    }

    /// The body in memory, if it is that.
    pub(crate) fn stored(&self) -> Option<&[u8]> {
        if let Self::Stored(body) = self { Some(body.bytes()) } else { None }
    }
}

/// A request and its response.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) response: Response,
    pub(crate) source: Source,
    /// The status code, for counts and the log.
    pub(crate) status: u16,
    /// Bytes of the head proper: what follows in the stream is the body.
    pub(crate) head_bytes: u64,
    pub(crate) record: RequestRecord,
}

impl Exchange {
    /// Tells the adviser of its end, and makes its place free for the next one.
    #[inline]
    pub(crate) fn finish(&mut self) {
        self.finish_advised();
        self.response.reset();
        self.source.leave();
        self.status = 0;
        self.head_bytes = 0;
        self.record.reset();
    }

    /// Puts content of a few bytes behind the head, so that one piece of memory is sent in place of two.
    #[inline]
    pub(crate) fn join_small(&mut self) {
        let Self { response, source, .. } = self;
        if let ([part], Some(Content::Memory(bytes))) = (response.parts.as_slice(), source.content())
            && bytes.len() <= JOINED_BYTES_MAX
            && (part.start, part.end, part.head_end) == (0, bytes.len() as u64, response.head.len() as u64)
        {
            response.head.extend_from_slice(bytes);
            response.parts.clear();
            response.resource = None;
            source.leave();
        }
    }

    /// Whether all of it is a piece of memory of at most so many bytes, of which nothing was sent yet.
    #[inline]
    pub(crate) fn is_one_piece(&self, bytes_max: usize) -> bool {
        let Response { head, parts, offset, .. } = &self.response;
        *offset == 0 && parts.is_empty() && (1..=bytes_max).contains(&head.len()) && !self.continues()
    }

    /// Some of the responses were sent; tells what is to know of this one's first bytes, if it was among them.
    pub(crate) fn sent_some(&mut self) {
        if self.response.offset > 0 {
            self.record.sent_some();
        }
    }

    /// Whether everything was taken, and nothing more is to be made.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.response.is_finished() && !self.continues()
    }

    /// Whether more is made once the sink has taken what there is.
    #[inline]
    pub(crate) fn continues(&self) -> bool {
        self.record.advised.as_ref().is_some_and(Advised::continues) || self.is_awaited()
    }

    /// Whether more may come of an application, which says when.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(&self.source, Source::Application(by) if !by.streamed.is_over())
    }

    /// The status as far as it is known, and whether an application is still to answer.
    pub(crate) fn answered(&self) -> (u16, bool) {
        (self.status, self.is_awaited())
    }

    /// Whether an application has given all of its response, of which nothing was sent, and the connection stays behind it.
    pub(crate) fn is_whole_application(&self) -> bool {
        let Source::Application(by) = &self.source else { return false };
        let is_first = self.response.offset == 0 && by.streamed.released_bytes == 0;
        is_first && by.streamed.is_over() && !by.streamed.closes()
    }

    /// Whether an application has kept its client waiting for too long.
    pub(crate) fn is_late(&self, now_ms: u64) -> bool {
        matches!(&self.source, Source::Application(by) if !by.streamed.is_over() && by.streamed.is_late(now_ms))
    }

    /// Whether fields follow behind the body of an application's response.
    pub(crate) fn has_trailers(&self) -> bool {
        matches!(&self.source, Source::Application(by) if !by.streamed.trailers().is_empty())
    }

    /// Whether an application may take more of the body than has come.
    pub(crate) fn is_owed_body(&self) -> bool {
        matches!(&self.source, Source::Application(by) if by.streamed.body.is_owed())
    }

    /// Bytes of the body that there is room for.
    pub(crate) fn body_room(&self) -> usize {
        if let Source::Application(by) = &self.source { by.streamed.body.room() } else { 0 }
    }

    /// Leaves away what has not been sent, and what would come.
    pub(crate) fn cut_off(&mut self) {
        self.response.cut_off();
        if let Some(streamed) = self.streamed() {
            streamed.give_up();
        }
    }

    /// The request of an application.
    #[inline]
    pub(crate) fn streamed(&mut self) -> Option<&mut Streamed> {
        match &mut self.source {
            Source::Application(by) => Some(&mut by.streamed),
            Source::Head | Source::Content(_) | Source::Stored(_) => None,
        }
    }

    /// How far it came, if another server may go on sending it while this one goes on making it; none without a head.
    /// `ends` says that its connection ends behind it.
    pub(crate) fn far(&self, ends: bool) -> Option<Far> {
        let sent_bytes = self.sent_bytes();
        let stored = Far { minor: 1, closes: ends, ends_with_connection: false, sent_bytes, framing_bytes: 0 };
        match &self.source {
            Source::Application(by) if self.status != 0 && !self.is_tunnel() => Some(by.streamed.far(sent_bytes)),
            Source::Stored(_) => Some(stored),
            Source::Head | Source::Content(_) | Source::Application(_) => None,
        }
    }

    /// Ends here what another server makes, for a third one to go on with; it comes back if this server is to go on with it.
    pub(crate) fn pass_on(mut self) -> Result<PassedOn, Box<Self>> {
        let Self { response, source, .. } = &mut self;
        match source {
            Source::Application(by) if by.streamed.is_continued() && response.parts.is_empty() => {
                let mut before = Vec::new();
                // The offset lies within the head. Its framing was told before.
                for piece in response.head[response.offset as usize..].chunks(FRAME_BYTES_MAX) {
                    put_head(&mut before, 0, piece.len());
                    before.extend_from_slice(piece);
                }
                by.streamed.pass_on(before).ok_or_else(|| Box::new(self))
            }
            _ => Err(Box::new(self)),
        }
    }

    /// Bytes that were made so far and are neither of the head nor of the body.
    pub(crate) fn framing_bytes(&self) -> u64 {
        if let Source::Application(by) = &self.source { by.streamed.framing_bytes() } else { 0 }
    }

    /// The file that it is sent of, also where it is made of that piece by piece.
    pub(crate) fn resource(&self) -> Option<&Rc<Resource>> {
        let stream = || self.record.advised.as_ref()?.stream.as_ref();
        match &self.source {
            Source::Content(resource) => Some(resource),
            Source::Head => stream().map(|stream| stream.resource()),
            Source::Stored(_) | Source::Application(_) => None,
        }
    }

    /// Where its next piece is to be taken from, if it is sound that may go on in another variant.
    pub(crate) fn stream_place(&self) -> Option<StreamPlace> {
        self.record.advised.as_ref().and_then(Advised::stream_place)
    }

    /// Makes the next piece in the place of what was taken.
    ///
    /// # Errors
    ///
    /// What the file system answers, and `StaleNetworkFileHandle` if the file has changed.
    #[cold]
    pub(crate) fn refill(&mut self) -> io::Result<()> {
        let Some(advised) = &mut self.record.advised else { return Ok(()) };
        advised.released_bytes += self.response.offset;
        self.response.offset = 0;
        self.response.head.clear();
        advised.fill(&mut self.response.head)
    }

    /// Tells the adviser of its end, and has nothing more of it.
    #[inline]
    fn finish_advised(&mut self) {
        if self.record.advised.is_some() {
            // An error of an application is a failure of what it answers.
            let has_failed = matches!(self.source, Source::Application(_)) && self.status >= 500;
            let (bytes, is_finished) = (self.sent_bytes(), self.is_finished() && !has_failed);
            self.record.finish_advised(bytes, is_finished);
        }
        if self.record.again.is_some() {
            let is_finished = self.is_finished();
            self.record.again.iter_mut().for_each(|again| again.finish(is_finished));
            self.record.again = None;
        }
    }

    /// It goes on at another server: its rules and its place within a bound are over here, without a failure, and its
    /// business transaction is not counted, as it would be of half a response.
    #[cold]
    pub(crate) fn move_on(&mut self) {
        self.record.arm.discard();
        let sent_bytes = self.sent_bytes();
        self.record.finish_advised(sent_bytes, true);
        self.record.again.iter_mut().for_each(|again| again.finish(true));
    }

    /// Ends the business transaction that it is.
    #[inline]
    pub(crate) fn end_told(&mut self) {
        let outcome = self.outcome();
        self.record.end_told(outcome);
    }

    /// Takes the end of its business transaction off it, to be told once the bytes have gone.
    pub(crate) fn owe_told(&mut self) -> Owed {
        let outcome = self.outcome();
        self.record.owe_told(outcome)
    }

    #[inline]
    fn outcome(&self) -> Outcome {
        Outcome { status: self.status, is_finished: self.is_finished(), body_bytes: self.body_sent_bytes() }
    }

    /// Bytes that the socket has taken, the head's included.
    pub(crate) fn sent_bytes(&self) -> u64 {
        let released = self.record.advised.as_ref().map_or(0, |advised| advised.released_bytes);
        let streamed = if let Source::Application(by) = &self.source { by.streamed.released_bytes } else { 0 };
        self.response.offset + released + streamed
    }

    /// Whether the content is still what the head has said of it.
    pub(crate) fn is_unchanged(&self) -> bool {
        match &self.source {
            Source::Content(resource) => resource.is_unchanged(),
            Source::Head | Source::Stored(_) | Source::Application(_) => true,
        }
    }

    /// Bytes of the body that the socket has taken.
    pub(crate) fn body_sent_bytes(&self) -> u64 {
        let framing = if let Source::Application(by) = &self.source { by.streamed.framing_bytes } else { 0 };
        self.sent_bytes().saturating_sub(self.head_bytes + framing)
    }
}
