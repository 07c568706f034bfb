//! Serves an embedded API server and writes a kubeconfig for it:
//! `cargo run -p pilothouse-apiserver --example serve -- 127.0.0.1:6444 /tmp/kubeconfig`.

use std::error::Error;
use std::path::PathBuf;

use pilothouse_apiserver::ApiServer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());
    let kubeconfig = PathBuf::from(arguments.next().unwrap_or_else(|| "kubeconfig".into()));
    let server = ApiServer::builder().faults_over_http(true).build();
    let listener = TcpListener::bind(&address).await?;
    server.write_kubeconfig(&kubeconfig, listener.local_addr()?)?;
    println!("export KUBECONFIG={}", kubeconfig.display());
    let shutdown = CancellationToken::new();
    let controllers = server.run_controllers(shutdown.clone());
    let stop = shutdown.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    });
    server.serve(listener, shutdown).await?;
    controllers.await?;
    Ok(())
}
