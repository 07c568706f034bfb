//! Puts a plugin from the cache into the folder from which the host loads. Never holds a whole plugin in memory: many may be put there at the same
//! time, and each may have hundreds of megabytes once it is unpacked.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use flate2::bufread::GzDecoder;

use crate::cache::{Cache, PartialFile, cannot_write};
use crate::digest::{Digest, Hasher};
use crate::error::RegistryError;
use crate::fetch::CachedPlugin;
use crate::layout::{WASM_HEAD, is_wasm, no_gzip, no_wasm, too_large};

/// The size of the parts in which content is read, in bytes.
const PART: usize = 64 << 10;

impl CachedPlugin {
    /// Puts the plugin into the folder from which the host loads, as `NAME.wasm`. An unchanged file is not touched.
    ///
    /// # Errors
    /// Errors if the content is not wasm or larger than the limit, or if the folder cannot be written.
    pub fn stage(&self, cache: &Cache, plugin: &str, limit: u64, name: &str) -> Result<(), RegistryError> {
        let blob = self.open(cache, name)?;
        let file_name = format!("{plugin}.wasm");
        if self.is_compressed() {
            let unpacked = unpack(blob, cache, limit, name)?;
            if cache.plugin_file_has(&file_name, unpacked.digest, unpacked.size) {
                return Ok(());
            }
            return cache.keep_plugin(unpacked.file, &file_name);
        }
        let mut head = Vec::new();
        blob.take(WASM_HEAD as u64).read_to_end(&mut head).map_err(|_| Self::gone(name))?;
        if !is_wasm(&head) {
            return Err(no_wasm(name));
        }
        if cache.plugin_file_has(&file_name, self.layer(), self.descriptor().size) {
            return Ok(());
        }
        cache.link_plugin(&file_name, self.layer())
    }

    /// Opens the content, if the cache has it and it is intact.
    fn open(&self, cache: &Cache, name: &str) -> Result<File, RegistryError> {
        let is_there = cache.has_blob(self.descriptor());
        let blob = is_there.then(|| File::open(cache.blob_path(self.layer())).ok()).flatten();
        blob.ok_or_else(|| Self::gone(name))
    }
}

/// A plugin in a temporary file, which is not part of the cache yet.
struct Unpacked {
    file: PartialFile,
    digest: Digest,
    size: u64,
}

/// Unpacks a layer, part by part.
fn unpack(blob: File, cache: &Cache, limit: u64, name: &str) -> Result<Unpacked, RegistryError> {
    let (partial, mut file) = cache.partial_plugin()?;
    let failed = |error: io::Error| cannot_write(partial.path(), &error);
    let mut content = GzDecoder::new(BufReader::new(blob)).take(limit.saturating_add(1));
    let (mut hasher, mut size, mut head) = (Hasher::default(), 0_u64, Vec::new());
    let mut buffer = vec![0; PART];
    loop {
        let part = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(no_gzip(name)),
        };
        head.extend(part.iter().take(WASM_HEAD - head.len()));
        size += part.len() as u64;
        hasher.update(part);
        file.write_all(part).map_err(failed)?;
    }
    if size > limit {
        return Err(too_large(name, size, limit));
    }
    if !is_wasm(&head) {
        return Err(no_wasm(name));
    }
    file.sync_all().map_err(failed)?;
    Ok(Unpacked { file: partial, digest: hasher.finish(), size })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::client::{Limits, ManifestDocument};
    use crate::error::Problem;

    const GZIP: &str = "application/vnd.yoke.wasm.v1.gzip";
    const SIZE: usize = 16 << 20;

    #[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(&folder.path().join("oci"), SystemTime::now()).expect("a cache");
        (folder, cache)
    }

    fn plugin(cache: &Cache, kind: &str, content: &[u8]) -> CachedPlugin {
        let digest = cache.put(content).expect("stored");
        let size = content.len();
        let text = format!(
            r#"{{"schemaVersion":2,"config":{{"digest":"{digest}","size":0}},"layers":[{{"mediaType":"{kind}","digest":"{digest}","size":{size}}}]}}"#
        );
        let document = ManifestDocument { digest: Digest::of(text.as_bytes()), text: text.into_bytes() };
        CachedPlugin::of(&document, Limits::default(), "p").expect("a plugin")
    }

    fn packed(content: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(content).expect("written");
        packed.finish().expect("packed")
    }

    fn large() -> Vec<u8> {
        let mut wasm = b"\0asm\x01\0\0\0".to_vec();
        wasm.resize(SIZE, 7);
        wasm
    }

    #[test]
    fn a_plugin_is_put_into_the_folder_without_being_in_memory() {
        let wasm = large();
        for (kind, content) in [("application/wasm", wasm.clone()), (GZIP, packed(&wasm))] {
            let (_folder, cache) = cache();
            let plugin = plugin(&cache, kind, &content);
            let stage = || plugin.stage(&cache, "p", SIZE as u64, "p").expect("staged");
            let memory = allocation_counter::measure(stage).bytes_max;
            assert!(memory < SIZE as u64 / 8, "{kind}: {memory} bytes");
            let file = cache.plugins().join("p.wasm");
            assert!(std::fs::read(&file).expect("a file") == wasm, "{kind}");
            let modified = || file.metadata().and_then(|found| found.modified()).expect("a time");
            let before = modified();
            stage();
            assert_eq!(modified(), before, "{kind}: it is not written again");
            assert_eq!(cache.plugin_files(), ["p.wasm"]);
        }
    }

    #[test]
    fn what_is_no_plugin_or_too_large_leaves_nothing() {
        let (_folder, cache) = cache();
        let limit = SIZE as u64 - 1;
        for (kind, content, problem) in [
            (GZIP, packed(&large()), Problem::TooLarge),
            (GZIP, b"no gzip".to_vec(), Problem::Layout),
            (GZIP, packed(b"<html>"), Problem::Layout),
            (GZIP, packed(b""), Problem::Layout),
            ("application/wasm", b"<html>".to_vec(), Problem::Layout),
        ] {
            let error = plugin(&cache, kind, &content).stage(&cache, "p", limit, "p").expect_err(kind);
            assert_eq!(error.problem(), problem, "{error}");
        }
        let plugin = plugin(&cache, "application/wasm", b"\0asm\x01\0\0\0");
        std::fs::remove_file(cache.blob_path(plugin.layer())).expect("removed");
        let error = plugin.stage(&cache, "p", limit, "p").expect_err("it is gone");
        assert_eq!(error.problem(), Problem::Cache, "{error}");
        assert_eq!(std::fs::read_dir(cache.plugins()).expect("a folder").count(), 0);
    }
}
