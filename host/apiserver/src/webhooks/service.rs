//! The address behind a Service, read from the objects of this server.
//!
//! There is no network of Pods. A webhook in a Service is therefore reached at the address that its EndpointSlices or Endpoints name, or at
//! the name of a Service of type `ExternalName`.

use serde_json::Value;

/// Returns the host and port to connect to for a port of a Service.
///
/// # Errors
/// The Service has no such port, or nothing is behind it.
pub(super) fn resolve(
    service: &Value,
    slices: &[Value],
    endpoints: Option<&Value>,
    port: u16,
) -> Result<(String, u16), String> {
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        return Ok((spec["externalName"].as_str().unwrap_or_default().to_owned(), port));
    }
    let port_name = items(&spec["ports"])
        .find(|candidate| candidate["port"] == port)
        .map(|candidate| candidate["name"].as_str().unwrap_or_default())
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let target_port = |ports: &Value| {
        items(ports)
            .find(|candidate| candidate["name"].as_str().unwrap_or_default() == port_name)
            .and_then(|candidate| candidate["port"].as_u64())
            .and_then(|port| u16::try_from(port).ok())
    };
    let in_slices = slices.iter().find_map(|slice| {
        let target = target_port(&slice["ports"])?;
        let ready = items(&slice["endpoints"]).find(|endpoint| endpoint["conditions"]["ready"] != false)?;
        Some((ready["addresses"][0].as_str()?.to_owned(), target))
    });
    let in_subsets = || {
        items(&endpoints?["subsets"]).find_map(|subset| {
            let target = target_port(&subset["ports"])?;
            Some((subset["addresses"][0]["ip"].as_str()?.to_owned(), target))
        })
    };
    in_slices.or_else(in_subsets).ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn address_of_a_service_comes_from_its_slices_then_its_endpoints() {
        let service = json!({
            "metadata": {"name": "s"}, "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 443}]},
        });
        let slice = json!({
            "ports": [{"name": "b", "port": 9443}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": false}}, {"addresses": ["10.0.0.2"]},
            ],
        });
        let endpoints =
            json!({"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "b", "port": 1}]}]});
        let found = resolve(&service, &[slice], Some(&endpoints), 443);
        assert_eq!(found, Ok(("10.0.0.2".to_owned(), 9443)));
        assert_eq!(resolve(&service, &[], Some(&endpoints), 443), Ok(("127.0.0.1".to_owned(), 1)));
        let empty = resolve(&service, &[], None, 443);
        assert_eq!(empty, Err("no endpoints available for service \"s\"".to_owned()));
        let missing = resolve(&service, &[], None, 444);
        assert_eq!(missing, Err("no service port 444 found for service \"s\"".to_owned()));
    }

    #[test]
    fn external_name_is_the_host() {
        let service = json!({"spec": {"type": "ExternalName", "externalName": "localhost"}});
        assert_eq!(resolve(&service, &[], None, 9443), Ok(("localhost".to_owned(), 9443)));
    }
}
