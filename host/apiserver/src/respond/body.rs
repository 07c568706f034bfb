//! The body of a response.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};
use http_body::{Frame, SizeHint};

/// The body of a response: bytes, a list that is serialized in chunks while it is sent, or the events of a watch.
pub struct ResponseBody(Inner);

enum Inner {
    Full(Option<Bytes>),
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    Stream(BoxStream<'static, Bytes>),
}

impl ResponseBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Inner::Full((!bytes.is_empty()).then_some(bytes)))
    }

    pub(crate) fn chunks(chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Chunks(Box::new(chunks)))
    }

    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Stream(Box::pin(stream)))
    }

    /// Drops `guard` when the body is dropped, if it is a stream.
    pub(crate) fn holding(self, guard: impl Send + 'static) -> Self {
        match self.0 {
            Inner::Stream(stream) => Self::stream(stream.map(move |bytes| {
                let _held = &guard;
                bytes
            })),
            other => Self(other),
        }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.0 {
            Inner::Full(bytes) => Poll::Ready(bytes.take()),
            Inner::Chunks(chunks) => Poll::Ready(chunks.next()),
            Inner::Stream(stream) => stream.as_mut().poll_next(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Inner::Chunks(_) | Inner::Stream(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Full(_) => "ResponseBody::Full",
            Inner::Chunks(_) => "ResponseBody::Chunks",
            Inner::Stream(_) => "ResponseBody::Stream",
        })
    }
}
