//! Creates clients for the API server that the flags, the pod or kubectl's configuration select.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use http::{Request, StatusCode};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_controller::Clients;

use crate::CommandError;
use crate::shutdown::while_reading;

/// How long the first response of a server may take. A command that needs the server gives up afterwards.
const FIRST_RESPONSE: Duration = Duration::from_secs(5);

/// Returns a client for a kubeconfig file. Without one, uses the pod's service account, or else kubectl's default configuration.
pub(crate) async fn client(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Client, CommandError> {
    build_client(load_config(kubeconfig, context).await?)
}

/// Returns a client like [`client`], of a server that has answered it. A command that asks much of the server begins with this, so that it fails
/// early.
///
/// # Errors
/// Errors if the kubeconfig cannot be used, if the server cannot be reached, or if it refuses the credentials.
pub(crate) async fn reachable_client(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Client, CommandError> {
    let config = load_config(kubeconfig, context).await?;
    let server = server_name(&config);
    let client = build_client(config)?;
    match tokio::time::timeout(FIRST_RESPONSE, first_status(&client)).await {
        Ok(Ok(StatusCode::UNAUTHORIZED)) => Err(CommandError::Failure(format!(
            "the API server {server} refuses the credentials of the kubeconfig (401); renew the token or the certificate of its user"
        ))),
        Ok(Ok(_)) => Ok(client),
        Ok(Err(problem)) => Err(unreachable(&server, &problem)),
        Err(_) => Err(unreachable(&server, &format!("no response in {} s", FIRST_RESPONSE.as_secs()))),
    }
}

/// Returns the status with which the server answers the simplest request.
async fn first_status(client: &kube::Client) -> Result<StatusCode, String> {
    let request = Request::get("/version").body(kube::client::Body::empty());
    let response = client.send(request.map_err(|error| causes(&error))?).await;
    response.map(|response| response.status()).map_err(|error| causes(&error))
}

fn unreachable(server: &str, problem: &str) -> CommandError {
    CommandError::Failure(format!(
        "the API server {server} cannot be reached: {problem}; check --kubeconfig FILE, the URL of the server in it, and the network"
    ))
}

/// Returns a client if one was asked for: by a kubeconfig or context, or by running in a pod. Never uses kubectl's default, which may
/// be any cluster. The client's server has answered, as of [`reachable_client`].
pub(crate) async fn optional_client(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Option<kube::Client>, CommandError> {
    let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    if kubeconfig.is_none() && context.is_none() && !is_in_pod {
        return Ok(None);
    }
    reachable_client(kubeconfig, context).await.map(Some)
}

/// Returns the host's clients and the API server's `host:port`.
pub(crate) async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<(Clients, String), CommandError> {
    let config = load_config(kubeconfig, context).await?;
    let server = server_name(&config);
    Ok((Clients { requests: build_client(config.clone())?, watches: build_client(config)? }, server))
}

/// Returns the `host:port` of the server, without credentials before an `@`: it becomes a metric label and a part of errors.
fn server_name(config: &Config) -> String {
    let authority = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default().to_owned()
}

async fn load_config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, CommandError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(path) => {
            let subject = || format!("kubeconfig {}", path.display());
            let file = while_reading(|| Kubeconfig::read_from(path))
                .map_err(|error| usage_error(&subject(), &error, "give a file that kubectl can use"))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| {
                usage_error(&subject(), &error, "select one of its contexts with --context")
            })?
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await.map_err(|error| {
            usage_error("kubeconfig", &error, "select one of its contexts with --context")
        })?,
        None => match Config::incluster() {
            Ok(config) => config,
            Err(_) => Config::from_kubeconfig(&options).await.map_err(|error| {
                usage_error(
                    "no cluster found",
                    &error,
                    "run in a pod, pass --kubeconfig FILE, or use `pilothouse dev`, which needs no cluster",
                )
            })?,
        },
    };
    // The reflector and the live client decide what to retry. A retry below them would repeat a write without telling them
    // that the first attempt may have succeeded.
    config.default_retry = false;
    Ok(config)
}

fn build_client(config: Config) -> Result<kube::Client, CommandError> {
    kube::Client::try_from(config)
        .map_err(|error| usage_error("kubeconfig", &error, "check its certificates and users"))
}

/// Returns a usage error with the chain of causes on one line.
fn usage_error(subject: &str, error: &dyn Error, remedy: &str) -> CommandError {
    CommandError::Usage(format!("{subject}: {}; {remedy}", causes(error)))
}

/// Returns an error and its causes in one line. A cause that the text already has is left out.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Returns the first bytes that the client sends to a server. `cluster_options` are appended to the kubeconfig's cluster.
    async fn first_bytes(scheme: &str, cluster_options: &str) -> Vec<u8> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: []\ncontexts: [{{name: c, context: {{cluster: c}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{scheme}://127.0.0.1:{port}', insecure-skip-tls-verify: true{cluster_options}}}}}]\n"
        );
        std::fs::write(&path, text).expect("written");
        let (clients, _) = connect(Some(&path), None).await.expect("clients");
        let request =
            http::Request::get("/api/v1/pods").body(kube::client::Body::empty()).expect("a request");
        let sending = tokio::spawn(async move { clients.watches.send(request).await.map(drop) });
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut bytes = vec![0; 16 << 10];
        let length = stream.read(&mut bytes).await.expect("bytes");
        sending.abort();
        bytes.truncate(length);
        bytes
    }

    #[tokio::test]
    async fn client_uses_http_1_1_and_accepts_gzip_unless_the_kubeconfig_disables_it() {
        let request_text = async |cluster_options: &str| {
            String::from_utf8(first_bytes("http", cluster_options).await).expect("text").to_ascii_lowercase()
        };
        let request = request_text("").await;
        assert!(request.starts_with("get /api/v1/pods http/1.1\r\n"), "{request}");
        assert!(request.contains("accept-encoding: gzip\r\n"), "{request}");
        let request = request_text(", disable-compression: true").await;
        assert!(!request.contains("accept-encoding"), "{request}");
    }

    #[tokio::test]
    async fn tls_client_hello_does_not_offer_http_2() {
        let hello = first_bytes("https", "").await;
        // 22 is a TLS handshake record; its ALPN list must not contain "h2".
        assert_eq!(hello.first(), Some(&22), "{hello:?}");
        assert!(!hello.windows(3).any(|name| name == b"\x02h2"), "{hello:?}");
    }
}
