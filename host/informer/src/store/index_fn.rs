//! Index functions, and the errors of indexes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pilothouse_model::{JsonPath, JsonPathError, Object};

type Function = dyn Fn(&Object) -> Vec<String> + Send + Sync;

/// An index function (client-go's `IndexFunc`): returns the values under which an index finds an object, zero or more.
///
/// ```
/// use pilothouse_informer::IndexFn;
/// use pilothouse_model::Object;
///
/// let images = IndexFn::field(".spec.containers[*].image").unwrap();
/// let pod = Object::from_json(
///     r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"image":"nginx"}]}}"#,
/// ).unwrap();
/// assert_eq!(images.values(&pod), ["nginx"]);
/// ```
#[derive(Clone)]
pub struct IndexFn {
    /// Functions with equal identities are equal, so subscribers share the index. `None` for closures, which cannot be compared.
    identity: Option<Arc<str>>,
    function: Arc<Function>,
    /// Whether two versions of one object certainly have the same values, determined without computing the values.
    unchanged: fn(&Object, &Object) -> bool,
    limits: Option<Limits>,
    /// Whether an object was left out because of the limits, and the log says so.
    has_warned: Arc<AtomicBool>,
    memory: Option<Arc<dyn IndexMemory>>,
}

/// An account to which the memory of an index is charged; see [`IndexFn::charged_to`]. The store is locked during the calls, so they must only
/// count.
pub trait IndexMemory: Send + Sync {
    /// The index takes this many bytes more.
    fn grew(&self, bytes: usize);
    /// The index takes this many bytes less.
    fn shrank(&self, bytes: usize);
}

/// Limits of the values of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    values: usize,
    bytes: usize,
}

impl Limits {
    fn allow(self, values: &[String]) -> bool {
        values.len() <= self.values && values.iter().all(|value| value.len() <= self.bytes)
    }
}

/// Why an index could not be added or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// No index has this name.
    #[error("there is no index {name:?}; {}", available(.indexes))]
    Unknown {
        /// The requested name.
        name: String,
        /// The existing names.
        indexes: Vec<String>,
    },
    /// An index with this name exists.
    #[error("an index {name:?} exists already; choose another name, or use the one there is")]
    Exists {
        /// The name.
        name: String,
    },
}

fn available(indexes: &[String]) -> String {
    if indexes.is_empty() {
        "none was added".to_owned()
    } else {
        format!("there are: {}", indexes.join(", "))
    }
}

impl IndexFn {
    fn with_identity(
        identity: String,
        unchanged: fn(&Object, &Object) -> bool,
        function: impl Fn(&Object) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Some(identity.into()), unchanged, Arc::new(function))
    }

    fn new(
        identity: Option<Arc<str>>,
        unchanged: fn(&Object, &Object) -> bool,
        function: Arc<Function>,
    ) -> Self {
        Self { identity, function, unchanged, limits: None, has_warned: Arc::default(), memory: None }
    }

    /// Charges the memory of the index to an account for as long as the subscriber or the store has it. Subscribers with equal functions share
    /// one index, and all of it is charged to each of their accounts, once to the same [`Arc`]. The number of bytes is an estimate that depends
    /// on the content of the index only.
    #[must_use]
    pub fn charged_to(self, memory: Arc<dyn IndexMemory>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// Returns the account, and the function without it.
    pub(super) fn split_memory(self) -> (Self, Option<Arc<dyn IndexMemory>>) {
        let memory = self.memory.clone();
        (Self { memory: None, ..self }, memory)
    }

    /// Limits the values of one object, duplicates included, and the bytes of each. The index leaves out an object that exceeds a limit,
    /// and the log names the first one.
    #[must_use]
    pub fn limited(self, values: usize, bytes: usize) -> Self {
        Self { limits: Some(Limits { values, bytes }), ..self }
    }

    /// Indexes objects by namespace. Cluster-scoped objects have no value.
    #[must_use]
    pub fn namespace() -> Self {
        Self::with_identity(
            "namespace".to_owned(),
            |_, _| true,
            |object| {
                let namespace = object.namespace();
                if namespace.is_empty() { Vec::new() } else { vec![namespace.to_owned()] }
            },
        )
    }

    /// Indexes objects by the value of a label.
    #[must_use]
    pub fn label(key: impl Into<String>) -> Self {
        let key = key.into();
        Self::with_identity(format!("label:{key}"), Object::same_labels, move |object| {
            object.label(&key).map(std::borrow::Cow::into_owned).into_iter().collect()
        })
    }

    /// Indexes objects by the value of an annotation.
    #[must_use]
    pub fn annotation(key: impl Into<String>) -> Self {
        let key = key.into();
        Self::with_identity(format!("annotation:{key}"), Object::same_annotations, move |object| {
            object.annotation(&key).map(std::borrow::Cow::into_owned).into_iter().collect()
        })
    }

    /// Indexes objects by the UIDs of their owners.
    #[must_use]
    pub fn owner_uid() -> Self {
        Self::with_identity("owner-uid".to_owned(), Object::same_owner_references, |object| {
            object.owner_references().into_iter().map(|owner| owner.uid).collect()
        })
    }

    /// Indexes objects by the scalar values at a path such as `.spec.nodeName`, `.spec.containers[*].image` or
    /// `.metadata.labels['app.kubernetes.io/name']`. Strings are indexed without quotes; objects, lists and null have no value.
    ///
    /// # Errors
    /// Errors if the path is malformed; the error says where.
    pub fn field(path: &str) -> Result<Self, JsonPathError> {
        let path = JsonPath::parse(path)?;
        Ok(Self::with_identity(format!("field:{path}"), Object::ptr_eq, move |object| path.values(object)))
    }

    /// Indexes objects by a closure. It runs for every change of every object in the informer's task, so it should take only
    /// microseconds. If it panics, the object has no value.
    #[must_use]
    pub fn computed(function: impl Fn(&Object) -> Vec<String> + Send + Sync + 'static) -> Self {
        let guarded = move |object: &Object| match catch_unwind(AssertUnwindSafe(|| function(object))) {
            Ok(values) => values,
            Err(_) => {
                tracing::error!(?object, "an index function panicked; the object has no value in that index");
                Vec::new()
            }
        };
        Self::new(None, |_, _| false, Arc::new(guarded))
    }

    /// Returns the values of one object, sorted and without duplicates.
    #[must_use]
    pub fn values(&self, object: &Object) -> Vec<String> {
        let mut values = (self.function)(object);
        if let Some(limits) = self.limits.filter(|limits| !limits.allow(&values)) {
            self.warn_once(object, limits);
            return Vec::new();
        }
        values.sort_unstable();
        values.dedup();
        values
    }

    fn warn_once(&self, object: &Object, Limits { values, bytes }: Limits) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let (kind, key) = (object.kind(), object.key());
            tracing::warn!(
                index = ?self,
                "the index leaves out the {kind} {key}, which has more than {values} values, or one of more than {bytes} bytes; the log \
                 does not name further objects"
            );
        }
    }

    /// Whether two versions of one object certainly have the same values.
    pub(super) fn is_unchanged(&self, old: &Object, new: &Object) -> bool {
        (self.unchanged)(old, new)
    }

    /// Whether both functions are known to return the same values.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        let is_same_function = Arc::ptr_eq(&self.function, &other.function)
            || (self.identity.is_some() && self.identity == other.identity);
        is_same_function && self.limits == other.limits
    }
}

impl fmt::Debug for IndexFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexFn({})", self.identity.as_deref().unwrap_or("computed"))
    }
}
