//! The address of a flag such as `--listen`.

use std::net::{Ipv4Addr, SocketAddr};

const EXPECTED: &str = "expected IP:PORT such as 127.0.0.1:9464 or [::1]:9464, localhost:PORT, :PORT for all IPv4 addresses of this machine, \
                        or only PORT for 127.0.0.1";

/// Parses `IP:PORT`, `localhost:PORT`, `:PORT` or `PORT`. Resolves no other names.
///
/// # Errors
/// Returns the accepted forms. Clap shows the text after the flag and its value.
pub(super) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("localhost", text));
    let ip = match host {
        "" => Ipv4Addr::UNSPECIFIED,
        "localhost" => Ipv4Addr::LOCALHOST,
        _ => return Err(EXPECTED.to_owned()),
    };
    // The parser of numbers would also accept a sign.
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|_| is_number).ok_or(EXPECTED)?;
    Ok(SocketAddr::from((ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_forms_of_an_address_are_accepted() {
        for (text, address) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("0.0.0.0:8080", "0.0.0.0:8080"),
            ("[::1]:8080", "[::1]:8080"),
            ("[::]:8080", "[::]:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            (":8080", "0.0.0.0:8080"),
            (":0", "0.0.0.0:0"),
            ("8080", "127.0.0.1:8080"),
        ] {
            assert_eq!(parse(text).map(|address| address.to_string()).as_deref(), Ok(address), "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused_with_the_accepted_ones() {
        for text in [
            "",
            ":",
            "nowhere",
            "localhost",
            "127.0.0.1",
            "::1",
            "::1:8080",
            "[::1]",
            "example.com:80",
            ":65536",
            "+80",
            "localhost:-1",
            "http://127.0.0.1:80",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("localhost:PORT") && error.contains("[::1]:9464"), "{text}: {error}");
        }
    }
}
