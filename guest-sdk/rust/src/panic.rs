//! Logging of panics.

use std::panic::PanicHookInfo;
use std::sync::Once;

/// Installs a panic hook that writes message and location to the host's log, before the trap that ends the instance. The target has no
/// standard error.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    if cfg!(not(target_family = "wasm")) {
        return; // In a native test there is no host to log to, and the default hook prints.
    }
    INSTALLED.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let (message, location) = describe(panic);
            crate::error!("panicked at {location}: {message}");
        }));
    });
}

fn describe(panic: &PanicHookInfo<'_>) -> (String, String) {
    let message = panic.payload_as_str().unwrap_or("(the payload is not a text)").to_owned();
    let location = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
    (message, location)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_panic_is_described_with_its_location() {
        static DESCRIBED: Mutex<Option<(String, String)>> = Mutex::new(None);
        // Other tests may panic on their threads at the same time.
        let this_thread = std::thread::current().id();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == this_thread {
                *DESCRIBED.lock().unwrap() = Some(describe(panic));
            }
        }));
        let line = line!() + 1;
        let result = std::panic::catch_unwind(|| panic!("no {}", "image"));
        std::panic::set_hook(before);
        assert!(result.is_err());
        let (message, location) = DESCRIBED.lock().unwrap().take().unwrap();
        assert_eq!(message, "no image");
        assert!(location.contains(&format!("panic.rs:{line}:")), "{location}");
    }
}
