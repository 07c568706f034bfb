//! Impersonation headers, after `k8s.io/apiserver/pkg/endpoints/filters/impersonation.go`.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::Attributes;
use crate::request::path::decode;
use crate::status::Status;
use crate::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, account_groups, parse_account_name};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
const VERB: &str = "impersonate";

/// Returns the user that the sender impersonates, or `None` if it impersonates nobody. `authorize` errors
/// unless the sender has a right.
pub(super) fn impersonated_user(
    headers: &HeaderMap,
    sender: &User,
    authorize: impl Fn(&Attributes<'_>) -> Result<(), Status>,
) -> Result<Option<User>, Status> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let groups: Vec<&str> = headers.get_all(GROUP).iter().filter_map(|value| value.to_str().ok()).collect();
    let extra = extra(headers);
    let (name, uid) = (text(USER), text(UID));
    if name.is_empty() {
        if groups.is_empty() && extra.is_empty() && uid.is_empty() {
            return Ok(None);
        }
        let problem = format!(
            "{} requested groups {groups:?}, uid {uid:?} or extra fields without impersonating a user",
            sender.name
        );
        return Err(Status::internal(problem));
    }
    let mut user = User { name: name.to_owned(), ..User::default() };
    match parse_account_name(name) {
        Some((namespace, account)) => {
            let attributes = Attributes::resource(VERB, "", "serviceaccounts");
            authorize(&attributes.in_namespace(namespace).named(account))?;
            if groups.is_empty() {
                user.groups = account_groups(namespace);
            }
        }
        None => authorize(&Attributes::resource(VERB, "", "users").named(name))?,
    }
    for group in groups {
        authorize(&Attributes::resource(VERB, "", "groups").named(group))?;
        user.groups.push(group.to_owned());
    }
    for (key, values) in &extra {
        for value in values {
            let attributes = Attributes::resource(VERB, AUTHENTICATION, "userextras");
            authorize(&attributes.subresource(key.as_str()).named(value.as_str()))?;
        }
    }
    user.extra = extra;
    if !uid.is_empty() {
        authorize(&Attributes::resource(VERB, AUTHENTICATION, "uids").named(uid))?;
        user.uid = uid.to_owned();
    }
    add_authentication_group(&mut user);
    Ok(Some(user))
}

/// Adds the group that says whether the user is authenticated, unless the sender gave one of these groups.
fn add_authentication_group(user: &mut User) {
    let has = |name: &str| user.groups.iter().any(|group| group == name);
    let missing = match user.name.as_str() {
        ANONYMOUS => (!has(UNAUTHENTICATED)).then_some(UNAUTHENTICATED),
        _ => (!has(AUTHENTICATED) && !has(UNAUTHENTICATED)).then_some(AUTHENTICATED),
    };
    user.groups.extend(missing.map(str::to_owned));
}

/// Returns the values of `Impersonate-Extra-KEY`. Keys may be percent-encoded, and are lower case.
fn extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        if let Ok(value) = value.to_str() {
            extra.entry(decode(key)).or_default().push(value.to_owned());
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use parking_lot::Mutex;

    use super::*;

    /// Returns the user for these headers, and the rights that the sender needed.
    fn read(lines: &[(&'static str, &'static str)]) -> (Result<Option<User>, u16>, Vec<String>) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let required = Mutex::new(Vec::new());
        let user = impersonated_user(&headers, &User::admin(), |attributes| {
            required.lock().push(attributes.forbidden("x", "").message);
            Ok(())
        });
        (user.map_err(|status| status.code), required.into_inner())
    }

    #[test]
    fn service_account_gets_its_groups_unless_groups_are_given() {
        let account = ("impersonate-user", "system:serviceaccount:a:b");
        let (user, required) = read(&[account]);
        assert_eq!(user, Ok(Some(User::service_account("a", "b"))));
        assert!(required[0].contains(
            "cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"a\""
        ));
        let (user, required) = read(&[account, ("impersonate-group", "g")]);
        assert_eq!(
            user.map(|user| user.map(|user| user.groups)),
            Ok(Some(vec!["g".into(), AUTHENTICATED.into()]))
        );
        assert_eq!(required.len(), 2);
    }

    #[test]
    fn each_impersonated_attribute_needs_a_right() {
        let (user, required) = read(&[
            ("impersonate-user", "u"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.com%2fteam", "blue"),
        ]);
        let user = user.expect("a user").expect("a user");
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("u", "7"));
        assert_eq!(user.extra["example.com/team"], ["blue"]);
        assert_eq!(user.groups, [AUTHENTICATED]);
        let resources = ["\"users\"", "\"userextras/example.com/team\"", "\"uids\""];
        assert!(
            required.iter().zip(resources).all(|(line, resource)| line.contains(resource)),
            "{required:?}"
        );
    }

    #[test]
    fn anonymous_is_unauthenticated_and_groups_require_a_user_name() {
        let (user, _) = read(&[("impersonate-user", ANONYMOUS)]);
        assert_eq!(user, Ok(Some(User::anonymous())));
        assert_eq!(read(&[("impersonate-group", "g")]).0, Err(500));
        assert_eq!(read(&[]).0, Ok(None));
    }
}
