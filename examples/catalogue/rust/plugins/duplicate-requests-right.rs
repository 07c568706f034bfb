//! The right twin of case 18.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::duplicate_requests::DuplicateRequests>);
