//! The syntax of Kubernetes names: object names, API groups, versions and kinds.
//!
//! The rules are those of `k8s.io/apimachinery/pkg/util/validation` and `pkg/api/validation/path`.

/// Returns whether the text is an RFC 1123 label, such as the name of a namespace.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label_text(text)
}

/// Returns whether the text is an RFC 1123 subdomain, such as an API group or the name of most objects.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_text)
}

/// Returns whether the text is an RFC 1035 label, such as a version of an API group or the plural name of a resource.
#[must_use]
pub fn is_dns_1035_label(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Returns whether the text is a kind, such as `ConfigMap`: an RFC 1035 label in any case.
#[must_use]
pub fn is_kind(text: &str) -> bool {
    text.is_ascii() && is_dns_1035_label(&text.to_ascii_lowercase())
}

/// Returns whether the text is a valid object name for at least some kinds: one segment of a URL path. RBAC objects have this rule; most
/// kinds have a narrower one, which the API server checks.
#[must_use]
pub fn is_object_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && !matches!(text, "." | "..")
        && !text.contains(|found: char| matches!(found, '/' | '%') || found.is_control())
}

/// Guesses the plural name of a kind, like `UnsafeGuessKindToResource` of apimachinery.
#[must_use]
pub fn guess_plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// Returns whether the text consists of lower-case letters, digits and `-`, with a letter or digit at both ends. Any length is allowed.
fn is_label_text(text: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    is_edge(text.bytes().next())
        && is_edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A kind in one version of an API group, whose syntax is validated: no part of it can change the meaning of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupVersionKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

/// Why an `apiVersion` or a `kind` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeNameError {
    /// The `apiVersion` is neither `VERSION` nor `GROUP/VERSION`.
    #[error("it is neither VERSION nor GROUP/VERSION, such as \"v1\" or \"apps/v1\"")]
    ApiVersion,
    /// The `kind` is malformed.
    #[error("it is not a kind, such as \"ConfigMap\": letters, digits and '-', at most 63 of them")]
    Kind,
}

impl<'a> GroupVersionKind<'a> {
    /// Parses the `apiVersion` and `kind` of a manifest.
    ///
    /// # Errors
    /// If one of them is malformed. The error says which; `apiVersion` is checked first.
    pub fn parse(api_version: &'a str, kind: &'a str) -> Result<Self, TypeNameError> {
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) if is_dns_subdomain(group) => (group, version),
            Some(_) => return Err(TypeNameError::ApiVersion),
            None => ("", api_version),
        };
        if !is_dns_1035_label(version) {
            return Err(TypeNameError::ApiVersion);
        }
        if !is_kind(kind) {
            return Err(TypeNameError::Kind);
        }
        Ok(Self { group, version, kind })
    }

    /// Returns the API group, "" for the core group.
    #[must_use]
    pub fn group(&self) -> &'a str {
        self.group
    }

    /// Returns the version inside the group.
    #[must_use]
    pub fn version(&self) -> &'a str {
        self.version
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// Returns the `apiVersion` of a manifest: `v1`, or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl TypeNameError {
    /// Returns the member of the manifest that is malformed: `apiVersion` or `kind`.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::ApiVersion => "apiVersion",
            Self::Kind => "kind",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_syntax_of_kubernetes() {
        let long = "a".repeat(64);
        for good in ["a", "kube-system", "0a", &long[1..]] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", "a/b", &long] {
            assert!(!is_dns_label(bad), "{bad}");
        }
        assert!(is_dns_subdomain("rbac.authorization.k8s.io") && is_dns_subdomain("1.2"));
        for bad in ["", ".", "a..b", "a.", "A.b", "a.b/c", &"a.".repeat(127).clone()] {
            assert!(!is_dns_subdomain(bad), "{bad}");
        }
        assert!(is_dns_1035_label("v1beta1") && !is_dns_1035_label("1v") && !is_dns_1035_label(""));
        assert!(is_kind("ConfigMap") && is_kind("HTTPRoute") && is_kind("Odd-Kind"));
        for bad in ["", "config map", "Config/Map", "1Map", "Kïnd", &long] {
            assert!(!is_kind(bad), "{bad}");
        }
    }

    #[test]
    fn an_object_name_is_one_segment_of_a_path() {
        for good in ["web", "system:controller:job", "kubeadm:get-nodes", "with space", "ä", "a?b#c"] {
            assert!(is_object_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a%2fb", "a\nb", &"a".repeat(254)] {
            assert!(!is_object_name(bad), "{bad}");
        }
    }

    #[test]
    fn an_api_version_cannot_change_the_meaning_of_a_url() {
        let read = |api_version, kind| {
            GroupVersionKind::parse(api_version, kind).map(|read| (read.group(), read.version(), read.kind()))
        };
        assert_eq!(read("v1", "Pod"), Ok(("", "v1", "Pod")));
        assert_eq!(read("apps/v1", "Deployment"), Ok(("apps", "v1", "Deployment")));
        for bad in [
            "",
            "v1/",
            "/v1",
            "v1/namespaces/x/services/y/proxy/admin",
            "../api/v1/secrets",
            "../v1",
            "apps/v1?watch=true",
            "apps/v1/deployments?watch=true",
            "apps/v1#",
            "apps%2fv1",
            "apps/..",
            "Apps/v1",
            "v1 ",
        ] {
            assert_eq!(read(bad, "Pod"), Err(TypeNameError::ApiVersion), "{bad}");
        }
        assert_eq!(read("v1", "Pod/log"), Err(TypeNameError::Kind));
    }

    #[test]
    fn plurals_are_guessed_as_kubectl_guesses_them() {
        for (kind, plural) in
            [("Policy", "policies"), ("Gateway", "gateways"), ("Ingress", "ingresses"), ("Pod", "pods")]
        {
            assert_eq!(guess_plural(kind), plural);
        }
    }
}
