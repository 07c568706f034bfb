//! Identifiers of traces and spans, in the format of W3C Trace Context.

use std::fmt;

use http::HeaderValue;

/// The header that carries a span's identifiers.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// Identifies a trace. Not all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// Identifies a span within its trace. Not all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// A span and its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
}

impl SpanContext {
    /// Returns the value of the header `traceparent` for a request that belongs to this span.
    pub(crate) fn traceparent(&self, is_sampled: bool) -> Option<HeaderValue> {
        // The text is ASCII, which is valid in every header.
        HeaderValue::try_from(self.traceparent_text(is_sampled)).ok()
    }

    /// Returns the value of `traceparent` as text.
    pub(crate) fn traceparent_text(&self, is_sampled: bool) -> String {
        let Self { trace, span } = self;
        format!("00-{trace}-{span}-{:02x}", u8::from(is_sampled))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_version_trace_span_and_the_sampling_flag() {
        let context = SpanContext { trace: TraceId([0xab; 16]), span: SpanId([1, 2, 3, 4, 5, 6, 7, 0xff]) };
        let header = |is_sampled| context.traceparent(is_sampled).expect("a header");
        assert_eq!(header(true), "00-abababababababababababababababab-01020304050607ff-01");
        assert_eq!(header(false), "00-abababababababababababababababab-01020304050607ff-00");
    }
}
