//! Converts the host's spans to the messages of OTLP. Pure.

use pilothouse_controller::{Attribute, AttributeValue, Span, SpanKind};
use pilothouse_otlp::message;

/// The flag of a span that is exported, in W3C Trace Context.
const SAMPLED: u32 = 1;

/// Returns the message for a span.
pub(super) fn to_message(span: Span) -> message::Span {
    let Span { context, parent, name, kind, start, end, attributes, links, is_error } = span;
    let links = links
        .into_iter()
        .map(|link| message::Link { trace_id: link.trace.0.to_vec(), span_id: link.span.0.to_vec() });
    message::Span {
        trace_id: context.trace.0.to_vec(),
        span_id: context.span.0.to_vec(),
        parent_span_id: parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        flags: SAMPLED,
        name: name.to_owned(),
        kind: match kind {
            SpanKind::Internal => message::Span::KIND_INTERNAL,
            SpanKind::Client => message::Span::KIND_CLIENT,
            SpanKind::Consumer => message::Span::KIND_CONSUMER,
        },
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        attributes: attributes.into_iter().map(attribute).collect(),
        links: links.collect(),
        status: is_error.then_some(message::Status { code: message::Status::ERROR }),
    }
}

fn attribute(Attribute { name, value }: Attribute) -> message::KeyValue {
    match value {
        AttributeValue::Text(text) => message::KeyValue::text(name, text),
        AttributeValue::Number(number) => message::KeyValue::number(name, number),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_controller::{SpanContext, SpanId, TraceId};

    use super::*;

    #[test]
    fn every_member_of_a_span_is_converted() {
        let context = |byte| SpanContext { trace: TraceId([byte; 16]), span: SpanId([byte; 8]) };
        let span = Span {
            context: context(1),
            parent: Some(SpanId([2; 8])),
            name: "http.out",
            kind: SpanKind::Client,
            start: 3,
            end: 4,
            attributes: vec![
                Attribute { name: "a", value: AttributeValue::Text("t".to_owned()) },
                Attribute { name: "b", value: AttributeValue::Number(5) },
            ],
            links: vec![context(6)],
            is_error: true,
        };
        let expected = message::Span {
            trace_id: vec![1; 16],
            span_id: vec![1; 8],
            parent_span_id: vec![2; 8],
            flags: 1,
            name: "http.out".to_owned(),
            kind: 3,
            start_time_unix_nano: 3,
            end_time_unix_nano: 4,
            attributes: vec![message::KeyValue::text("a", "t"), message::KeyValue::number("b", 5)],
            links: vec![message::Link { trace_id: vec![6; 16], span_id: vec![6; 8] }],
            status: Some(message::Status { code: 2 }),
        };
        assert_eq!(to_message(span.clone()), expected);
        let root = to_message(Span { parent: None, is_error: false, ..span });
        assert_eq!((root.parent_span_id.len(), root.status), (0, None));
    }
}
