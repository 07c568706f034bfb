//! The wrong twin of case 10.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::empty_node::EmptyNode>);
