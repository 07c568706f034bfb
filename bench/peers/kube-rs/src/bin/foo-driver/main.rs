//! The driver of the end-to-end benchmark: creates, scales and deletes Foos and times the sample controller that handles them.
//!
//!     foo-driver --kubeconfig FILE --install-crd
//!     foo-driver --kubeconfig FILE --foos N
//!
//! The first form installs the CustomResourceDefinition, for controllers that do not install it themselves. The second form creates N Foos,
//! scales them to 2 replicas and deletes them. It prints a line for each phase when the controller has finished it:
//! `{"phase":"created","seconds":…,"sentSeconds":…}`. `sentSeconds` is the time at which the driver's own requests were answered.
//!
//! Before the first phase, one more Foo is created and deleted without being timed, to wait until the controller has started. The driver fails
//! if there are Foos of an earlier run, and if a watch ends with an error, because it could miss a change then.

use std::error::Error;
use std::future::Future;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use kube_rs_peers::foo::{Foo, FooSpec};
use serde_json::json;
use tokio::time::{Instant, timeout};

mod watches;

use watches::{FooWatches, Goal, TargetState};

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Create the CustomResourceDefinition if it is missing, and exit.
    #[arg(long)]
    install_crd: bool,
    #[arg(long, default_value_t = 100)]
    foos: usize,
    /// The number of concurrent requests.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// The timeout of a phase in seconds.
    #[arg(long, default_value_t = 600)]
    timeout: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let client = kube_rs_peers::connect(&arguments.kubeconfig).await?;
    if arguments.install_crd {
        return install_crd(client).await;
    }
    let driver = Driver {
        watches: FooWatches::start(&client, arguments.foos + 1).await?,
        foos: Api::namespaced(client, "default"),
        arguments,
    };
    let count = driver.arguments.foos;
    driver.warm_up(count).await?;
    driver.phase("created", 0..count, TargetState::Replicas(1), |number| driver.create(number)).await?;
    driver.phase("scaled", 0..count, TargetState::Replicas(2), |number| driver.scale(number)).await?;
    driver.phase("deleted", 0..count, TargetState::Gone, |number| driver.delete(number)).await?;
    // Ends the watches.
    std::process::exit(0);
}

async fn install_crd(client: Client) -> Result<(), Box<dyn Error>> {
    let crds = Api::<CustomResourceDefinition>::all(client);
    let foo = Foo::crd();
    let name = foo.name_any();
    if crds.get_opt(&name).await?.is_none() {
        crds.create(&PostParams::default(), &foo).await?;
    }
    let established = await_condition(crds, &name, conditions::is_crd_established());
    timeout(Duration::from_secs(30), established).await??;
    Ok(())
}

struct Driver {
    watches: FooWatches,
    foos: Api<Foo>,
    arguments: Arguments,
}

impl Driver {
    /// Creates and deletes a Foo, and waits until the controller has handled both.
    async fn warm_up(&self, number: usize) -> Result<(), Box<dyn Error>> {
        let only = number..number + 1;
        self.run(only.clone(), TargetState::Replicas(1), |number| self.create(number)).await?;
        self.run(only, TargetState::Gone, |number| self.delete(number)).await?;
        Ok(())
    }

    async fn phase<F: Future<Output = kube::Result<()>>>(
        &self,
        name: &str,
        numbers: Range<usize>,
        target: TargetState,
        request: impl Fn(usize) -> F,
    ) -> Result<(), Box<dyn Error>> {
        let begin = Instant::now();
        let sent = self.run(numbers, target, request).await?;
        let seconds = begin.elapsed().as_secs_f64();
        let sent = sent.duration_since(begin).as_secs_f64();
        println!("{}", json!({"phase": name, "seconds": seconds, "sentSeconds": sent}));
        Ok(())
    }

    /// Sends a request for each Foo, and waits until all Foos have the target state. Returns the time at which the last request was answered.
    async fn run<F: Future<Output = kube::Result<()>>>(
        &self,
        numbers: Range<usize>,
        target: TargetState,
        request: impl Fn(usize) -> F,
    ) -> Result<Instant, Box<dyn Error>> {
        let goal = Goal { numbers: numbers.clone(), target };
        let work = async {
            let reached = self.watches.set_goal(goal);
            let requests = stream::iter(numbers).map(&request).buffer_unordered(self.arguments.concurrency);
            requests.try_collect::<()>().await?;
            let sent = Instant::now();
            reached.await?;
            Ok::<_, Box<dyn Error>>(sent)
        };
        let seconds = self.arguments.timeout;
        timeout(Duration::from_secs(seconds), work).await.map_err(|_| {
            let missing = self.watches.remaining();
            format!("{missing} Foos were not {target:?} after {seconds} s: does the controller run?")
        })?
    }

    async fn create(&self, number: usize) -> kube::Result<()> {
        let name = watches::name(number);
        let foo = Foo::new(&name, FooSpec { deployment_name: name.clone(), replicas: Some(1) });
        self.foos.create(&PostParams::default(), &foo).await.map(drop)
    }

    async fn scale(&self, number: usize) -> kube::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
        self.foos.patch(&watches::name(number), &PatchParams::default(), &patch).await.map(drop)
    }

    async fn delete(&self, number: usize) -> kube::Result<()> {
        self.foos.delete(&watches::name(number), &DeleteParams::default()).await.map(drop)
    }
}
