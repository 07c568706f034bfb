//! Certificates from files: that of the server, and those of clients as credentials.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pilothouse_apiserver::{ApiServer, Authorization};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A certificate and its key in PEM.
struct Pair {
    certificate: String,
    key: String,
}

/// An authority of a test.
struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl TestAuthority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "test-authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self, names: &[&str], subject: &[(DnType, &str)], usage: ExtendedKeyUsagePurpose) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        for (part, value) in subject {
            params.distinguished_name.push(part.clone(), *value);
        }
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    /// Returns the credentials of a user in a group.
    fn client(&self, name: &str, group: &str) -> Pair {
        let subject = [(DnType::CommonName, name), (DnType::OrganizationName, group)];
        self.sign(&[], &subject, ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// Starts a server with certificates of this authority and returns its kubeconfig.
async fn start(authority: &TestAuthority) -> Value {
    let serving = authority.sign(&["127.0.0.1"], &[], ExtendedKeyUsagePurpose::ServerAuth);
    let chain = format!("{}{}", serving.certificate, authority.pem);
    let builder = ApiServer::builder().authorization(Authorization::Rbac);
    let builder = builder.serving_certificate(&chain, &serving.key).expect("a certificate");
    let server = builder.client_authority(&authority.pem).expect("an authority").build();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let kubeconfig = server.kubeconfig(address).expect("a kubeconfig");
    tokio::spawn(async move { server.serve(listener, CancellationToken::new()).await.is_ok() });
    serde_json::from_str(&kubeconfig).expect("JSON")
}

async fn client_of(kubeconfig: &Value) -> Client {
    let file = Kubeconfig::from_yaml(&kubeconfig.to_string()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a context")).expect("a client")
}

/// Returns the status code and the user of a SelfSubjectReview, with these credentials in place of those of the kubeconfig.
async fn who_am_i(kubeconfig: &Value, credentials: Option<&Pair>) -> Result<Value, kube::Error> {
    let mut kubeconfig = kubeconfig.clone();
    if let Some(Pair { certificate, key }) = credentials {
        let base64 = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
        kubeconfig["users"][0]["user"] =
            json!({"client-certificate-data": base64(certificate), "client-key-data": base64(key)});
    }
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .expect("a request");
    client_of(&kubeconfig)
        .await
        .request::<Value>(request)
        .await
        .map(|answer| answer["status"]["userInfo"].clone())
}

#[tokio::test]
async fn client_certificate_names_the_user_and_the_group() {
    let authority = TestAuthority::new();
    let kubeconfig = start(&authority).await;
    let user = who_am_i(&kubeconfig, Some(&authority.client("jane", "developers"))).await.expect("an answer");
    assert_eq!(user["username"], "jane");
    assert_eq!(user["groups"], json!(["developers", "system:authenticated"]));
}

#[tokio::test]
async fn token_of_the_kubeconfig_works_beside_certificates() {
    let kubeconfig = start(&TestAuthority::new()).await;
    let user = who_am_i(&kubeconfig, None).await.expect("an answer");
    assert_eq!(user["username"], "system:admin");
}

#[tokio::test]
async fn certificate_without_a_common_name_gets_401() {
    let authority = TestAuthority::new();
    let kubeconfig = start(&authority).await;
    let subject = [(DnType::CommonName, ""), (DnType::OrganizationName, "system:masters")];
    let nameless = authority.sign(&[], &subject, ExtendedKeyUsagePurpose::ClientAuth);
    let refused = who_am_i(&kubeconfig, Some(&nameless)).await;
    assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 401), "{refused:?}");
}

#[tokio::test]
async fn certificate_of_another_authority_is_refused() {
    let authority = TestAuthority::new();
    let kubeconfig = start(&authority).await;
    let foreign = TestAuthority::new().client("jane", "system:masters");
    let refused = who_am_i(&kubeconfig, Some(&foreign)).await;
    assert!(refused.is_err() && !matches!(refused, Err(kube::Error::Api(_))), "{refused:?}");
}

#[tokio::test]
async fn signed_request_gives_credentials() {
    let server = ApiServer::builder().authorization(Authorization::Rbac).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let kubeconfig = serde_json::from_str(&server.kubeconfig(address).expect("a kubeconfig")).expect("JSON");
    let _controllers = server.run_controllers(CancellationToken::new());
    tokio::spawn(async move { server.serve(listener, CancellationToken::new()).await.is_ok() });

    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, "jane");
    let pem = params.serialize_request(&key).expect("a request").pem().expect("PEM");
    let request = json!({
        "metadata": {"name": "jane"},
        "spec": {
            "request": ByteString(pem.into_bytes()), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    });
    let request: CertificateSigningRequest = serde_json::from_value(request).expect("a request");
    let requests: Api<CertificateSigningRequest> = Api::all(client_of(&kubeconfig).await);
    let created = requests.create(&PostParams::default(), &request).await.expect("created");
    let mut approved = serde_json::to_value(created).expect("JSON");
    approved["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True", "reason": "Test", "message": "approved"}]);
    let put = http::Request::put("/apis/certificates.k8s.io/v1/certificatesigningrequests/jane/approval");
    let put = put.header("content-type", "application/json").body(approved.to_string().into_bytes());
    client_of(&kubeconfig).await.request::<Value>(put.expect("a request")).await.expect("approved");

    let mut events = requests.watch(&WatchParams::default(), "0").await.expect("a watch").boxed();
    let certificate = loop {
        let event = events.try_next().await.expect("no error").expect("an event");
        let (WatchEvent::Added(found) | WatchEvent::Modified(found)) = event else { panic!("{event:?}") };
        if let Some(certificate) = found.status.and_then(|status| status.certificate) {
            break certificate;
        }
    };
    let certificate = String::from_utf8(certificate.0).expect("text");
    let user = who_am_i(&kubeconfig, Some(&Pair { certificate, key: key.serialize_pem() })).await;
    assert_eq!(user.expect("an answer")["username"], "jane");
}
