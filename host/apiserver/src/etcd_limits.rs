//! The limits of etcd, which hold although the storage here is not etcd: an object that a cluster refuses must not pass a test.

/// The most bytes of an object's JSON: etcd's `--max-request-bytes`. Unlike the limit of a request's body, it also holds for what defaults,
/// patches and webhooks make of an object.
pub(crate) const MAX_OBJECT_BYTES: usize = 1_572_864;

/// The most bytes that kube-apiserver's client of etcd sends in one message.
const MAX_MESSAGE_BYTES: usize = 2_097_152;

/// Returns kube-apiserver's message about an object that is too large. `bytes` is its size, if it is known.
pub(crate) fn too_large(bytes: Option<usize>) -> String {
    match bytes {
        Some(bytes) if bytes > MAX_MESSAGE_BYTES => format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({bytes} vs. {MAX_MESSAGE_BYTES})"
        ),
        _ => "etcdserver: request is too large".to_owned(),
    }
}
