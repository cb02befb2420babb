//! Responses: the body of a component as it comes, and short texts of our own.

use crate::instance::Breakage;
use crate::log::Log;
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::task::AbortHandle;
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

/// The body of any response.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, Error>;

/// A response without a component's.
pub(crate) fn text(status: StatusCode, words: &str) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(format!("{words}\n"))).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        fields.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}

/// The response of a component, whose instance ends when the client goes away before its end.
pub(crate) fn streamed(
    response: Response<HyperOutgoingBody>,
    method: &Method,
    instance: Instance,
    breakage: Breakage,
    (log, name): (Log, String),
) -> Response<ResponseBody> {
    let length = response.headers().get(http::header::CONTENT_LENGTH);
    let left = length.and_then(|value| value.to_str().ok()?.parse().ok());
    let is_bodiless =
        method == Method::HEAD || matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let left = if is_bodiless { Some(0) } else { left };
    response.map(|inner| Streamed { inner, instance: Some(instance), left, breakage, log, name }.boxed_unsync())
}

/// The task that runs an instance, which ends with this value unless it is let go.
pub(crate) struct Instance(AbortHandle);

impl Instance {
    /// Ends `task` when the value is dropped.
    pub(crate) fn new(task: AbortHandle) -> Self {
        Self(task)
    }

    /// Lets the instance go on until its own end, within its bounds.
    pub(crate) fn let_go(self) {
        std::mem::forget(self);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Streamed {
    inner: HyperOutgoingBody,
    /// Until the response has ended.
    instance: Option<Instance>,
    /// Bytes until the end, where Content-Length says so.
    left: Option<u64>,
    breakage: Breakage,
    log: Log,
    /// Component and request, for the log.
    name: String,
}

impl Streamed {
    fn let_go(&mut self) {
        if let Some(instance) = self.instance.take() {
            instance.let_go();
        }
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if frame.is_none() && self.left != Some(0) && self.breakage.has_happened() {
            frame = Some(Err(Error::HttpResponseIncomplete));
        }
        match &frame {
            None => self.let_go(),
            Some(Ok(frame)) => {
                if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
                    *left = left.saturating_sub(data.len() as u64);
                }
            }
            Some(Err(error)) => self.log.line(&format!("{}: its response breaks off: {error}", self.name)),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        // The server before asks for no more when it has all bytes that were announced.
        if self.left == Some(0) || self.inner.is_end_stream() {
            self.let_go();
        }
    }
}
