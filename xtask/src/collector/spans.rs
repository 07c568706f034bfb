//! The spans that a collector has written, and the chain from one plugin's write to another plugin's reconcile. Pure.

use serde_json::Value;

/// A span in the JSON encoding of OTLP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span {
    trace: String,
    id: String,
    /// "" for the root of a trace.
    parent: String,
    pub(super) name: String,
    /// The plugin, if the span names one.
    plugin: String,
    /// Trace and span of each link.
    links: Vec<(String, String)>,
    /// The name of the service.
    pub(super) service: String,
}

/// The chain from a write to the reconcile that it causes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chain<'a> {
    /// The reconcile that writes.
    pub(super) cause: &'a Span,
    /// Its request.
    pub(super) write: &'a Span,
    /// The event of the write.
    pub(super) event: &'a Span,
    /// The reconcile that the event causes.
    pub(super) effect: &'a Span,
}

/// Parses what the collector's file exporter has written: a document in each line. The last line may be incomplete.
pub(super) fn parse(text: &str) -> Vec<Span> {
    let documents = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    documents.flat_map(|document| spans(&document)).collect()
}

fn spans(document: &Value) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource in list(&document["resourceSpans"]) {
        let service = attribute(&resource["resource"], "service.name");
        for scope in list(&resource["scopeSpans"]) {
            spans.extend(
                list(&scope["spans"]).map(|span| Span {
                    trace: text(&span["traceId"]),
                    id: text(&span["spanId"]),
                    parent: text(&span["parentSpanId"]),
                    name: text(&span["name"]),
                    plugin: attribute(span, "pilothouse.plugin"),
                    links: list(&span["links"])
                        .map(|link| (text(&link["traceId"]), text(&link["spanId"])))
                        .collect(),
                    service: service.clone(),
                }),
            );
        }
    }
    spans
}

/// Returns the chain from a write of one plugin to a reconcile of another one.
pub(super) fn chain<'a>(spans: &'a [Span], writer: &str, reader: &str) -> Option<Chain<'a>> {
    let effects = spans.iter().filter(|span| span.name == "reconcile" && span.plugin == reader);
    let mut links = effects.flat_map(|effect| effect.links.iter().map(move |link| (effect, link)));
    links.find_map(|(effect, (trace, id))| {
        let event = spans.iter().find(|span| span.trace == *trace && span.id == *id)?;
        let write = parent(spans, event).filter(|write| write.name == "k8s.write")?;
        let cause = parent(spans, write).filter(|cause| cause.plugin == writer)?;
        Some(Chain { cause, write, event, effect })
    })
}

/// Returns the spans whose parent is missing.
pub(super) fn orphans(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| !span.parent.is_empty() && parent(spans, span).is_none()).collect()
}

/// Returns the names of a span's children, sorted.
pub(super) fn children<'a>(spans: &'a [Span], of: &Span) -> Vec<&'a str> {
    let children = spans.iter().filter(|span| span.trace == of.trace && span.parent == of.id);
    let mut names: Vec<&str> = children.map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn parent<'a>(spans: &'a [Span], child: &Span) -> Option<&'a Span> {
    spans.iter().find(|span| span.trace == child.trace && span.id == child.parent)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn attribute(of: &Value, name: &str) -> String {
    let found = list(&of["attributes"]).find(|attribute| attribute["key"] == name);
    found.map(|attribute| text(&attribute["value"]["stringValue"])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn span(name: &str, [trace, id, parent]: [&str; 3], plugin: &str, link: Option<[&str; 2]>) -> Value {
        let attribute = json!({"key": "pilothouse.plugin", "value": {"stringValue": plugin}});
        let links: Vec<_> = link.iter().map(|[trace, id]| json!({"traceId": trace, "spanId": id})).collect();
        json!({
            "name": name, "traceId": trace, "spanId": id, "parentSpanId": parent, "attributes": [attribute],
            "links": links,
        })
    }

    fn line(spans: &[Value]) -> String {
        let service = json!({"key": "service.name", "value": {"stringValue": "pilothouse"}});
        let resource = json!({"attributes": [service]});
        json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).to_string()
    }

    #[test]
    fn a_chain_leads_from_a_write_to_the_reconcile_of_another_plugin() {
        let writer = line(&[
            span("reconcile", ["a", "1", ""], "writer", None),
            span("guest.call", ["a", "2", "1"], "", None),
            span("k8s.write", ["a", "3", "1"], "", None),
        ]);
        let reader = line(&[
            span("reconcile", ["b", "1", ""], "reader", Some(["a", "4"])),
            span("watch.event", ["a", "4", "3"], "reader", None),
        ]);
        let spans = parse(&format!("{writer}\n{reader}\n{{\"resourceSpans\":"));
        assert_eq!(spans.len(), 5);
        assert!(spans.iter().all(|span| span.service == "pilothouse"));
        let found = chain(&spans, "writer", "reader").expect("a chain");
        let ids = [found.cause, found.write, found.event, found.effect].map(|span| span.id.as_str());
        assert_eq!(ids, ["1", "3", "4", "1"]);
        assert_eq!(children(&spans, found.cause), ["guest.call", "k8s.write"]);
        assert!(chain(&spans, "reader", "writer").is_none() && orphans(&spans).is_empty());
    }

    #[test]
    fn spans_without_their_parents_are_orphans() {
        let spans = parse(&line(&[
            span("reconcile", ["b", "1", ""], "reader", Some(["a", "4"])),
            span("watch.event", ["a", "4", "3"], "reader", None),
        ]));
        let names: Vec<_> = orphans(&spans).iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["watch.event"]);
        assert!(chain(&spans, "writer", "reader").is_none());
    }
}
