//! The wrong twin of case 6.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::pod_per_node::PodPerNode>);
