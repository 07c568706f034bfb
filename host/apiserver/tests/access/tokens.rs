//! Service account tokens.

use pilothouse_apiserver::{ApiServer, User};
use serde_json::{Value, json};

use super::{MAPS, UserClient, account, rule, start, user_with_headers};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const PLUGIN: &str = "system:serviceaccount:default:plugin";

fn bearer(server: &ApiServer, token: &str) -> UserClient {
    user_with_headers(server, User::anonymous(), &[("authorization", &format!("Bearer {token}"))])
}

async fn issue(admin: &UserClient) -> String {
    let issued = admin.post(&format!("{ACCOUNTS}/plugin/token"), json!({"spec": {}})).await.expect("a token");
    issued["status"]["token"].as_str().expect("text").to_owned()
}

async fn make_account(admin: &UserClient) {
    admin.post(ACCOUNTS, json!({"metadata": {"name": "plugin"}})).await.expect("created");
}

#[tokio::test]
async fn token_is_valid_while_its_service_account_exists() {
    let (server, admin) = start();
    make_account(&admin).await;
    admin.grant("r", account("plugin"), rule("", &["configmaps"], &["list"])).await;
    let token = issue(&admin).await;
    bearer(&server, &token).get(MAPS).await.expect("granted to the account");
    assert_eq!(bearer(&server, &token).whoami().await.0, PLUGIN);
    assert_eq!(bearer(&server, "made.up.").get(MAPS).await, Err((401, "Unauthorized".into())));
    admin.delete(&format!("{ACCOUNTS}/plugin")).await.expect("deleted");
    assert_eq!(bearer(&server, &token).get(MAPS).await.expect_err("no account").0, 401);
    make_account(&admin).await;
    assert_eq!(bearer(&server, &token).get(MAPS).await.expect_err("another account").0, 401);
    bearer(&server, &issue(&admin).await).get(MAPS).await.expect("granted to the name");
}

#[tokio::test]
async fn token_review_returns_the_user_for_a_matching_audience() {
    let (_server, admin) = start();
    make_account(&admin).await;
    let token = issue(&admin).await;
    let review = async |spec: Value| {
        let answer = admin.post(REVIEWS, json!({"spec": spec})).await.expect("an answer");
        (answer["status"]["authenticated"] == true, answer["status"]["user"]["username"].clone())
    };
    assert_eq!(review(json!({"token": token})).await, (true, PLUGIN.into()));
    assert_eq!(review(json!({"token": token, "audiences": ["elsewhere"]})).await, (false, Value::Null));
    assert_eq!(review(json!({"token": "made.up."})).await, (false, Value::Null));
}
