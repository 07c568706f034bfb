//! The workloads: what all Pods of one owner have in common.

use super::random::Random;

/// A container of a workload's Pod template.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: &'static str,
    pub(super) image: String,
    pub(super) port: Option<u16>,
    pub(super) env: Vec<(String, String)>,
    /// The index in [`CPU`].
    pub(super) cpu: usize,
    pub(super) memory: &'static str,
    pub(super) has_probe: bool,
    /// The name of a mounted ConfigMap.
    pub(super) config: Option<String>,
}

/// A Pod template and its owner.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) hash: String,
    pub(super) owner_uid: String,
    pub(super) is_daemon_set: bool,
    pub(super) containers: Vec<Container>,
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) annotations: Vec<(&'static str, String)>,
    pub(super) service_account: String,
    pub(super) has_token_volume: bool,
    pub(super) node_pool: Option<&'static str>,
}

/// The CPU requests that a container may have. An in-place resize selects another one.
pub(super) const CPU: [&str; 5] = ["50m", "100m", "250m", "1", "1500m"];

const WORDS: [&str; 20] = [
    "checkout",
    "payments",
    "search",
    "catalog",
    "web",
    "ingest",
    "billing",
    "auth",
    "reports",
    "media",
    "inventory",
    "pricing",
    "notifications",
    "sessions",
    "profiles",
    "orders",
    "shipping",
    "metrics",
    "audit",
    "recommendations",
];
const ROLES: [&str; 20] = [
    "api",
    "worker",
    "frontend",
    "cache",
    "gateway",
    "scheduler",
    "consumer",
    "exporter",
    "proxy",
    "indexer",
    "importer",
    "syncer",
    "broker",
    "relay",
    "resolver",
    "backend",
    "mailer",
    "janitor",
    "planner",
    "store",
];
const SETTINGS: [(&str, &str); 14] = [
    ("LOG_LEVEL", "info"),
    ("DATABASE_HOST", "postgres-primary.databases.svc.cluster.local"),
    ("DATABASE_PORT", "5432"),
    ("REDIS_URL", "redis://redis-master.cache.svc.cluster.local:6379/0"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel-collector.observability:4317"),
    ("FEATURE_FLAGS", "new-basket,fast-path,\"beta\""),
    ("GOMAXPROCS", "2"),
    ("HTTP_TIMEOUT_SECONDS", "30"),
    ("KAFKA_BROKERS", "kafka-0.kafka:9092,kafka-1.kafka:9092,kafka-2.kafka:9092"),
    ("REGION", "eu-central-1"),
    ("CACHE_TTL", "300s"),
    ("MAX_CONNECTIONS", "64"),
    ("SENTRY_ENVIRONMENT", "production"),
    ("ALLOWED_ORIGINS", "https://shop.example.com,https://admin.example.com"),
];

impl Workload {
    pub(super) fn generate(number: usize, random: &mut Random) -> Self {
        let name = format!("{}-{}", WORDS[number % 20], ROLES[number / 20 % 20]);
        let is_daemon_set = random.percent(10);
        let hash = format!("{:x}", random.next() >> 26);
        let mut labels = vec![("app.kubernetes.io/name", name.clone())];
        if random.percent(50) {
            labels.push(("app.kubernetes.io/instance", name.clone()));
        }
        labels.push(if is_daemon_set {
            ("controller-revision-hash", hash.clone())
        } else {
            ("pod-template-hash", hash.clone())
        });
        if random.percent(40) {
            labels.push(("team", format!("team-{}", number % 23)));
        }
        let mut annotations = Vec::new();
        if random.percent(40) {
            let sum: String = (0..4).map(|_| format!("{:016x}", random.next())).collect();
            annotations.push(("checksum/config", sum));
        }
        if random.percent(30) {
            annotations.push(("prometheus.io/port", "9090".to_owned()));
            annotations.push(("prometheus.io/scrape", "true".to_owned()));
        }
        let mut containers = vec![Container::generate("app", &name, random)];
        if random.percent(8) {
            containers.push(Container::generate("sidecar", "log-shipper", random));
        }
        Self {
            namespace: format!("team-{}", number % 40),
            hash,
            owner_uid: uid(random),
            is_daemon_set,
            containers,
            labels,
            annotations,
            service_account: if random.percent(40) { name.clone() } else { "default".to_owned() },
            has_token_volume: random.percent(6),
            node_pool: random.percent(25).then(|| random.pick(&["general", "compute-optimised", "spot"])),
            name,
        }
    }

    /// Returns the prefix of the Pods' names.
    pub(super) fn generate_name(&self) -> String {
        if self.is_daemon_set { format!("{}-", self.name) } else { format!("{}-{}-", self.name, self.hash) }
    }

    /// Returns the owner's kind and name.
    pub(super) fn owner(&self) -> (&'static str, String) {
        if self.is_daemon_set {
            ("DaemonSet", self.name.clone())
        } else {
            ("ReplicaSet", format!("{}-{}", self.name, self.hash))
        }
    }
}

impl Container {
    fn generate(name: &'static str, image: &str, random: &mut Random) -> Self {
        let env = if name == "app" { random.below(3) } else { 1 };
        let first = random.below(SETTINGS.len());
        let env = (first..first + env).map(|at| {
            let (name, value) = SETTINGS[at % SETTINGS.len()];
            (name.to_owned(), value.to_owned())
        });
        Self {
            name,
            image: format!("registry.example.com/{image}"),
            port: (name == "app").then(|| random.pick(&[8080, 8443, 3000, 9000])),
            env: env.collect(),
            cpu: random.below(CPU.len()),
            memory: random.pick(&["64Mi", "128Mi", "512Mi", "1Gi"]),
            has_probe: name == "app" && random.percent(30),
            config: random.percent(20).then(|| format!("{image}-config")),
        }
    }
}

/// Returns a random UUID of version 4.
pub(super) fn uid(random: &mut Random) -> String {
    let (high, low) = (random.next(), random.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}
