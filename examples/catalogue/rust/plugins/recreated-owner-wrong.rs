//! The wrong twin of case 1.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::recreated_owner::RecreatedOwner>);
