//! The custom resource of a new project. Its names replace those of the sample controller's `Foo`.

use std::collections::BTreeSet;

/// The API group of the sample controller's custom resource.
const SAMPLE_GROUP: &str = "samplecontroller.k8s.io";

/// The kind of the sample controller's custom resource.
pub(crate) const SAMPLE_KIND: &str = "Foo";

/// What the lines contain that only groups of the Kubernetes project need.
const APPROVAL: [&str; 2] = ["api-approved.kubernetes.io", "Required for groups below k8s.io"];

/// The longest kind. The name of the example object, which is also the value of a label, has the prefix `example-`.
const MAX_KIND_LENGTH: usize = 50;

/// Words that are no identifiers in one of the languages.
const KEYWORDS: &str = "abstract and as assert async auto await become bool box break case catch chan char class \
    const continue crate debugger def default defer del delete do double dyn elif else enum except export extends \
    extern fallthrough false final finally float fn for from func function gen global go goto if impl import in \
    inline instanceof int interface is lambda let long loop macro map match mod move mut new nil nonlocal not null or \
    override package pass priv pub raise range ref register restrict return select self short signed sizeof static \
    struct super switch this throw trait true try type typedef typeof union unsafe unsigned unsized use var virtual \
    void volatile where while with yield";

/// The group and kind of a custom resource.
#[derive(Debug)]
pub(crate) struct CustomResource {
    group: String,
    /// Each name of the sample's kind with the name that replaces it, the longer ones first.
    names: [(&'static str, String); 6],
}

impl CustomResource {
    /// Returns the custom resource of a group and a kind.
    ///
    /// # Errors
    /// Errors with a message for people if one of them is malformed.
    pub(crate) fn new(group: &str, kind: &str) -> Result<Self, String> {
        if !is_group(group) {
            return Err(format!(
                "{group:?} is not a valid API group; use a domain with at least one dot, such as example.com, in lower-case letters, \
                 digits and '-'"
            ));
        }
        if !is_upper_camel_case(kind) || kind.len() > MAX_KIND_LENGTH {
            return Err(format!(
                "{kind:?} is not a valid kind; use at most {MAX_KIND_LENGTH} letters and digits, and begin with an upper-case letter, as in \
                 Website"
            ));
        }
        let plural = plural(kind);
        let names = [
            ("FOOS", plural.to_ascii_uppercase()),
            ("Foos", plural.clone()),
            ("foos", plural.to_ascii_lowercase()),
            ("FOO", kind.to_ascii_uppercase()),
            ("Foo", kind.to_owned()),
            ("foo", kind.to_ascii_lowercase()),
        ];
        Ok(Self { group: group.to_owned(), names })
    }

    /// Returns each text of the sample with the text that replaces it.
    pub(super) fn replacements(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.names.iter().map(|(sample, name)| (*sample, name.as_str()));
        names.chain([(SAMPLE_GROUP, self.group.as_str())])
    }

    /// Returns the text without the lines that only groups of the Kubernetes project need, unless this is such a group.
    pub(super) fn without_approval(&self, text: &str) -> String {
        let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
            self.group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        let is_needed = |line: &&str| is_protected || !APPROVAL.iter().any(|part| line.contains(part));
        text.split_inclusive('\n').filter(is_needed).collect()
    }

    /// Returns a word of the sources that this resource would give a second meaning: `Deployment` in a controller of Deployments.
    pub(super) fn ambiguous_word<'s>(&self, sources: impl IntoIterator<Item = &'s str>) -> Option<String> {
        let words: BTreeSet<&str> = sources.into_iter().flat_map(identifiers).collect();
        let mut renamed = words.iter().filter_map(|word| {
            let (sample, name) = self.names.iter().find(|(sample, _)| word.contains(sample))?;
            Some(word.replace(sample, name)).filter(|renamed| renamed != word)
        });
        let is_keyword = |word: &str| KEYWORDS.split_ascii_whitespace().any(|keyword| keyword == word);
        renamed.find(|word| words.contains(word.as_str()) || is_keyword(word))
    }
}

/// Returns the identifiers, keywords and words of a source.
fn identifiers(source: &str) -> impl Iterator<Item = &str> {
    source.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'))
}

/// Returns whether the text is the group of a CRD: an RFC 1123 subdomain of at least two labels.
fn is_group(text: &str) -> bool {
    let is_edge = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let is_label = |label: &str| {
        label.len() <= 63
            && label.starts_with(is_edge)
            && label.ends_with(is_edge)
            && label.chars().all(|char| is_edge(char) || char == '-')
    };
    // The name of the CRD consists of the plural, a dot and the group.
    text.len() <= 180 && text.contains('.') && text.split('.').all(is_label)
}

fn is_upper_camel_case(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|char| char.is_ascii_alphanumeric())
}

/// Returns the plural of a kind. The rules are those of `kube::CustomResource`, which derives the plural in Rust projects.
fn plural(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{}ies", &kind[..kind.len() - 1]),
        _ if lower.ends_with(['s', 'x', 'z']) || lower.ends_with("ch") || lower.ends_with("sh") => {
            format!("{kind}es")
        }
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, kind: &str) -> CustomResource {
        CustomResource::new(group, kind).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn groups_are_domains_and_kinds_are_upper_camel_case() {
        for group in ["example.com", "a.b", "my-2nd.shop.example.org", "apps.k8s.io"] {
            assert!(CustomResource::new(group, "Website").is_ok(), "{group}");
        }
        for group in ["", "example", "Example.com", "a..b", ".a", "a.", "-a.b", "a_b.c", "a.b/v1", "é.com"] {
            let error = CustomResource::new(group, "Website").expect_err(group);
            assert!(error.contains("at least one dot"), "{error}");
        }
        for kind in ["A", "Website", "HTTPRoute", "Ip4"] {
            assert!(CustomResource::new("a.b", kind).is_ok(), "{kind}");
        }
        let long = "A".repeat(51);
        for kind in ["", "website", "4ip", "Web-Site", "Web_Site", "Wébsite", "Web Site", long.as_str()] {
            let error = CustomResource::new("a.b", kind).expect_err(kind);
            assert!(error.contains("upper-case"), "{error}");
        }
    }

    #[test]
    fn plurals_are_those_that_kube_derives() {
        for (kind, expected) in [
            ("Website", "Websites"),
            ("Policy", "Policies"),
            ("Gateway", "Gateways"),
            ("Redis", "Redises"),
            ("Box", "Boxes"),
            ("Quiz", "Quizes"),
            ("Patch", "Patches"),
            ("Mesh", "Meshes"),
            ("SMS", "SMSes"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn only_groups_of_kubernetes_need_an_approval() {
        let text = "before\n  // Required for groups below k8s.io; remove\n  api-approved.kubernetes.io: yes\nafter\n";
        for group in ["example.com", "notk8s.io", "k8s.io.example.com"] {
            assert_eq!(resource(group, "Foo").without_approval(text), "before\nafter\n", "{group}");
        }
        for group in ["k8s.io", "apps.k8s.io", "x.kubernetes.io"] {
            assert_eq!(resource(group, "Foo").without_approval(text), text, "{group}");
        }
    }

    #[test]
    fn a_kind_whose_names_the_source_uses_is_ambiguous() {
        let source = "struct Foo; fn new_deployment(foo: &Foo) -> Deployment; let fooKey = webKey;";
        let ambiguous = |kind: &str| resource("a.b", kind).ambiguous_word([source]);
        assert_eq!(ambiguous("Foo"), None);
        assert_eq!(ambiguous("Website"), None);
        assert_eq!(ambiguous("Deployment").as_deref(), Some("Deployment"));
        assert_eq!(ambiguous("Web").as_deref(), Some("webKey"));
        assert_eq!(ambiguous("Class").as_deref(), Some("class"));
    }
}
