//! The names under which envtest starts this program. Their command lines are translated to those of `pilothouse`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Flags of kube-apiserver that change nothing here and that envtest always passes.
const EXPECTED_FLAGS: [&str; 6] = [
    "advertise-address",
    "allow-privileged",
    "etcd-servers",
    "service-account-issuer",
    "service-account-key-file",
    "service-account-signing-key-file",
];

/// Returns the command line of `pilothouse` for these arguments, of which the first is the name of the program. `selects_controllers` is
/// whether the environment says which controllers run.
pub(super) fn translate(arguments: Vec<OsString>, selects_controllers: bool) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    let rest = || arguments.iter().skip(1).filter_map(|argument| argument.to_str());
    let translated = match name {
        Some("kube-apiserver") => kube_apiserver(rest(), selects_controllers),
        Some("etcd") => etcd(rest()),
        _ => return arguments,
    };
    ["pilothouse".to_owned()].into_iter().chain(translated).map(OsString::from).collect()
}

/// Splits `--NAME=VALUE` and `--NAME`, which means `--NAME=true`.
fn split(flag: &str) -> Option<(&str, &str)> {
    let flag = flag.strip_prefix("--")?;
    Some(flag.split_once('=').unwrap_or((flag, "true")))
}

/// Returns the names in a list of admission plugins that `pilothouse apiserver` knows, and the others.
fn admission_plugins(list: &str) -> (Vec<&str>, Vec<&str>) {
    #[cfg(feature = "embedded-server")]
    let is_known = |name: &&str| name.parse::<pilothouse_apiserver::AdmissionPlugin>().is_ok();
    #[cfg(not(feature = "embedded-server"))]
    let is_known = |_: &&str| true;
    list.split(',').filter(|name| !name.is_empty()).partition(is_known)
}

/// Returns the first IPv4 network in a list of networks.
fn ipv4_range(list: &str) -> Option<&str> {
    list.split(',').find(|network| network.contains('.') && !network.contains(':'))
}

/// Returns the flags of `pilothouse apiserver` for those of kube-apiserver.
fn kube_apiserver<'a>(flags: impl Iterator<Item = &'a str>, selects_controllers: bool) -> Vec<String> {
    let flags: Vec<&str> = flags.collect();
    let mut translated = vec!["apiserver".to_owned()];
    if flags.contains(&"--help") {
        translated.push("--help".to_owned());
        return translated;
    }
    let value = |wanted: &str| {
        flags
            .iter()
            .rev()
            .filter_map(|flag| split(flag))
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    };
    let mut push = |name: &str, value: &str| translated.push(format!("--{name}={value}"));
    let (ip, port) = (value("bind-address").unwrap_or("0.0.0.0"), value("secure-port").unwrap_or("6443"));
    let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    push("listen", &format!("{ip}:{port}"));
    let folder = Path::new(value("cert-dir").unwrap_or("/var/run/kubernetes"));
    let in_folder = |name: &str| folder.join(name).display().to_string();
    push("kubeconfig-out", &in_folder("pilothouse.kubeconfig"));
    push("tls-cert-file", &value("tls-cert-file").map_or_else(|| in_folder("apiserver.crt"), str::to_owned));
    push(
        "tls-private-key-file",
        &value("tls-private-key-file").map_or_else(|| in_folder("apiserver.key"), str::to_owned),
    );
    let range = ipv4_range(value("service-cluster-ip-range").unwrap_or_default());
    if let Some(range) = range {
        push("service-cluster-ip-range", range);
    }
    if let Some(file) = value("client-ca-file") {
        push("client-ca-file", file);
    }
    let enforces_rbac =
        value("authorization-mode").is_some_and(|modes| modes.split(',').any(|mode| mode == "RBAC"));
    push("authorization", if enforces_rbac { "rbac" } else { "always-allow" });
    let (disabled, unknown) = admission_plugins(value("disable-admission-plugins").unwrap_or_default());
    let (mut enabled, unknown_enabled) =
        admission_plugins(value("enable-admission-plugins").unwrap_or_default());
    // kube-apiserver enables it by default, and envtest disables it.
    if !disabled.contains(&"ServiceAccount") && !enabled.contains(&"ServiceAccount") {
        enabled.push("ServiceAccount");
    }
    let lists = [("enable-admission-plugins", enabled), ("disable-admission-plugins", disabled)];
    for (name, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        push(name, &list.join(","));
    }
    for (name, list) in [(lists[0].0, unknown_enabled), (lists[1].0, unknown)] {
        for plugin in list {
            push("ignored-flag", &format!("--{name}={plugin}"));
        }
    }
    if let Some(all) = value("service-cluster-ip-range").filter(|all| range != Some(*all)) {
        push("ignored-flag", &format!("--service-cluster-ip-range={all}"));
    }
    if !selects_controllers {
        // envtest has none.
        push("controllers", "none");
    }
    let used = [
        "bind-address",
        "secure-port",
        "cert-dir",
        "tls-cert-file",
        "tls-private-key-file",
        "client-ca-file",
        "authorization-mode",
        "service-cluster-ip-range",
        "enable-admission-plugins",
        "disable-admission-plugins",
    ];
    for flag in &flags {
        let name = split(flag).map_or(*flag, |(name, _)| name);
        if !used.contains(&name) && !EXPECTED_FLAGS.contains(&name) {
            push("ignored-flag", flag);
        }
    }
    translated
}

/// Returns the flags of the hidden command `etcd` for those of etcd.
fn etcd<'a>(mut flags: impl Iterator<Item = &'a str>) -> Vec<String> {
    let used = flags.find_map(|flag| match split(flag) {
        Some(("listen-client-urls", urls)) => Some(format!("--listen-client-urls={urls}")),
        Some(("help", _)) => Some("--help".to_owned()),
        _ => None,
    });
    ["etcd".to_owned()].into_iter().chain(used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str, selects_controllers: bool) -> String {
        let arguments = line.split(' ').map(OsString::from).collect();
        let translated = translate(arguments, selects_controllers);
        translated.join(OsStr::new(" ")).into_string().expect("text")
    }

    #[test]
    fn flags_of_envtest_are_translated() {
        let line = "/assets/kube-apiserver --allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=/tmp/k \
                    --client-ca-file=/tmp/k/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount \
                    --etcd-servers=http://127.0.0.1:1 --secure-port=4443 --service-account-issuer=https://127.0.0.1:4443/ \
                    --service-account-key-file=/tmp/k/sa-signer.crt --service-account-signing-key-file=/tmp/k/sa-signer.key \
                    --service-cluster-ip-range=10.0.0.0/24";
        let expected = "pilothouse apiserver --listen=127.0.0.1:4443 --kubeconfig-out=/tmp/k/pilothouse.kubeconfig \
                        --tls-cert-file=/tmp/k/apiserver.crt --tls-private-key-file=/tmp/k/apiserver.key \
                        --service-cluster-ip-range=10.0.0.0/24 \
                        --client-ca-file=/tmp/k/client-cert-auth-ca.crt --authorization=rbac \
                        --disable-admission-plugins=ServiceAccount";
        assert_eq!(translated(line, false), format!("{expected} --controllers=none"));
        assert_eq!(translated(line, true), expected);
    }

    #[test]
    fn flags_without_effect_are_passed_on_to_be_reported() {
        let line = translated("kube-apiserver --v=4 --feature-gates=A=true", true);
        assert!(
            line.ends_with(
                "--authorization=always-allow --enable-admission-plugins=ServiceAccount --ignored-flag=--v=4 --ignored-flag=--feature-gates=A=true"
            ),
            "{line}"
        );
    }

    #[test]
    fn first_ipv4_network_is_the_range_of_cluster_ips() {
        let line = translated("kube-apiserver --service-cluster-ip-range=fd00::/108,10.1.0.0/16", true);
        assert!(line.contains(" --service-cluster-ip-range=10.1.0.0/16 "), "{line}");
        assert!(
            line.ends_with(" --ignored-flag=--service-cluster-ip-range=fd00::/108,10.1.0.0/16"),
            "{line}"
        );
    }

    #[cfg(feature = "embedded-server")]
    #[test]
    fn unknown_admission_plugins_are_passed_on_to_be_reported() {
        let line = translated(
            "kube-apiserver --enable-admission-plugins=NodeRestriction,PodSecurity --disable-admission-plugins=ServiceAccount,X",
            true,
        );
        let expected = "--enable-admission-plugins=PodSecurity --disable-admission-plugins=ServiceAccount \
                        --ignored-flag=--enable-admission-plugins=NodeRestriction --ignored-flag=--disable-admission-plugins=X";
        assert!(line.ends_with(expected), "{line}");
    }

    #[test]
    fn help_is_that_of_the_command() {
        assert_eq!(translated("kube-apiserver --help", false), "pilothouse apiserver --help");
        assert_eq!(translated("./etcd --help", false), "pilothouse etcd --help");
    }

    #[test]
    fn only_the_address_of_etcd_is_used() {
        let line = "etcd --data-dir=/tmp/e --listen-client-urls=http://127.0.0.1:2 --listen-peer-urls=http://127.0.0.1:3";
        assert_eq!(translated(line, false), "pilothouse etcd --listen-client-urls=http://127.0.0.1:2");
    }

    #[test]
    fn other_names_keep_their_arguments() {
        for line in ["pilothouse status", "/usr/bin/pilothouse", "ph --x"] {
            assert_eq!(translated(line, false), line);
        }
        assert_eq!(translate(Vec::new(), false), Vec::<OsString>::new());
    }
}
