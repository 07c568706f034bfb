//! The right twin of case 6.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::pod_per_node::PodPerNode>);
