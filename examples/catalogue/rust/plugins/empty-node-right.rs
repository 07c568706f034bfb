//! The right twin of case 10.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::empty_node::EmptyNode>);
