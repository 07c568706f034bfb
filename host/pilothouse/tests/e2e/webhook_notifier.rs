//! HTTP requests of a plugin: to granted hosts only, and within their limits.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::harness::{Guest, Host};

/// A webhook on the loopback address: what it is sent, and where it is.
struct Webhook {
    port: u16,
    requests: mpsc::UnboundedReceiver<String>,
}

/// How a webhook behaves once it has the whole request.
#[derive(Clone)]
enum Behaviour {
    Answers(String),
    /// Nothing comes.
    IsSilent,
    /// A body without end.
    Pours,
}

impl Webhook {
    async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (told, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, behaviour.clone(), told.clone()));
            }
        });
        Self { port, requests }
    }

    async fn answering(answer: &str) -> Self {
        Self::start(Behaviour::Answers(answer.to_owned())).await
    }

    fn url(&self) -> String {
        format!("http://localhost:{}/hook?key=secret", self.port)
    }

    fn grant(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    fn was_asked(&mut self) -> bool {
        self.requests.try_recv().is_ok()
    }
}

async fn answer(mut stream: TcpStream, behaviour: Behaviour, told: mpsc::UnboundedSender<String>) {
    let mut request = Vec::new();
    while !is_complete(&request) {
        match stream.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let _ = told.send(String::from_utf8_lossy(&request).into_owned());
    // A client that has seen enough closes, and then writing fails.
    match behaviour {
        Behaviour::Answers(answer) => drop(stream.write_all(answer.as_bytes()).await),
        Behaviour::IsSilent => {}
        Behaviour::Pours => {
            let mut text: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
            while stream.write_all(text).await.is_ok() {
                text = &[b'x'; 4096];
            }
        }
    }
    let _ = stream.read_to_end(&mut request).await;
}

/// Head and body are there, by the length that the head announces.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| body.len() >= length)
}

async fn tell(host: &Host, name: &str, url: &str) {
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

async fn wait_until_says(host: &Host, part: &str) {
    host.wait(&format!("a line with {part:?}"), || async {
        host.said("webhook-notifier").await.iter().any(|line| line.contains(part)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_reaches_granted_hosts_within_its_limits_and_no_other() {
    let host = Host::start().await;
    let moved =
        |to: &Webhook| format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", to.url());
    let mut good = Webhook::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut ungranted = Webhook::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut redirecting = Webhook::answering(&moved(&ungranted)).await;
    let silent = Webhook::start(Behaviour::IsSilent).await;
    let pouring = Webhook::start(Behaviour::Pours).await;
    let grants = [good.grant(), redirecting.grant(), silent.grant(), pouring.grant()];
    let sidecar = json!({"workers": 8, "limits": {"httpBody": "64Ki"}, "grants": {"http": grants}});
    host.sidecar("webhook-notifier", &sidecar.to_string());
    host.drop_in("webhook-notifier", &Guest::WebhookNotifier.wasm());
    host.wait_for_state("webhook-notifier", "running").await;

    tell(&host, "silent", &silent.url()).await;
    tell(&host, "good", &good.url()).await;
    tell(&host, "ungranted", &ungranted.url()).await;
    tell(&host, "encrypted", &good.url().replace("http:", "https:")).await;
    tell(&host, "moved", &redirecting.url()).await;
    tell(&host, "pouring", &pouring.url()).await;

    wait_until_delivered(&host, "good").await;
    let request = good.requests.recv().await.expect("a request");
    let (head, body) = request.split_once("\r\n\r\n").expect("head and body");
    assert!(head.starts_with("POST /hook?key=secret HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: localhost:{}", good.port)), "{head}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["name"], &body["data"]["name"]), (&json!("good"), &json!("good")));

    let proposed = ungranted.grant();
    wait_until_says(&host, &format!("add \"{proposed}\" to its grants.http")).await;
    wait_until_says(&host, &format!("add \"localhost:{}\" to its grants.http", good.port)).await;
    wait_until_says(&host, "exceeded limits.httpBody of 65536 bytes").await;
    wait_until_says(&host, "waited 5s for the response").await;
    host.wait("the redirect to arrive", || async {
        let (_, metrics) = host.get("/metrics").await;
        metrics
            .contains(r#"pilothouse_http_requests_total{controller="webhook-notifier",result="3xx"}"#)
            .then_some(())
    })
    .await;
    assert!(redirecting.was_asked() && !ungranted.was_asked());
    assert!(!host.log().contains("key=secret"), "{}", host.log());

    let counted = |metrics: &str, result: &str| {
        let start =
            format!(r#"pilothouse_http_requests_total{{controller="webhook-notifier",result="{result}"}} "#);
        let count = metrics.lines().find_map(|line| line.strip_prefix(&start));
        count.map_or(0, |count| count.parse::<u64>().expect("a count"))
    };
    // What went wrong is said first and counted then.
    let metrics = host
        .wait("everything to be counted", || async {
            let (_, metrics) = host.get("/metrics").await;
            let least = [("2xx", 1), ("denied", 2), ("limit", 1), ("timeout", 1)];
            least.iter().all(|(result, least)| counted(&metrics, result) >= *least).then_some(metrics)
        })
        .await;
    // Denials are terminal, so that there is one of each; the others are tried again.
    assert_eq!((counted(&metrics, "2xx"), counted(&metrics, "denied")), (1, 2), "{metrics}");

    // If it was too slow with an answer, it was asked once more.
    while good.was_asked() {}
    // A grant that comes later is enough: everything is looked at again.
    let sidecar = json!({"grants": {"http": [good.grant(), ungranted.grant()]}});
    host.sidecar("webhook-notifier", &sidecar.to_string());
    wait_until_delivered(&host, "ungranted").await;
    assert!(ungranted.was_asked() && !good.was_asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_a_grant_loads_and_check_says_what_it_lacks() {
    let host = Host::start().await;
    let mut webhook = Webhook::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    host.drop_in("webhook-notifier", &Guest::WebhookNotifier.wasm());
    host.wait_for_state("webhook-notifier", "running").await;
    tell(&host, "lonely", &webhook.url()).await;
    wait_until_says(&host, "the sidecar does not grant that host").await;
    assert!(!webhook.was_asked());
    let file = host.plugins().join("webhook-notifier.wasm");
    let output = crate::harness::binary().arg("check").arg(file).output().expect("check runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("the sidecar grants no host"), "{text}");
}
