//! A controller for Pilothouse.

use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::{
    Config, Context, Describe, Error, Outcome, Plugin, Reconciler, Request, Watch, WatchRef, info,
};

const CONFIG_MAPS: WatchRef<ConfigMap> = WatchRef::new("configmaps");

/// The plugin.
#[derive(Default)]
struct Controller;

impl Describe for Controller {
    fn describe(_config: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("{{name}}", env!("CARGO_PKG_VERSION")).watch(Watch::of(CONFIG_MAPS).triggers_itself()))
    }
}

impl Reconciler for Controller {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        if ctx.cache(CONFIG_MAPS).get(&request.key)?.is_some() {
            info!("hello, {}", request.key);
        }
        Ok(Outcome::Done)
    }
}

pilothouse_sdk::export!(Controller);

#[cfg(test)]
mod tests {
    //! Unit tests, which run natively against an in-memory host.

    use pilothouse_sdk::ObjectKey;
    use pilothouse_sdk::testing::Host;

    use super::*;

    #[test]
    fn a_config_map_is_logged() {
        let host = Host::<Controller>::new();
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".into());
        map.metadata.name = Some("web".into());
        host.put(&map);
        let outcome = host.reconcile(CONFIG_MAPS, &ObjectKey::new("default", "web")).unwrap();
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(host.log()[0].message, "hello, default/web");
    }
}
