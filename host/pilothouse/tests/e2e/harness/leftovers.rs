//! What a test leaves on an API server that goes on after it, and its removal.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, Error};

/// The CRDs that the example plugins bring.
const BROUGHT: [&str; 1] = ["foos.samplecontroller.k8s.io"];

/// What a test will have made.
#[derive(Clone)]
pub(super) struct Leftovers {
    namespace: String,
    crds: Vec<&'static str>,
}

impl Leftovers {
    /// Asked before a plugin runs: a CRD that is there already is somebody else's, and stays.
    pub(super) async fn of_a_test(client: &Client, namespace: &str) -> Self {
        let mut crds = Vec::new();
        for name in BROUGHT {
            let found = Api::<CustomResourceDefinition>::all(client.clone()).get_opt(name).await;
            if found.expect("the server answers").is_none() {
                crds.push(name);
            }
        }
        Self { namespace: namespace.to_owned(), crds }
    }

    /// Whether the CRDs of the example plugins were absent.
    pub(super) fn has_all_crds(&self) -> bool {
        self.crds.len() == BROUGHT.len()
    }

    /// Removes them, and waits for the end of what the next test would see: its plugins watch all namespaces.
    pub(super) async fn remove(&self, client: &Client) -> Result<(), Error> {
        let options = DeleteParams::default();
        let objects = Api::<ConfigMap>::namespaced(client.clone(), &self.namespace);
        objects.delete_collection(&options, &ListParams::default()).await?;
        Api::<Namespace>::all(client.clone()).delete(&self.namespace, &options).await?;
        let crds = Api::<CustomResourceDefinition>::all(client.clone());
        for name in &self.crds {
            match crds.delete(name, &options).await {
                Ok(_) => {}
                Err(Error::Api(status)) if status.is_not_found() => continue,
                Err(error) => return Err(error),
            }
            let gone = super::wait(|| async {
                let found = crds.get_opt(name).await;
                (found.is_ok_and(|found| found.is_none()).then_some(()), ())
            });
            if gone.await.is_err() {
                super::say_loudly(&format!("the CRD {name} is being deleted and does not go"));
            }
        }
        Ok(())
    }
}
