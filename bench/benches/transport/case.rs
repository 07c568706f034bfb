//! The cases that are compared.

/// How a client reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    /// Whether the client uses a streaming list (`sendInitialEvents`).
    pub(crate) streaming: bool,
    /// Whether the client accepts gzip.
    pub(crate) gzip: bool,
    /// Whether the server writes each event separately; otherwise 64 KiB of events at a time.
    pub(crate) one_event_per_chunk: bool,
    /// The number of informers.
    pub(crate) watches: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 without TLS, to measure the cost of TLS.
    Plain,
    /// HTTP/1.1 over TLS with kube's client.
    Http1,
    /// HTTP/2 over TLS.
    Http2,
    /// HTTP/1.1 over TLS, with a read buffer below TLS.
    Buffered,
}

const BASE: Case = Case {
    name: "",
    protocol: Protocol::Http1,
    streaming: true,
    gzip: false,
    one_event_per_chunk: false,
    watches: 1,
};

/// Cases with one informer.
pub(crate) const SINGLE: [Case; 9] = [
    Case { name: "HTTP/1.1 without TLS, streaming list", protocol: Protocol::Plain, ..BASE },
    Case { name: "HTTP/1.1, streaming list", ..BASE },
    Case { name: "HTTP/2, streaming list", protocol: Protocol::Http2, ..BASE },
    Case {
        name: "HTTP/1.1 with a buffer of 64 KiB below TLS, streaming list",
        protocol: Protocol::Buffered,
        ..BASE
    },
    Case { name: "HTTP/1.1, list", streaming: false, ..BASE },
    Case { name: "HTTP/1.1, list as gzip", streaming: false, gzip: true, ..BASE },
    Case { name: "HTTP/2, list", protocol: Protocol::Http2, streaming: false, ..BASE },
    Case { name: "HTTP/1.1, each event written for itself", one_event_per_chunk: true, ..BASE },
    Case {
        name: "HTTP/2, each event written for itself",
        protocol: Protocol::Http2,
        one_event_per_chunk: true,
        ..BASE
    },
];

/// Cases with many informers.
pub(crate) const MANY: [Case; 4] = [
    Case { name: "HTTP/1.1, a connection for each watch", watches: 20, ..BASE },
    Case { name: "HTTP/2, one connection", protocol: Protocol::Http2, watches: 20, ..BASE },
    Case {
        name: "HTTP/1.1, a connection for each watch, each event for itself",
        one_event_per_chunk: true,
        watches: 20,
        ..BASE
    },
    Case {
        name: "HTTP/2, one connection, each event for itself",
        protocol: Protocol::Http2,
        one_event_per_chunk: true,
        watches: 20,
        ..BASE
    },
];

impl Case {
    pub(crate) fn named(name: &str) -> Option<Self> {
        SINGLE.iter().chain(&MANY).find(|case| case.name == name).copied()
    }
}
