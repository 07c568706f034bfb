//! The commands that run the embedded API server, also in envtest, and the flags that `dev` shares with them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use pilothouse_apiserver::{AdmissionPlugin, ClusterIpRange, Controllers};

use super::{AllowedHosts, listen_address};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Authorization {
    /// Allow every request.
    AlwaysAllow,
    /// Evaluate RBAC roles and bindings, as a cluster does.
    Rbac,
}

#[derive(Debug, Args)]
pub(crate) struct Apiserver {
    /// Address to listen on; port 0 selects a free port.
    #[arg(
        long,
        env = "PILOTHOUSE_LISTEN",
        default_value = "127.0.0.1:0",
        value_name = "ADDR",
        value_parser = listen_address::parse
    )]
    pub(crate) listen: SocketAddr,
    /// Write a kubeconfig for the embedded API server to this file.
    #[arg(
        long,
        env = "PILOTHOUSE_KUBECONFIG_OUT",
        default_value = ".pilothouse/kubeconfig",
        value_name = "FILE"
    )]
    pub(crate) kubeconfig_out: PathBuf,
    /// Authorization mode of the embedded API server.
    #[arg(long, env = "PILOTHOUSE_AUTHORIZATION", value_enum, default_value = "always-allow")]
    pub(crate) authorization: Authorization,
    /// Serve the API over plain HTTP instead of TLS. With always-allow, clients need no credentials either.
    #[arg(long, env = "PILOTHOUSE_INSECURE_HTTP")]
    pub(crate) insecure_http: bool,
    #[command(flatten)]
    pub(crate) version: KubernetesVersion,
    #[command(flatten)]
    pub(crate) hosts: AllowedHosts,
    #[command(flatten)]
    pub(crate) controllers: ControllerFlags,
    #[command(flatten)]
    pub(crate) webhooks: Webhooks,
    #[command(flatten)]
    pub(crate) admission: AdmissionFlags,
    /// IPv4 network from which Services get their cluster IPs, of 12 to 29 bits.
    #[arg(
        long,
        env = "PILOTHOUSE_SERVICE_CLUSTER_IP_RANGE",
        default_value = "10.96.0.0/12",
        value_name = "CIDR"
    )]
    pub(crate) service_cluster_ip_range: ClusterIpRange,
    #[command(flatten)]
    pub(crate) data: DataAndFaults,
    #[command(flatten)]
    pub(crate) certificates: CertificateFiles,
    /// A flag of kube-apiserver that has no effect (passed when envtest starts this program).
    #[arg(long, hide = true, value_name = "FLAG")]
    pub(crate) ignored_flag: Vec<String>,
}

/// The certificates of the embedded API server that are read from files.
#[derive(Debug, Default, Args)]
pub(crate) struct CertificateFiles {
    /// Serve with the certificate in this file (PEM), followed by those of its authorities, instead of a new one.
    #[arg(
        long,
        env = "PILOTHOUSE_TLS_CERT_FILE",
        value_name = "FILE",
        requires = "tls_private_key_file",
        conflicts_with = "insecure_http"
    )]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// File with the key of --tls-cert-file (PEM).
    #[arg(long, env = "PILOTHOUSE_TLS_PRIVATE_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Accept client certificates of the authority in this file (PEM) as credentials: the common name is the user, the organizations are the
    /// groups.
    #[arg(long, env = "PILOTHOUSE_CLIENT_CA_FILE", value_name = "FILE", conflicts_with = "insecure_http")]
    pub(crate) client_ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Envtest {
    /// Directory for the links. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Etcd {
    /// URL to serve /health at.
    #[arg(long, value_name = "URL", value_parser = parse_client_url)]
    pub(crate) listen_client_urls: SocketAddr,
}

/// Returns the address of the first of some URLs, which are separated by commas.
fn parse_client_url(urls: &str) -> Result<SocketAddr, String> {
    let first = urls.split(',').next().unwrap_or_default();
    let address = first.strip_prefix("http://").ok_or("expected a URL that begins with http://")?;
    listen_address::parse(address.trim_end_matches('/'))
}

/// The version that the embedded API server reports.
#[derive(Debug, Args)]
pub(crate) struct KubernetesVersion {
    /// Kubernetes version that the embedded API server reports, such as 1.36. Its behaviour stays the same.
    #[arg(
        long,
        env = "PILOTHOUSE_KUBERNETES_VERSION",
        default_value = "1.36",
        value_name = "VERSION",
        value_parser = parse_minor_version
    )]
    pub(crate) kubernetes_version: u16,
}

/// Returns the minor version of a version such as `1.36`.
fn parse_minor_version(text: &str) -> Result<u16, String> {
    let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
    minor.ok_or_else(|| "expected a version such as 1.36".to_owned())
}

/// The flags of the built-in controllers.
#[derive(Debug, Args)]
pub(crate) struct ControllerFlags {
    /// Built-in controllers to run: `default`, `none`, or names separated by commas. `*,-NAME` leaves one out.
    #[arg(long, env = "PILOTHOUSE_CONTROLLERS", default_value = "default", value_name = "LIST")]
    pub(crate) controllers: Controllers,
    /// File with stages: how Pods and other objects change, and when, instead of becoming ready at once.
    #[arg(long, env = "PILOTHOUSE_STAGES", value_name = "FILE")]
    pub(crate) stages: Option<PathBuf>,
}

/// The built-in admission plugins of the embedded API server.
#[derive(Debug, Default, Args)]
pub(crate) struct AdmissionFlags {
    /// Admission plugins to enable in the embedded API server, separated by commas. All are enabled by default, except `ServiceAccount`.
    #[arg(long, env = "PILOTHOUSE_ENABLE_ADMISSION_PLUGINS", value_name = "LIST", value_delimiter = ',')]
    pub(crate) enable_admission_plugins: Vec<AdmissionPlugin>,
    /// Admission plugins to disable in the embedded API server, separated by commas.
    #[arg(long, env = "PILOTHOUSE_DISABLE_ADMISSION_PLUGINS", value_name = "LIST", value_delimiter = ',')]
    pub(crate) disable_admission_plugins: Vec<AdmissionPlugin>,
}

/// Whether the embedded API server calls webhooks.
#[derive(Debug, Args)]
pub(crate) struct Webhooks {
    /// Call the admission and conversion webhooks that are configured in the embedded API server, at the URLs that its users chose.
    #[arg(
        long,
        env = "PILOTHOUSE_WEBHOOKS",
        value_name = "true|false",
        default_value_t = true,
        action = ArgAction::Set
    )]
    pub(crate) webhooks: bool,
}

/// What the embedded API server keeps on disk, and what tests may do to it over HTTP.
#[derive(Debug, Args)]
pub(crate) struct DataAndFaults {
    /// Keep the objects of the embedded API server in this directory; by default, they are lost when the process ends.
    #[arg(long, env = "PILOTHOUSE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Append an event for each request to the embedded API server to this file, in the format of kube-apiserver's audit log.
    #[arg(long, env = "PILOTHOUSE_AUDIT_LOG", value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Serve /debug/faults, with which tests make requests to the embedded API server fail, and /debug/snapshot.
    #[arg(long, env = "PILOTHOUSE_ENABLE_FAULTS", alias = "test-faults")]
    pub(crate) enable_faults: bool,
    /// Serve /debug/snapshot, with which tests save and restore all objects of the embedded API server.
    #[arg(long, env = "PILOTHOUSE_ENABLE_SNAPSHOTS")]
    pub(crate) enable_snapshots: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_the_first_client_url_is_used() {
        let expected: Result<SocketAddr, String> = Ok("127.0.0.1:2379".parse().expect("an address"));
        assert_eq!(parse_client_url("http://127.0.0.1:2379"), expected);
        assert_eq!(parse_client_url("http://127.0.0.1:2379/,http://10.0.0.1:1"), expected);
        assert!(parse_client_url("https://127.0.0.1:2379").is_err());
        assert!(parse_client_url("").is_err());
    }
}
