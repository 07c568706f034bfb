//! The wrong twin of case 18.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::duplicate_requests::DuplicateRequests>);
