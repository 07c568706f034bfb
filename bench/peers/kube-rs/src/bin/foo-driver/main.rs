//! The driver of the end-to-end benchmark: it makes the work of a sample controller, whichever that is, and times it.
//!
//!     foo-driver --kubeconfig FILE --install-crd
//!     foo-driver --kubeconfig FILE --foos N
//!
//! The first makes Foos known to the server, for controllers that don't do it themselves, and ends. The second creates N Foos,
//! scales them to 2 replicas and deletes them, and prints one line for each phase when the controller has done its part:
//! `{"phase":"created","seconds":…,"sentSeconds":…}`; sentSeconds is when the driver's own requests were done. Before that, one
//! Foo more is created and deleted, untimed, so that a controller that still starts is waited for. It fails when it finds Foos of
//! an earlier run, and when a watch breaks, since it could miss something then.

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

mod world;

use world::{Goal, Wanted, World};

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Create the CustomResourceDefinition when it is missing, and end.
    #[arg(long)]
    install_crd: bool,
    #[arg(long, default_value_t = 100)]
    foos: usize,
    /// How many requests wait for an answer at a time.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// How many seconds a phase may take.
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
        world: World::watch(&client, arguments.foos + 1).await?,
        foos: Api::namespaced(client, "default"),
        arguments,
    };
    let count = driver.arguments.foos;
    driver.warm_up(count).await?;
    driver.phase("created", 0..count, Wanted::Replicas(1), |number| driver.create(number)).await?;
    driver.phase("scaled", 0..count, Wanted::Replicas(2), |number| driver.scale(number)).await?;
    driver.phase("deleted", 0..count, Wanted::Gone, |number| driver.delete(number)).await?;
    // What still runs in the background ends with the process.
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
    world: World,
    foos: Api<Foo>,
    arguments: Arguments,
}

impl Driver {
    /// Returns when the controller has seen to a Foo from its creation to its end.
    async fn warm_up(&self, number: usize) -> Result<(), Box<dyn Error>> {
        let only = number..number + 1;
        self.run(only.clone(), Wanted::Replicas(1), |number| self.create(number)).await?;
        self.run(only, Wanted::Gone, |number| self.delete(number)).await?;
        Ok(())
    }

    async fn phase<F: Future<Output = kube::Result<()>>>(
        &self,
        name: &str,
        numbers: Range<usize>,
        wanted: Wanted,
        request: impl Fn(usize) -> F,
    ) -> Result<(), Box<dyn Error>> {
        let begin = Instant::now();
        let sent = self.run(numbers, wanted, request).await?;
        let seconds = begin.elapsed().as_secs_f64();
        let sent = sent.duration_since(begin).as_secs_f64();
        println!("{}", json!({"phase": name, "seconds": seconds, "sentSeconds": sent}));
        Ok(())
    }

    /// Sends a request for each Foo, and waits until all are as wanted. Returns when the last request was answered.
    async fn run<F: Future<Output = kube::Result<()>>>(
        &self,
        numbers: Range<usize>,
        wanted: Wanted,
        request: impl Fn(usize) -> F,
    ) -> Result<Instant, Box<dyn Error>> {
        let goal = Goal { numbers: numbers.clone(), wanted };
        let work = async {
            let reached = self.world.aim(goal);
            let requests = stream::iter(numbers).map(&request).buffer_unordered(self.arguments.concurrency);
            requests.try_collect::<()>().await?;
            let sent = Instant::now();
            reached.await?;
            Ok::<_, Box<dyn Error>>(sent)
        };
        let seconds = self.arguments.timeout;
        timeout(Duration::from_secs(seconds), work).await.map_err(|_| {
            let missing = self.world.missing();
            format!(
                "{missing} Foos were not as wanted ({wanted:?}) after {seconds} s: does the controller run?"
            )
        })?
    }

    async fn create(&self, number: usize) -> kube::Result<()> {
        let name = world::name(number);
        let foo = Foo::new(&name, FooSpec { deployment_name: name.clone(), replicas: Some(1) });
        self.foos.create(&PostParams::default(), &foo).await.map(drop)
    }

    async fn scale(&self, number: usize) -> kube::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
        self.foos.patch(&world::name(number), &PatchParams::default(), &patch).await.map(drop)
    }

    async fn delete(&self, number: usize) -> kube::Result<()> {
        self.foos.delete(&world::name(number), &DeleteParams::default()).await.map(drop)
    }
}
