//! A registry with one tag, which moves to another unsigned plugin whenever it is read.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::http_server::{HttpServer, Request, Response};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The repository, and the tag.
const REPOSITORY: &str = "plugins/unverified";
const TAG: &str = "latest";

/// A public key whose private key nobody has. Nothing is signed with it.
const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
                   MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGg2wlrlUb6vkBu6bqg2WAaa2THb6\n\
                   +cxJcAQjjtFUa5D2MaF1l+16RU6itOl0zI5NaORZRR3kPEL58xpeBk8Q4A==\n\
                   -----END PUBLIC KEY-----\n";

/// A running registry without TLS.
pub(super) struct Registry {
    server: HttpServer,
}

/// Manifests and blobs by digest.
#[derive(Default)]
struct Content {
    stored: BTreeMap<String, Vec<u8>>,
    /// How often the tag was read.
    moves: u64,
}

impl Registry {
    pub(super) fn start() -> Result<Self> {
        let content = Mutex::<Content>::default();
        let server = HttpServer::start(move |request: &Request| {
            content.lock().unwrap_or_else(PoisonError::into_inner).respond(&request.path)
        })?;
        Ok(Self { server })
    }

    /// Returns the address as `HOST:PORT`.
    pub(super) fn address(&self) -> &str {
        self.server.address()
    }

    /// Returns the reference of the tag.
    pub(super) fn image(&self) -> String {
        format!("{}/{REPOSITORY}:{TAG}", self.address())
    }

    /// Returns a policy that wants a signature of everything in this registry.
    pub(super) fn policy(&self) -> String {
        let signer = json!({"name": "release", "key": KEY});
        json!({"rules": [{"match": [format!("{}/**", self.address())], "signers": [signer]}]}).to_string()
    }
}

impl Content {
    fn respond(&mut self, path: &str) -> Response {
        let (path, _) = path.split_once('?').unwrap_or((path, ""));
        if path == "/v2/" {
            return Response { status: 200, ..Response::default() };
        }
        let Some(within) = path.strip_prefix("/v2/").and_then(|path| path.strip_prefix(REPOSITORY)) else {
            return Response { status: 404, ..Response::default() };
        };
        let reference = match within {
            "/manifests/latest" => self.move_tag(),
            _ => within.rsplit('/').next().unwrap_or_default().to_owned(),
        };
        match self.stored.get(&reference) {
            Some(found) => Response {
                status: 200,
                headers: vec![("content-type", MANIFEST.to_owned()), ("docker-content-digest", reference)],
                body: found.clone(),
            },
            None => Response { status: 404, ..Response::default() },
        }
    }

    /// Stores another plugin in place of the last one. Returns the digest of its manifest.
    fn move_tag(&mut self) -> String {
        self.moves += 1;
        self.stored.clear();
        // The header of a core module, and an empty custom section: the loader never sees it.
        let wasm = b"\0asm\x01\0\0\0\0\x01\0".to_vec();
        let (config, number) = (b"{}".to_vec(), self.moves.to_string());
        let mut descriptor = |media_type: &str, content: Vec<u8>| {
            let (size, digest) = (content.len(), digest(&content));
            self.stored.insert(digest.clone(), content);
            json!({"mediaType": media_type, "digest": digest, "size": size})
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": "application/vnd.wasm.content.layer.v1+wasm",
            "config": descriptor("application/vnd.oci.empty.v1+json", config),
            "layers": [descriptor("application/vnd.wasm.content.layer.v1+wasm", wasm)],
            "annotations": {"org.opencontainers.image.version": number},
        });
        let manifest = manifest.to_string().into_bytes();
        let digest = digest(&manifest);
        self.stored.insert(digest.clone(), manifest);
        digest
    }
}

fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_moves_and_the_digest_stays() {
        let mut content = Content::default();
        let mut digest_of = |path: &str| {
            let response = content.respond(path);
            let digest = response.headers.iter().find(|(name, _)| *name == "docker-content-digest");
            (response.status, digest.map(|(_, digest)| digest.clone()), response.body)
        };
        let (status, first, _) = digest_of("/v2/plugins/unverified/manifests/latest");
        let (_, second, text) = digest_of("/v2/plugins/unverified/manifests/latest");
        assert_eq!(status, 200);
        assert_ne!(first, second);
        let second = second.expect("a digest");
        let (_, found, same) = digest_of(&format!("/v2/plugins/unverified/manifests/{second}"));
        assert_eq!((found.as_ref(), &same), (Some(&second), &text));
        assert_eq!(digest(&text), second);
        let manifest: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let layer = manifest["layers"][0]["digest"].as_str().expect("a layer").to_owned();
        assert_eq!(digest_of(&format!("/v2/plugins/unverified/blobs/{layer}")).0, 200);
        for path in ["/v2/other/manifests/latest", "/v2/plugins/unverified/referrers/sha256:a", "/"] {
            assert_eq!(digest_of(path).0, 404, "{path}");
        }
    }
}
