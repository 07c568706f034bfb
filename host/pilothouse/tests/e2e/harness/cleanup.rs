//! Removes the objects that a test created on an external API server.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, Error};

/// The CRDs that the example plugins and the templates' tests install.
const EXAMPLE_CRDS: [&str; 6] = [
    "foos.samplecontroller.k8s.io",
    "foos.made-in-rust.example.com",
    "foos.made-in-js.example.com",
    "foos.made-in-python.example.com",
    "foos.made-in-go.example.com",
    "foos.made-in-c.example.com",
];

/// The objects to remove after a test.
#[derive(Clone)]
pub(super) struct Cleanup {
    namespace: String,
    crds: Vec<&'static str>,
}

impl Cleanup {
    /// Determines what to remove. Called before a plugin runs: a CRD that exists already is not removed.
    pub(super) async fn before_test(client: &Client, namespace: &str) -> Self {
        let mut crds = Vec::new();
        for name in EXAMPLE_CRDS {
            let found = Api::<CustomResourceDefinition>::all(client.clone()).get_opt(name).await;
            if found.expect("the server answers").is_none() {
                crds.push(name);
            }
        }
        Self { namespace: namespace.to_owned(), crds }
    }

    /// Returns whether no CRD of the example plugins existed before the test.
    pub(super) fn crds_were_absent(&self) -> bool {
        self.crds.len() == EXAMPLE_CRDS.len()
    }

    /// Removes the objects. Waits until the CRDs are gone, because the plugins of the next test watch all namespaces.
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
            let deletion = super::wait(|| async {
                let found = crds.get_opt(name).await;
                (found.is_ok_and(|found| found.is_none()).then_some(()), ())
            });
            if deletion.await.is_err() {
                super::print_uncaptured(&format!("timed out waiting for the deletion of the CRD {name}"));
            }
        }
        Ok(())
    }
}
