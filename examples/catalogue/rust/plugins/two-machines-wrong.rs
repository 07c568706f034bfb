//! The wrong twin of case 17.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::two_machines::TwoMachines>);
