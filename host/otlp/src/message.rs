//! The messages of OTLP for traces, version 1. Fields that a host does not use are left out; a decoder skips them.

use prost::{Message, Oneof};

/// The body of a request.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceRequest {
    /// The spans, by their source.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// The body of a response.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceResponse {
    /// Present if the collector refused some of the spans.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportTracePartialSuccess>,
}

/// Which spans a collector refused.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTracePartialSuccess {
    /// The number of spans that it refused.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// Why.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The spans of one source.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The source: a process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Its spans, by the code that made them.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Describes the process.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The spans that one library made.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The library.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// The code that made spans.
#[derive(Clone, PartialEq, Message)]
pub struct InstrumentationScope {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// One span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// 8 bytes; empty for the root of a trace.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// The flags of W3C Trace Context.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
    /// The name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// One of the constants `KIND_…`.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// In nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// In nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// The attributes.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Spans that led to this one.
    #[prost(message, repeated, tag = "13")]
    pub links: Vec<Link>,
    /// Present if it failed.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

impl Span {
    /// The kind of work within a process.
    pub const KIND_INTERNAL: i32 = 1;
    /// The kind of a request that was sent.
    pub const KIND_CLIENT: i32 = 3;
    /// The kind of a message that was received.
    pub const KIND_CONSUMER: i32 = 5;
}

/// A reference to another span.
#[derive(Clone, PartialEq, Message)]
pub struct Link {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
}

/// Whether a span failed.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// 0 if that is not known, or [`Self::ERROR`].
    #[prost(int32, tag = "3")]
    pub code: i32,
}

impl Status {
    /// The code of a span that failed.
    pub const ERROR: i32 = 2;
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value; `None` for the types that are not defined here.
    #[prost(oneof = "Value", tags = "1, 3")]
    pub value: Option<Value>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A number.
    #[prost(int64, tag = "3")]
    Number(i64),
}

impl KeyValue {
    /// Creates an attribute with a text.
    #[must_use]
    pub fn text(key: &str, text: impl Into<String>) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(Value::Text(text.into())) }) }
    }

    /// Creates an attribute with a number.
    #[must_use]
    pub fn number(key: &str, number: i64) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(Value::Number(number)) }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `opentelemetry-proto` 1.45 makes of the message in the test.
    const REQUEST: &str = "0ab4010a150a130a0c736572766963652e6e616d6512030a0173129a010a060a0170120131128f010a100102030405060708090a0b\
         0c0d0e0f1012080102030405060708220802030405060708092a096b38732e7772697465300339e80300000000000041d0070000000000004a200a19\
         687474702e726573706f6e73652e7374617475735f636f646512031899036a1c0a10030405060708090a0b0c0d0e0f10111212080405060708090a0b\
         7a021802850101000000";
    const RESPONSE: &str = "0a080803120466756c6c";

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn the_bytes_are_those_of_another_implementation() {
        let span = Span {
            trace_id: (1..=16).collect(),
            span_id: (1..=8).collect(),
            parent_span_id: (2..=9).collect(),
            flags: 1,
            name: "k8s.write".to_owned(),
            kind: Span::KIND_CLIENT,
            start_time_unix_nano: 1000,
            end_time_unix_nano: 2000,
            attributes: vec![KeyValue::number("http.response.status_code", 409)],
            links: vec![Link { trace_id: (3..=18).collect(), span_id: (4..=11).collect() }],
            status: Some(Status { code: Status::ERROR }),
        };
        let scope = InstrumentationScope { name: "p".to_owned(), version: "1".to_owned() };
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource { attributes: vec![KeyValue::text("service.name", "s")] }),
                scope_spans: vec![ScopeSpans { scope: Some(scope), spans: vec![span] }],
            }],
        };
        assert_eq!(request.encode_to_vec(), bytes(REQUEST));
        assert_eq!(ExportTraceServiceRequest::decode(&*bytes(REQUEST)), Ok(request));
        let response = ExportTraceServiceResponse::decode(&*bytes(RESPONSE)).expect("a response");
        let partial = response.partial_success.expect("a partial success");
        assert_eq!((partial.rejected_spans, partial.error_message.as_str()), (3, "full"));
    }
}
