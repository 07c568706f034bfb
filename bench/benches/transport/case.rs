//! What is compared.

/// How a client reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    /// Whether the list is the beginning of the watch.
    pub(crate) streaming: bool,
    pub(crate) gzip: bool,
    /// Whether each event is written for itself, or 64 KiB of them at a time.
    pub(crate) each: bool,
    /// How many informers there are.
    pub(crate) watches: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Without TLS, for what it costs.
    Plain,
    /// What kube's client speaks.
    Http1,
    Http2,
    /// HTTP/1.1, with a buffer below TLS.
    Buffered,
}

const BASE: Case =
    Case { name: "", protocol: Protocol::Http1, streaming: true, gzip: false, each: false, watches: 1 };

/// One informer.
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
    Case { name: "HTTP/1.1, each event written for itself", each: true, ..BASE },
    Case { name: "HTTP/2, each event written for itself", protocol: Protocol::Http2, each: true, ..BASE },
];

/// Many informers.
pub(crate) const MANY: [Case; 4] = [
    Case { name: "HTTP/1.1, a connection for each watch", watches: 20, ..BASE },
    Case { name: "HTTP/2, one connection", protocol: Protocol::Http2, watches: 20, ..BASE },
    Case {
        name: "HTTP/1.1, a connection for each watch, each event for itself",
        each: true,
        watches: 20,
        ..BASE
    },
    Case {
        name: "HTTP/2, one connection, each event for itself",
        protocol: Protocol::Http2,
        each: true,
        watches: 20,
        ..BASE
    },
];

impl Case {
    pub(crate) fn named(name: &str) -> Option<Self> {
        SINGLE.iter().chain(&MANY).find(|case| case.name == name).copied()
    }
}
