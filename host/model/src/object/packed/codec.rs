//! Compression by zstd with a dictionary.

use std::cell::RefCell;

use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::Object;

/// The zstd level. Higher levels save less than the size of an object's metadata, and their prepared dictionaries are five times as large.
const LEVEL: i32 = 1;
/// The size of a dictionary in bytes.
const DICTIONARY_BYTES: usize = 32 * 1024;
/// The most bytes of one sample that a dictionary is trained with, so that a few large objects do not outweigh the others.
const SAMPLE_BYTES: usize = 8 * 1024;
/// The largest scratch buffer that a thread keeps for its next object, in bytes.
const SCRATCH_BYTES: usize = 256 * 1024;

/// A dictionary, prepared for compression and decompression.
pub(super) struct Codec {
    compression: CDict<'static>,
    decompression: DDict<'static>,
}

/// The zstd contexts of a thread: some 70 KB for compression and 100 KB for decompression.
#[derive(Default)]
struct Contexts {
    compression: Option<CCtx<'static>>,
    decompression: Option<DCtx<'static>>,
    scratch: Vec<u8>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Calls `run` with the thread's contexts, or with new ones if the thread is ending and has dropped its own.
fn with_contexts<R>(run: impl Fn(&mut Contexts) -> R) -> R {
    let shared =
        CONTEXTS.try_with(|contexts| contexts.try_borrow_mut().map(|mut contexts| run(&mut contexts)));
    match shared {
        Ok(Ok(result)) => result,
        _ => run(&mut Contexts::default()),
    }
}

impl Codec {
    /// Trains a dictionary on samples; `None` if there are none.
    pub(super) fn train<'a>(samples: impl IntoIterator<Item = &'a Object>) -> Option<Self> {
        let (mut data, mut sizes) = (Vec::new(), Vec::new());
        for sample in samples {
            let sample = sample.stored_text().as_bytes();
            let sample = &sample[..sample.len().min(SAMPLE_BYTES)];
            data.extend_from_slice(sample);
            sizes.push(sample.len());
        }
        let trained = zstd::dict::from_continuous(&data, &sizes, DICTIONARY_BYTES);
        // Training fails on too few samples. The samples themselves are a usable dictionary then.
        let content = trained.unwrap_or_else(|_| data[..data.len().min(DICTIONARY_BYTES)].to_vec());
        if content.is_empty() {
            return None;
        }
        let compression = CDict::try_create(&content, LEVEL)?;
        Some(Self { compression, decompression: DDict::try_create(&content)? })
    }

    /// Returns `start` and the compressed `text` after it; `None` if the compressed text has more than `max_len` bytes.
    pub(super) fn compress(&self, start: [&str; 2], text: &str, max_len: usize) -> Option<Box<[u8]>> {
        with_contexts(|contexts| {
            let scratch = &mut contexts.scratch;
            scratch.clear();
            scratch.resize(max_len, 0);
            if contexts.compression.is_none() {
                contexts.compression = CCtx::try_create();
            }
            let context = contexts.compression.as_mut()?;
            // Fails if the compressed text does not fit into `scratch`.
            let len =
                context.compress_using_cdict(&mut scratch[..], text.as_bytes(), &self.compression).ok()?;
            let [first, second] = start.map(str::as_bytes);
            let bytes = [first, second, &scratch[..len]].concat().into_boxed_slice();
            if scratch.len() > SCRATCH_BYTES {
                *scratch = Vec::new();
            }
            Some(bytes)
        })
    }

    /// Decompresses a text of `len` bytes; `None` if it is damaged or longer.
    pub(super) fn decompress(&self, bytes: &[u8], len: usize) -> Option<Vec<u8>> {
        with_contexts(|contexts| {
            let mut text = Vec::with_capacity(len);
            if contexts.decompression.is_none() {
                contexts.decompression = DCtx::try_create();
            }
            let context = contexts.decompression.as_mut()?;
            context.decompress_using_ddict(&mut text, bytes, &self.decompression).ok()?;
            Some(text)
        })
    }

    /// Returns the size on the heap in bytes.
    pub(super) fn memory_size(&self) -> usize {
        self.compression.sizeof() + self.decompression.sizeof()
    }
}
