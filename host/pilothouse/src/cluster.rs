//! Which API server to talk to.

use std::path::Path;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_controller::Clients;

use crate::Failed;

/// The client of a kubeconfig file; without one, of the pod's service account, else of what kubectl would use.
pub(crate) async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<kube::Client, Failed> {
    of(config(kubeconfig, context).await?)
}

/// A host's clients, with the API server's `host:port`.
pub(crate) async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<(Clients, String), Failed> {
    let config = config(kubeconfig, context).await?;
    let authority = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    // What comes before the `@` is credentials, and no label of a metric.
    let server = authority.rsplit('@').next().unwrap_or_default().to_owned();
    Ok((Clients { requests: of(config.clone())?, watches: of(config)? }, server))
}

async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, Failed> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(path) => {
            let place = || format!("kubeconfig {}", path.display());
            let file = Kubeconfig::read_from(path)
                .map_err(|error| usage(&place(), &error, "give a file that kubectl can use"))?;
            Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(|error| usage(&place(), &error, "name one of its contexts with --context"))?
        }
        None if context.is_some() => Config::from_kubeconfig(&options)
            .await
            .map_err(|error| usage("kubeconfig", &error, "name one of its contexts with --context"))?,
        None => match Config::incluster() {
            Ok(config) => config,
            Err(_) => Config::from_kubeconfig(&options).await.map_err(|error| {
                usage(
                    "no cluster",
                    &error,
                    "run inside a pod, or give --kubeconfig FILE (or `pilothouse dev` for none)",
                )
            })?,
        },
    };
    // The reflector and the live client decide themselves what to send again: a layer below them that repeats a write
    // would hide that the first may have happened.
    config.default_retry = false;
    Ok(config)
}

fn of(config: Config) -> Result<kube::Client, Failed> {
    kube::Client::try_from(config)
        .map_err(|error| usage("kubeconfig", &error, "check its certificates and users"))
}

fn usage(place: &str, error: &dyn std::error::Error, remedy: &str) -> Failed {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    Failed::Usage(format!("{place}: {}; {remedy}", text.replace('\n', " ")))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// The first bytes that a server of this kubeconfig is sent.
    async fn sent(scheme: &str, of_cluster: &str) -> Vec<u8> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: []\ncontexts: [{{name: c, context: {{cluster: c}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{scheme}://127.0.0.1:{port}', insecure-skip-tls-verify: true{of_cluster}}}}}]\n"
        );
        std::fs::write(&path, text).expect("written");
        let (clients, _) = connect(Some(&path), None).await.expect("clients");
        let request =
            http::Request::get("/api/v1/pods").body(kube::client::Body::empty()).expect("a request");
        let asking = tokio::spawn(async move { clients.watches.send(request).await.map(drop) });
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut bytes = vec![0; 16 << 10];
        let length = stream.read(&mut bytes).await.expect("bytes");
        asking.abort();
        bytes.truncate(length);
        bytes
    }

    #[tokio::test]
    async fn http_1_1_is_spoken_and_gzip_taken_unless_the_kubeconfig_says_otherwise() {
        let text = async |of_cluster: &str| {
            String::from_utf8(sent("http", of_cluster).await).expect("text").to_ascii_lowercase()
        };
        let asked = text("").await;
        assert!(asked.starts_with("get /api/v1/pods http/1.1\r\n"), "{asked}");
        assert!(asked.contains("accept-encoding: gzip\r\n"), "{asked}");
        let asked = text(", disable-compression: true").await;
        assert!(!asked.contains("accept-encoding"), "{asked}");
    }

    #[tokio::test]
    async fn tls_offers_no_http_2() {
        let hello = sent("https", "").await;
        // A handshake, and in it no protocol of this name.
        assert_eq!(hello.first(), Some(&22), "{hello:?}");
        assert!(!hello.windows(3).any(|name| name == b"\x02h2"), "{hello:?}");
    }
}
