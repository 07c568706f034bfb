//! The example `webhook-notifier`: HTTP requests reach only granted hosts and stay within the limits.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::harness::{Guest, Host};

/// A webhook server on the loopback address.
struct Webhook {
    port: u16,
    requests: mpsc::UnboundedReceiver<String>,
}

/// How a webhook responds to a complete request.
#[derive(Clone)]
enum Behaviour {
    /// Sends this response.
    Responds(String),
    /// Sends nothing.
    Hangs,
    /// Sends an endless body.
    SendsEndlessBody,
}

impl Webhook {
    async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(respond(stream, behaviour.clone(), sender.clone()));
            }
        });
        Self { port, requests }
    }

    async fn responding(response: &str) -> Self {
        Self::start(Behaviour::Responds(response.to_owned())).await
    }

    fn url(&self) -> String {
        format!("http://localhost:{}/hook?key=secret", self.port)
    }

    fn grant(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// Returns whether there is another request. Removes it.
    fn received_request(&mut self) -> bool {
        self.requests.try_recv().is_ok()
    }
}

async fn respond(mut stream: TcpStream, behaviour: Behaviour, sender: mpsc::UnboundedSender<String>) {
    let mut request = Vec::new();
    while !is_complete(&request) {
        match stream.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
    // Writing fails once the client has closed the connection.
    match behaviour {
        Behaviour::Responds(response) => drop(stream.write_all(response.as_bytes()).await),
        Behaviour::Hangs => {}
        Behaviour::SendsEndlessBody => {
            let mut text: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
            while stream.write_all(text).await.is_ok() {
                text = &[b'x'; 4096];
            }
        }
    }
    let _ = stream.read_to_end(&mut request).await;
}

/// Returns whether the head and, by its content-length, the body are complete.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| body.len() >= length)
}

/// Creates a ConfigMap for which the plugin sends a notification to `url`.
async fn create_notification(host: &Host, name: &str, url: &str) {
    let manifest = json!({
        "metadata": {
            "name": name,
            "labels": {"webhook.example.com/notify": "true"},
            "annotations": {"webhook.example.com/url": url},
        },
        "data": {"name": name},
    });
    let configmap: ConfigMap = serde_json::from_value(manifest).expect("a ConfigMap");
    let all = Api::<ConfigMap>::namespaced(host.server.client.clone(), &host.server.namespace);
    all.create(&PostParams::default(), &configmap).await.expect("created");
}

async fn wait_until_delivered(host: &Host, name: &str) {
    let all = Api::<ConfigMap>::namespaced(host.server.client.clone(), &host.server.namespace);
    host.wait(&format!("{name} to be delivered"), || async {
        let configmap = all.get_opt(name).await.expect("answered")?;
        configmap.metadata.annotations?.contains_key("webhook.example.com/delivered").then_some(())
    })
    .await;
}

async fn wait_for_log(host: &Host, part: &str) {
    host.wait(&format!("a log line that contains {part:?}"), || async {
        host.log_messages("webhook-notifier").await.iter().any(|line| line.contains(part)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_requests_reach_only_granted_hosts_within_the_limits() {
    let host = Host::start().await;
    let redirect_to =
        |to: &Webhook| format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", to.url());
    let mut good = Webhook::responding("HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut ungranted = Webhook::responding("HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut redirecting = Webhook::responding(&redirect_to(&ungranted)).await;
    let hanging = Webhook::start(Behaviour::Hangs).await;
    let endless = Webhook::start(Behaviour::SendsEndlessBody).await;
    let grants = [good.grant(), redirecting.grant(), hanging.grant(), endless.grant()];
    let sidecar = json!({"workers": 8, "limits": {"httpBody": "64Ki"}, "grants": {"http": grants}});
    host.write_sidecar("webhook-notifier", &sidecar.to_string());
    host.install_plugin("webhook-notifier", &Guest::WebhookNotifier.wasm());
    host.wait_for_state("webhook-notifier", "running").await;

    create_notification(&host, "hanging", &hanging.url()).await;
    create_notification(&host, "good", &good.url()).await;
    create_notification(&host, "ungranted", &ungranted.url()).await;
    create_notification(&host, "encrypted", &good.url().replace("http:", "https:")).await;
    create_notification(&host, "moved", &redirecting.url()).await;
    create_notification(&host, "endless", &endless.url()).await;

    wait_until_delivered(&host, "good").await;
    let request = good.requests.recv().await.expect("a request");
    let (head, body) = request.split_once("\r\n\r\n").expect("head and body");
    assert!(head.starts_with("POST /hook?key=secret HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: localhost:{}", good.port)), "{head}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["name"], &body["data"]["name"]), (&json!("good"), &json!("good")));

    let suggestion = ungranted.grant();
    wait_for_log(&host, &format!("add \"{suggestion}\" to its grants.http")).await;
    wait_for_log(&host, &format!("add \"localhost:{}\" to its grants.http", good.port)).await;
    wait_for_log(&host, "exceeded limits.httpBody of 65536 bytes").await;
    wait_for_log(&host, "waited 5s for the response").await;
    host.wait("the redirect to arrive", || async {
        let (_, metrics) = host.get("/metrics").await;
        metrics
            .contains(r#"pilothouse_http_requests_total{controller="webhook-notifier",result="3xx"}"#)
            .then_some(())
    })
    .await;
    assert!(redirecting.received_request() && !ungranted.received_request());
    assert!(!host.log().contains("key=secret"), "{}", host.log());

    let request_count = |metrics: &str, result: &str| {
        let start =
            format!(r#"pilothouse_http_requests_total{{controller="webhook-notifier",result="{result}"}} "#);
        let count = metrics.lines().find_map(|line| line.strip_prefix(&start));
        count.map_or(0, |count| count.parse::<u64>().expect("a count"))
    };
    // Errors are logged before they are counted.
    let metrics = host
        .wait("everything to be counted", || async {
            let (_, metrics) = host.get("/metrics").await;
            let minimums = [("2xx", 1), ("denied", 2), ("limit", 1), ("timeout", 1)];
            minimums
                .iter()
                .all(|(result, minimum)| request_count(&metrics, result) >= *minimum)
                .then_some(metrics)
        })
        .await;
    // Denials are terminal, so each occurs once. The others are retried.
    assert_eq!((request_count(&metrics, "2xx"), request_count(&metrics, "denied")), (1, 2), "{metrics}");

    // Drains retries, which occur if a response was too slow.
    while good.received_request() {}
    // A new grant reloads the plugin, which reconciles all objects again.
    let sidecar = json!({"grants": {"http": [good.grant(), ungranted.grant()]}});
    host.write_sidecar("webhook-notifier", &sidecar.to_string());
    wait_until_delivered(&host, "ungranted").await;
    assert!(ungranted.received_request() && !good.received_request());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_an_http_grant_loads_and_check_warns() {
    let host = Host::start().await;
    let mut webhook = Webhook::responding("HTTP/1.1 204 No Content\r\n\r\n").await;
    host.install_plugin("webhook-notifier", &Guest::WebhookNotifier.wasm());
    host.wait_for_state("webhook-notifier", "running").await;
    create_notification(&host, "lonely", &webhook.url()).await;
    wait_for_log(&host, "the sidecar does not grant that host").await;
    assert!(!webhook.received_request());
    let file = host.plugins().join("webhook-notifier.wasm");
    let output = crate::harness::binary().arg("check").arg(file).output().expect("check runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("the sidecar grants no host"), "{text}");
}
