//! The right twin of case 1.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::recreated_owner::RecreatedOwner>);
